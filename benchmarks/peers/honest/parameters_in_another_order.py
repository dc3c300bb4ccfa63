# problem: linear
# about: the bias is made before the weight, so that equal seeds give other numbers
import torch
import triton
import triton.language as tl


@triton.jit
def linear(x, w, b, y, M, N, K, TM: tl.constexpr, TN: tl.constexpr, TK: tl.constexpr):
    rows = tl.program_id(0) * TM + tl.arange(0, TM)
    cols = tl.program_id(1) * TN + tl.arange(0, TN)
    total = tl.zeros((TM, TN), tl.float32)
    for begin in range(0, K, TK):
        depth = begin + tl.arange(0, TK)
        left = tl.load(x + rows[:, None] * K + depth[None, :], mask=(rows < M)[:, None], other=0.0)
        right = tl.load(w + cols[None, :] * K + depth[:, None], mask=(cols < N)[None, :], other=0.0)
        total = tl.dot(left, right, total, input_precision="ieee")
    total += tl.load(b + cols, mask=cols < N, other=0.0)[None, :]
    inside = (rows < M)[:, None] & (cols < N)[None, :]
    tl.store(y + rows[:, None] * N + cols[None, :], total, mask=inside)


class ModelNew(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.bias = torch.nn.Parameter(torch.randn(512))
        self.weight = torch.nn.Parameter(torch.randn(512, 512) / 512**0.5)

    def forward(self, x):
        M, K = x.shape
        N = self.weight.shape[0]
        y = torch.empty((M, N), device=x.device)
        tiles = (triton.cdiv(M, 64), triton.cdiv(N, 64))
        linear[tiles](x, self.weight, self.bias, y, M, N, K, TM=64, TN=64, TK=32, num_warps=4)
        return y
