"""Operations of what a program leaves to PyTorch, counted without data by PyTorch's own counter."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from evaluators.ir.kernel import Buffer, LibraryCall, Ref


def library_operations(call: LibraryCall, buffers: Mapping[str, Buffer]) -> int:
    """Operations of the call's products (convolutions, matrix products, attention), multiply and add one each.

    A convolution counts as the direct one; faster algorithms exist for some. Operators without products (sorting, pooling) count
    nothing, which leaves a bound a bound.
    """
    import torch
    from torch.utils.flop_counter import FlopCounterMode

    packet, _, overload = call.target.removeprefix("aten::").partition(".")
    operator = getattr(getattr(torch.ops.aten, packet), overload or "default")

    def plain(value: Any) -> Any:
        if isinstance(value, Ref):
            b = buffers[value.buffer]
            return torch.empty(b.shape, dtype=getattr(torch, b.dtype), device="meta")
        if isinstance(value, (list, tuple)):
            return [plain(v) for v in value]
        return torch.device("meta") if isinstance(value, torch.device) else value

    counter = FlopCounterMode(display=False)
    try:
        with counter, torch.no_grad():
            operator(*map(plain, call.args), **{k: plain(v) for k, v in call.kwargs})
    except (NotImplementedError, RuntimeError):
        return 0  # no rule for shapes alone, which every operator with a count has
    return int(counter.get_total_flops())
