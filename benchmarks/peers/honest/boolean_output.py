# problem: mask
# about: the result is a mask
import torch
import triton
import triton.language as tl


@triton.jit
def greater(x, y, z, count, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    tl.store(z + at, tl.load(x + at, mask=at < count) > tl.load(y + at, mask=at < count), mask=at < count)


class ModelNew(torch.nn.Module):
    def forward(self, x, y):
        z = torch.empty(x.shape, dtype=torch.bool, device=x.device)
        greater[(triton.cdiv(x.numel(), 1024),)](x, y, z, x.numel(), BLOCK=1024)
        return z
