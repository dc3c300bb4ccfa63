# problem: expanded
# about: all rows of one input are the same memory
import torch
import triton
import triton.language as tl


@triton.jit
def multiply(x, y, z, cols, down, across, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    left = tl.load(x + row * down + at * across, mask=at < cols)
    right = tl.load(y + row * cols + at, mask=at < cols)
    tl.store(z + row * cols + at, left * right, mask=at < cols)


class ModelNew(torch.nn.Module):
    def forward(self, x, y):
        rows, cols = y.shape
        z = torch.empty_like(y)
        multiply[(rows, triton.cdiv(cols, 1024))](x, y, z, cols, *x.stride(), BLOCK=1024)
        return z
