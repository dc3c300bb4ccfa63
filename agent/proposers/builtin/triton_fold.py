"""How partial results of reductions and scans are started, combined and folded along a tile dimension, as Triton text."""

from __future__ import annotations

from agent.proposers.builtin.triton_dims import KINDS
from evaluators.ir.kernel import Reduction, Scan

_IDENTITY = {"sum": "0", "prod": "1", "max": 'float("-inf")', "min": 'float("inf")', "any": "0", "all": "1"}
_INT_EDGE = {"max": "-2147483648", "min": "2147483647"}
_INT64_EDGE = {"max": "-9223372036854775808", "min": "9223372036854775807"}


def identity(r: Reduction | Scan) -> str:
    """The fold's neutral element, in the accumulator's type."""
    if r.kind == "i64" and r.combine in _INT64_EDGE:
        return _INT64_EDGE[r.combine]
    if r.kind == "i32" and r.combine in _INT_EDGE:
        return _INT_EDGE[r.combine]
    value = _IDENTITY[r.combine]
    return f"{value}.0" if r.kind in ("f32", "f64") and value.isdigit() else value


def accumulator_type(r: Reduction | Scan) -> str:
    """Type of a reduction's accumulator."""
    return "tl.int32" if r.combine in ("any", "all") or r.kind == "bool" else KINDS[r.kind]


def combine(r: Reduction | Scan, a: str, b: str, plain: bool = False) -> str:
    """Text that folds two partial results."""
    if r.combine in ("sum", "prod"):
        return f"{a} {'+' if r.combine == 'sum' else '*'} {b}"
    if r.combine in ("any", "all"):
        return f"{a} {'|' if r.combine == 'any' else '&'} {b}"
    nan = "" if plain or r.kind not in ("f32", "f64") else ", propagate_nan=tl.PropagateNan.ALL"
    return f"tl.{'maximum' if r.combine == 'max' else 'minimum'}({a}, {b}{nan})"


def fold(r: Reduction, text: str, position: int, plain: bool = False) -> str:
    """Text that folds a tile along one dimension, which stays with size 1."""
    if r.combine == "sum":
        return f"tl.sum({text}, axis={position}, keep_dims=True)"
    if r.combine == "prod":
        return f"tl.reduce({text}, {position}, _mul, keep_dims=True)"
    largest = r.combine in ("max", "any")
    if plain or r.combine in ("any", "all"):
        return f"tl.{'max' if largest else 'min'}({text}, axis={position}, keep_dims=True)"
    return f"tl.reduce({text}, {position}, {'_nanmax' if largest else '_nanmin'}, keep_dims=True)"
