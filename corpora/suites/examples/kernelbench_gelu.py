"""A problem in KernelBench's form: a linear layer followed by GELU and a residual scale."""

import torch
import torch.nn.functional as F
from torch import nn


class Model(nn.Module):
    """Linear, then GELU in its tanh form, scaled."""

    def __init__(self, in_features: int, out_features: int, scale: float) -> None:
        super().__init__()
        self.linear = nn.Linear(in_features, out_features)
        self.scale = scale

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.gelu(self.linear(x), approximate="tanh") * self.scale


batch_size = 1024
in_features = 512
out_features = 1024


def get_inputs() -> list[torch.Tensor]:
    return [torch.randn(batch_size, in_features)]


def get_init_inputs() -> list[object]:
    return [in_features, out_features, 0.5]
