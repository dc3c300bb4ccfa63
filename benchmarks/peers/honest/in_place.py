# problem: inplace
# about: changes its input, as the reference does
import torch
import triton
import triton.language as tl


@triton.jit
def apply(x, y, count, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at, mask=at < count)
    tl.store(y + at, value * 2 + 1, mask=at < count)


class ModelNew(torch.nn.Module):
    def forward(self, x):
        apply[(triton.cdiv(x.numel(), 1024),)](x, x, x.numel(), BLOCK=1024)
        return x
