# problem: nan
# about: half of the reference's results are NaN, and so are these
import torch
import triton
import triton.language as tl


@triton.jit
def apply(x, y, count, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at, mask=at < count)
    tl.store(y + at, tl.sqrt(value), mask=at < count)


class ModelNew(torch.nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        if y.numel():
            apply[(triton.cdiv(x.numel(), 1024),)](x, y, x.numel(), BLOCK=1024)
        return y
