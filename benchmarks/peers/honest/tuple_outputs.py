# problem: mean_and_variance
# about: two results
import torch
import triton
import triton.language as tl


@triton.jit
def moments(x, means, variances, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, BLOCK)
    value = tl.load(x + row * cols + at, mask=at < cols, other=0.0)
    mean = tl.sum(value, 0) / cols
    away = tl.where(at < cols, value - mean, 0.0)
    tl.store(means + row, mean)
    tl.store(variances + row, tl.sum(away * away, 0) / cols)


class ModelNew(torch.nn.Module):
    def forward(self, x):
        rows, cols = x.shape
        means = torch.empty(rows, device=x.device)
        variances = torch.empty(rows, device=x.device)
        moments[(rows,)](x, means, variances, cols, BLOCK=triton.next_power_of_2(cols), num_warps=8)
        return means, variances
