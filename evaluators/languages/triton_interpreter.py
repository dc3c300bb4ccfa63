"""Triton's interpreter, made fit for checking numerics on a CPU.

As shipped it computes on the bit patterns of bfloat16 values as if they were integers and truncates instead of rounding on conversion to
bfloat16; both are put right here: bfloat16 arithmetic is float32 arithmetic, rounded after each operation. Precision modes of ``tl.dot``
are not modelled: TF32 and its splits give full float32 results.
"""

from __future__ import annotations

from typing import Any

import numpy as np

_FLOATING = (
    "create_fadd create_fsub create_fmul create_fdiv create_frem create_precise_divf create_fma create_clampf "
    "create_minimumf create_minnumf create_maximumf create_maxnumf create_cos create_sin create_exp create_exp2 create_log create_log2 "
    "create_sqrt create_precise_sqrt create_rsqrt create_erf create_floor create_ceil"
).split()


def repair() -> None:
    """Patch the interpreter of this process; call before the candidate is imported, with TRITON_INTERPRET=1 set."""
    import triton.language as tl
    from triton.runtime import autotuner, interpreter

    shipped_convert = interpreter._convert_float
    shipped_dot = interpreter.InterpreterBuilder.create_dot

    def convert(data: Any, source: Any, result: Any, rounding_mode: Any) -> Any:
        if source == tl.float32 and result == tl.bfloat16:
            return to_bfloat16(data)
        if source == tl.bfloat16 and result == tl.float32:
            return to_float32(data).view(np.uint32)
        return shipped_convert(data, source, result, rounding_mode)

    def dot(self: Any, a: Any, b: Any, d: Any, input_precision: Any, max_num_imprecise_acc: Any) -> Any:
        if tl.bfloat16 in (a.dtype.scalar, b.dtype.scalar):
            left = to_float32(a.data) if a.dtype.scalar == tl.bfloat16 else a.data
            right = to_float32(b.data) if b.dtype.scalar == tl.bfloat16 else b.data
            return interpreter.TensorHandle(np.matmul(left, right, dtype=d.data.dtype) + d.data, d.dtype.scalar)
        return shipped_dot(self, a, b, d, input_precision, max_num_imprecise_acc)

    def widened(shipped: Any) -> Any:
        def compute(self: Any, *args: Any) -> Any:
            if not any(getattr(a, "dtype", None) is not None and a.dtype.scalar == tl.bfloat16 for a in args):
                return shipped(self, *args)
            wide = [
                interpreter.TensorHandle(to_float32(a.data), tl.float32)
                if getattr(a, "dtype", None) is not None and a.dtype.scalar == tl.bfloat16
                else a
                for a in args
            ]
            result = shipped(self, *wide).data
            return interpreter.TensorHandle(to_bfloat16(result) if result.dtype == np.float32 else result, tl.bfloat16)

        return compute

    builder = interpreter.InterpreterBuilder
    for name in [*_FLOATING, *(n for n in dir(builder) if n.startswith("create_fcmp"))]:
        if hasattr(builder, name):
            setattr(builder, name, widened(getattr(builder, name)))
    interpreter._convert_float = convert
    interpreter.InterpreterBuilder.create_dot = dot
    autotuner.Autotuner.run = first_config


def to_float32(bits: Any) -> Any:
    """bfloat16 bit patterns (uint16) as float32 values."""
    return (np.ascontiguousarray(bits).astype(np.uint32) << 16).view(np.float32)


def to_bfloat16(values: Any) -> Any:
    """float32 values as bfloat16 bit patterns (uint16), rounded to nearest even; NaN stays NaN."""
    values = np.ascontiguousarray(values)
    bits = values.view(np.uint32)
    rounded = ((bits.astype(np.uint64) + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)
    return np.where(np.isnan(values), np.uint16(0x7FC0), rounded)


def first_config(self: Any, *args: Any, **kwargs: Any) -> Any:
    """Stand-in for ``Autotuner.run`` where nothing can be timed: the first configuration."""
    config = self.configs[0]
    return self.fn.run(*args, **kwargs, **config.all_kwargs())
