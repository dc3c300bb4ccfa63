# problem: gelu
# needs: gpu
# about: configurations are measured at the first call
import torch
import triton
import triton.language as tl


@triton.autotune([triton.Config({"BLOCK": 1024}), triton.Config({"BLOCK": 2048}, num_warps=8)], key=["count"])
@triton.jit
def apply(x, y, count, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at, mask=at < count)
    tl.store(y + at, 0.5 * value * (1.0 + tl.erf(value * 0.7071067811865476)), mask=at < count)


class ModelNew(torch.nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        apply[lambda chosen: (triton.cdiv(x.numel(), chosen["BLOCK"]),)](x, y, x.numel())
        return y
