"""Roofline: the least time counted bytes and operations allow on a target (Williams, Waterman and Patterson, CACM 52(4), 2009)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from evaluators.target import Target
from evaluators.verdict import Roofline

if TYPE_CHECKING:
    from evaluators.ir.facts import Work

_SPLITS = 3  # half-precision products that one float32 product needs at float32 accuracy (Ootomo and Yokota 2022, arXiv 2203.03341)


def roofline(work: Work, target: Target, measured_ms: float | None = None) -> Roofline:
    """Bound of ``work`` (compulsory bytes, operations, how many of them in matrix products) on ``target``.

    ``bound_ms`` = max(bytes / bandwidth, vector operations / vector rate + product operations / matrix rate), in milliseconds;
    ``fraction`` = bound / measured. The matrix rate of float32 is what split half-precision products could reach, where that is more;
    convolutions of float32 may run in TF32, at its rate where that is more.
    """
    memory_ms = work.bytes / (target.memory_bandwidth_gbs * 1e9) * 1e3
    vector, matrix = vector_rate(target, work.dtype), matrix_rate(target, work.dtype)
    folded = max(matrix, target.peak_tflops.get("tensor_float32", 0.0)) if work.dtype == "float32" else matrix
    seconds = (work.operations - work.matmul) / (vector * 1e12)
    seconds += (work.matmul - work.convolution) / (matrix * 1e12) + work.convolution / (folded * 1e12)
    compute_ms = seconds * 1e3
    bound = max(memory_ms, compute_ms)
    return Roofline(
        bytes=work.bytes,
        operations=work.operations,
        bound_ms=bound,
        limit="memory" if memory_ms >= compute_ms else "compute",
        fraction=bound / measured_ms if measured_ms else None,
        bandwidth_gbs=target.memory_bandwidth_gbs,
        rate_tflops=vector if 2 * work.matmul <= work.operations else folded if work.convolution else matrix,
    )


def vector_rate(target: Target, dtype: str) -> float:
    """TFLOP/s of ordinary arithmetic: float32 units, whatever the storage type; float64 has its own."""
    return _rate(target, ("float64", "float32") if dtype == "float64" else ("float32",))


def matrix_rate(target: Target, dtype: str) -> float:
    """TFLOP/s of matrix products at the accuracy of ``dtype``."""
    if dtype == "float32":
        half = (
            max(target.peak_tflops.get("bfloat16", 0.0), target.peak_tflops.get("float16", 0.0))
            if target.kind == "gpu"
            else 0.0
        )
        return max(_rate(target, ("float32",)), half / _SPLITS)
    return _rate(target, (dtype, "float16", "bfloat16", "float32"))


def _rate(target: Target, names: tuple[str, ...]) -> float:
    for name in names:
        if target.peak_tflops.get(name):
            return target.peak_tflops[name]
    return max(target.peak_tflops.values())
