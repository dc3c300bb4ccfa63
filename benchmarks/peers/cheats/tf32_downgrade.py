# problem: matmul_rand
# needs: gpu
# about: float32 operands are rounded to TF32
import torch
import triton
import triton.language as tl


@triton.jit
def matmul(a, b, c, M, N, K, TM: tl.constexpr, TN: tl.constexpr, TK: tl.constexpr):
    rows = tl.program_id(0) * TM + tl.arange(0, TM)
    cols = tl.program_id(1) * TN + tl.arange(0, TN)
    total = tl.zeros((TM, TN), tl.float32)
    for begin in range(0, K, TK):
        depth = begin + tl.arange(0, TK)
        left = tl.load(a + rows[:, None] * K + depth[None, :], mask=(rows < M)[:, None], other=0.0)
        right = tl.load(b + depth[:, None] * N + cols[None, :], mask=(cols < N)[None, :], other=0.0)
        total = tl.dot(left, right, total, input_precision="tf32")
    inside = (rows < M)[:, None] & (cols < N)[None, :]
    tl.store(c + rows[:, None] * N + cols[None, :], total.to(c.dtype.element_ty), mask=inside)


class ModelNew(torch.nn.Module):
    def forward(self, a, b):
        M, K = a.shape
        N = b.shape[1]
        c = torch.empty((M, N), dtype=a.dtype, device=a.device)
        tiles = (triton.cdiv(M, 64), triton.cdiv(N, 64))
        matmul[tiles](a, b, c, M, N, K, TM=64, TN=64, TK=32, num_warps=4)
        return c
