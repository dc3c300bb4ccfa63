# problem: transposed
# about: reads through the input's strides
import torch
import triton
import triton.language as tl


@triton.jit
def silu(x, y, rows, cols, down, across, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + row * down + at.to(tl.int64) * across, mask=at < cols, other=0.0)
    tl.store(y + row * down + at.to(tl.int64) * across, value / (1.0 + tl.exp(-value)), mask=at < cols)


class ModelNew(torch.nn.Module):
    def forward(self, x):
        rows, cols = x.shape
        y = torch.empty_like(x)
        silu[(rows, triton.cdiv(cols, 1024))](x, y, rows, cols, *x.stride(), BLOCK=1024)
        return y
