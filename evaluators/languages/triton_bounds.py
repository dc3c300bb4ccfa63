"""Bounds in Triton's interpreter: every active address of a launch must lie in the memory of a tensor that the launch was given.

The interpreter works on plain addresses, so an access outside of all tensors reads or changes whatever lies there and mostly goes
unseen: what a tile writes too much, the next tile writes again.
"""

from __future__ import annotations

from typing import Any

import numpy as np

_starts = np.zeros(0, np.uint64)
_ends = np.zeros(0, np.uint64)
_kernel = ""


class OutOfBounds(Exception):
    """A kernel reads or writes outside of the tensors it was given."""


def watch() -> None:
    """Patch the interpreter of this process so that out-of-bounds accesses raise :class:`OutOfBounds`."""
    from triton.runtime import interpreter

    builder, executor = interpreter.InterpreterBuilder, interpreter.GridExecutor
    arguments = executor._init_args_hst
    load, store = builder.create_masked_load, builder.create_masked_store
    rmw, cas = builder.create_atomic_rmw, builder.create_atomic_cas

    def init_args_hst(self: Any, args_dev: Any, kwargs: Any) -> Any:
        found = arguments(self, args_dev, kwargs)
        _enter(getattr(self.fn, "__name__", "kernel"), [*found[0], *found[1].values()])
        return found

    def masked_load(self: Any, ptrs: Any, mask: Any, *rest: Any, **named: Any) -> Any:
        _check(ptrs, mask.data, "reads")
        return load(self, ptrs, mask, *rest, **named)

    def masked_store(self: Any, ptrs: Any, value: Any, mask: Any, *rest: Any, **named: Any) -> Any:
        _check(ptrs, mask.data, "writes")
        return store(self, ptrs, value, mask, *rest, **named)

    def atomic_rmw(self: Any, op: Any, ptr: Any, val: Any, mask: Any, *rest: Any, **named: Any) -> Any:
        _check(ptr, mask.data, "adds to")
        return rmw(self, op, ptr, val, mask, *rest, **named)

    def atomic_cas(self: Any, ptr: Any, *rest: Any, **named: Any) -> Any:
        _check(ptr, np.ones(ptr.data.shape, bool), "writes")
        return cas(self, ptr, *rest, **named)

    executor._init_args_hst = init_args_hst
    builder.create_masked_load, builder.create_masked_store = masked_load, masked_store
    builder.create_atomic_rmw, builder.create_atomic_cas = atomic_rmw, atomic_cas


def _enter(kernel: str, values: list[Any]) -> None:
    """Take the memory of a launch's tensors as what it may touch. Whole storages: a pointer into a packed tensor may reach all of it."""
    global _starts, _ends, _kernel
    ranges: list[tuple[int, int]] = []
    todo = list(values)
    while todo:
        value = todo.pop()
        if isinstance(value, (tuple, list)):
            todo += value
        elif hasattr(value, "base") and not hasattr(value, "data_ptr"):
            todo.append(value.base)
        elif hasattr(value, "untyped_storage"):
            storage = value.untyped_storage()
            ranges.append((storage.data_ptr(), storage.data_ptr() + storage.nbytes()))
    ranges.sort()
    _starts = np.array([r[0] for r in ranges], np.uint64)
    _ends = np.maximum.accumulate(np.array([r[1] for r in ranges], np.uint64)) if ranges else np.zeros(0, np.uint64)
    _kernel = kernel


def _check(ptrs: Any, mask: Any, what: str) -> None:
    addresses = np.broadcast_to(ptrs.data, np.broadcast_shapes(ptrs.data.shape, mask.shape))
    active = addresses[np.broadcast_to(mask, addresses.shape).astype(bool)].astype(np.uint64)
    if not active.size:
        return
    size = np.uint64(max(ptrs.get_element_ty().primitive_bitwidth // 8, 1))
    at = np.searchsorted(_starts, active, side="right").astype(np.int64) - 1
    outside = at < 0
    if _ends.size:
        outside |= active + size > _ends[np.maximum(at, 0)]
    if outside.any():
        where = int(active[outside.argmax()])
        beyond = where - int(_ends[max(int(at[outside.argmax()]), 0)]) if _ends.size else 0
        raise OutOfBounds(
            f"kernel {_kernel} {what} {int(outside.sum())} element(s) outside of the tensors it was given; the first lies "
            f"{beyond} bytes past the end of the nearest one below: mask the access"
        )
