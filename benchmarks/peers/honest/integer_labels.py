# problem: cross_entropy
# about: labels are integers and stay so
import torch
import triton
import triton.language as tl


@triton.jit
def losses(x, labels, parts, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, BLOCK)
    value = tl.load(x + row * cols + at, mask=at < cols, other=float("-inf"))
    top = tl.max(value, 0)
    total = tl.log(tl.sum(tl.exp(value - top), 0)) + top
    tl.store(parts + row, total - tl.load(x + row * cols + tl.load(labels + row)))


@triton.jit
def average(parts, y, count, BLOCK: tl.constexpr):
    total = tl.zeros((BLOCK,), tl.float32)
    for begin in range(0, count, BLOCK):
        at = begin + tl.arange(0, BLOCK)
        total += tl.load(parts + at, mask=at < count, other=0.0)
    tl.store(y, tl.sum(total, 0) / count)


class ModelNew(torch.nn.Module):
    def forward(self, x, labels):
        rows, cols = x.shape
        parts = torch.empty(rows, device=x.device)
        y = torch.empty((), device=x.device)
        losses[(rows,)](x, labels, parts, cols, BLOCK=triton.next_power_of_2(cols), num_warps=8)
        average[(1,)](parts, y, rows, BLOCK=1024)
        return y
