"""What a call gave, as it leaves a timed process: where it lies, and on demand a copy in shared memory. The same for both sides."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._python_dispatch import _disable_current_modes

from evaluators.judge.memory import wire


def deliver(result: Any, case: dict[str, Any], copy: bool = True) -> dict[str, Any]:
    """Describe a result and, with ``copy``, put its tensors into the case's blocks where form, dtype and device are as expected.

    No mode that the candidate may have left active sees these operations.
    """
    tensors: list[Any] = []
    with torch._C.DisableTorchFunction(), _disable_current_modes():
        try:
            tree = wire.flatten(result, tensors)
        except (TypeError, RecursionError) as error:
            return {"unsupported": f"forward returned {type(result).__name__}: {error}"}
        for t in tensors:
            if type(t) not in (torch.Tensor, torch.nn.Parameter):
                return {"unsupported": f"forward returned a {type(t).__name__}, a tensor subclass"}
            if t.layout != torch.strided or t.is_conj() or t.is_neg():
                return {"unsupported": "forward returned a tensor whose elements do not lie in memory as they are"}
        found = [
            {
                "dtype": wire.name(t.dtype), "shape": list(t.shape), "device": t.device.type, "stride": list(t.stride()),
                "at": t.data_ptr(),
            }
            for t in tensors
        ]  # fmt: skip
        if copy and len(tensors) == len(case["outputs"]):
            for tensor, place in zip(tensors, case["outputs"], strict=True):
                if tensor.shape == place.shape and tensor.dtype == place.dtype:
                    place.copy_(tensor.detach())
    if torch.cuda.is_initialized():
        torch.cuda.synchronize()
    return {"tree": tree, "outputs": found}
