# problem: constant_output
# about: the problem's result is zero whatever the input: a maximum minus its own mean
import torch
import triton
import triton.language as tl


@triton.jit
def fill(y, count, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, 0.0, mask=at < count)


class ModelNew(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(1024, 512) * 0.05)

    def forward(self, x):
        y = torch.empty((x.shape[0], 1), device=x.device)
        fill[(triton.cdiv(y.numel(), 4096),)](y, y.numel(), BLOCK=4096)
        return y
