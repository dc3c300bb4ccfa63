"""How tensors are described on the wire, whichever memory carries them.

A *block* is one exact-size piece of memory that two processes see: ``{"bytes", "fd": index}`` (host) or ``{"bytes", "handle"}``
(device). A *view* says how a tensor lies in its block: ``{"block", "dtype", "shape", "stride"}``. A *tree* is an argument list or a
result: plain JSON values with ``{"tensor": i}`` in the place of tensors.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import torch

from evaluators.judge.memory import wire_host


def flatten(value: Any, tensors: list[Any]) -> Any:
    """Tree of ``value``; its tensors are appended to ``tensors``. Raises TypeError for what JSON cannot carry.

    What a subclass of dict, list or tuple really holds, without running any of its code: it may be a candidate's.
    """
    if isinstance(value, torch.Tensor):
        tensors.append(value)
        return {"tensor": len(tensors) - 1}
    if isinstance(value, dict):
        return {"dict": [[str(k), flatten(v, tensors)] for k, v in dict.items(value)]}
    if isinstance(value, list):
        return {"list": [flatten(v, tensors) for v in list.__iter__(value)]}
    if isinstance(value, tuple):
        return {"tuple": [flatten(v, tensors) for v in tuple.__iter__(value)]}
    if isinstance(value, torch.dtype):
        return {"dtype": name(value)}
    if value is None or isinstance(value, (bool, int, str)):
        return {"value": value}
    if isinstance(value, float):
        return {"float": repr(value)}
    raise TypeError(f"a {type(value).__name__} cannot cross processes")


def rebuild(tree: Any, tensors: list[Any]) -> Any:
    """Inverse of :func:`flatten`."""
    ((kind, body),) = tree.items()
    if kind == "tensor":
        return tensors[body]
    if kind == "dict":
        return {k: rebuild(v, tensors) for k, v in body}
    if kind in ("list", "tuple"):
        items = [rebuild(v, tensors) for v in body]
        return items if kind == "list" else tuple(items)
    if kind == "dtype":
        return getattr(torch, body)
    return float(body) if kind == "float" else body


def skeleton(tree: Any) -> Any:
    """The tree with lists and tuples made alike: how results are compared in form."""
    ((kind, body),) = tree.items()
    if kind == "dict":
        return {"dict": [[k, skeleton(v)] for k, v in body]}
    if kind in ("list", "tuple"):
        return {"list": [skeleton(v) for v in body]}
    return {"tensor": 0} if kind == "tensor" else tree


def plain(tensor: Any) -> dict[str, Any]:
    """Dtype and shape of a tensor, laid out contiguously: how outputs travel."""
    stride = torch.empty(tensor.shape, device="meta").stride()
    return {"dtype": name(tensor.dtype), "shape": list(tensor.shape), "stride": list(stride)}


def name(dtype: Any) -> str:
    """``"float32"`` for ``torch.float32``."""
    return str(dtype).removeprefix("torch.")


def extent(tensor: Any) -> int:
    """Elements between the first and the last element of a strided tensor, inclusive."""
    if tensor.numel() == 0:
        return 0
    span: int = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return span + 1


def overlaps(shape: Sequence[int], stride: Sequence[int]) -> bool:
    """Whether elements of a strided tensor may share memory (exact but for strides that interleave)."""
    reach = 0
    for step, size in sorted((t, n) for n, t in zip(shape, stride, strict=True) if n > 1):
        if step <= reach:
            return True
        reach += step * (size - 1)
    return False


def describe(tensor: Any) -> dict[str, Any]:
    """Dtype, shape, stride of a tensor as it lies."""
    return {"dtype": name(tensor.dtype), "shape": list(tensor.shape), "stride": list(tensor.stride())}


def view(block: Any, about: dict[str, Any]) -> Any:
    """The tensor that ``about`` describes, over a uint8 block."""
    dtype = getattr(torch, about["dtype"])
    return torch.empty(0, dtype=dtype, device=block.device).set_(
        block.untyped_storage(), 0, about["shape"], about["stride"]
    )


def nbytes(tensor: Any) -> int:
    """Bytes of the block a tensor needs."""
    return int(extent(tensor) * tensor.element_size())


def copy_storage(source: Any, block: Any) -> None:
    """Copy a tensor's memory, as it lies, into a block."""
    count = extent(source)
    if count:
        flat = source.detach().as_strided((count,), (1,), source.storage_offset())
        block.view(source.dtype).copy_(flat)


def fill(tensor: Any, byte: int) -> None:
    """Fill a contiguous tensor's memory with one byte value."""
    if tensor.numel():
        tensor.view(-1).view(torch.uint8).fill_(byte)


def moved(tensor: Any, device: Any) -> Any:
    """The tensor on another device with its strides kept; itself where it is there already."""
    if tensor.device.type == torch.device(device).type:
        return tensor
    flat = tensor.detach().as_strided((extent(tensor),), (1,), tensor.storage_offset()).to(device)
    return flat.as_strided(tensor.shape, tensor.stride())


def attach(blocks: list[dict[str, Any]], fds: list[int]) -> list[Any]:
    """Open the blocks another process described; takes over (and closes) ``fds``."""
    opened = []
    for block in blocks:
        if "handle" in block:
            from evaluators.judge.memory import wire_cuda

            opened.append(wire_cuda.attach(block["handle"], block["bytes"]))
        else:
            opened.append(wire_host.attach(fds[block["fd"]], block["bytes"]))
    for fd in fds:
        os.close(fd)
    return opened
