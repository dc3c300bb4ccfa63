"""Run PyTorch code with every narrower floating type it asks for replaced by float64."""

from __future__ import annotations

from typing import Any

import torch

from evaluators.dispatch_mode import DispatchMode

_NARROW = (torch.float32, torch.float16, torch.bfloat16)


class Widen(DispatchMode):
    """Casts and factories inside the mode make float64 where they were asked for float32, float16 or bfloat16."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        wide = tuple(_wide(a) for a in args)
        return func(*wide, **{k: _wide(v) for k, v in (kwargs or {}).items()})


def _wide(value: Any) -> Any:
    return torch.float64 if isinstance(value, torch.dtype) and value in _NARROW else value


class Wide(torch.nn.Module):  # type: ignore[misc]
    """``inner`` run in float64 throughout, new tensors of the default type included.

    A module around it, not another ``forward`` in it: that would be a circle of references, and its copies of all parameters would lie in
    memory until the garbage collector comes.
    """

    def __init__(self, inner: torch.nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        before = torch.get_default_dtype()
        torch.set_default_dtype(torch.float64)
        try:
            with Widen():
                return self.inner(*args, **kwargs)
        finally:
            torch.set_default_dtype(before)
