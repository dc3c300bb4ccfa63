"""Tile dimensions and the small texts built from them: index variables bound to loop axes, strides along them, literals."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from evaluators.ir.expr import Affine, Expr, affine
from evaluators.ir.kernel import Axis

DTYPES = {
    "float32": "tl.float32", "float16": "tl.float16", "bfloat16": "tl.bfloat16", "float64": "tl.float64",
    "int64": "tl.int64", "int32": "tl.int32", "int16": "tl.int16", "int8": "tl.int8", "uint8": "tl.uint8",
    "bool": "tl.int1",
}  # fmt: skip
KINDS = {"f32": "tl.float32", "f64": "tl.float64", "i64": "tl.int64", "i32": "tl.int32", "bool": "tl.int1"}


@dataclass(frozen=True)
class Dim:
    """A run of axes (outer to inner) walked by one index variable.

    ``var`` names the index: a 1-D tile of ``block`` consecutive values where ``position`` is a tile dimension, a scalar where it is
    ``None``. ``exact`` says the index never leaves the axes' domain, so no mask is needed. A ragged axis is bounded by ``limit``.
    """

    axes: tuple[Axis, ...]
    var: str
    position: int | None = None
    block: int | str = 1
    exact: bool = False
    limit: str = ""
    folded: bool = False
    """Whether reductions run along this dimension (columns) or not (rows)."""

    @property
    def extent(self) -> int:
        """Number of points the index walks (the expected number, for a ragged axis)."""
        return math.prod(a.extent for a in self.axes)

    @property
    def names(self) -> frozenset[str]:
        """Names of its axes."""
        return frozenset(a.name for a in self.axes)


@dataclass(frozen=True)
class Text:
    """A value in emitted code: its text, the tile dimensions it spans, and whether an integer is 64 bits wide."""

    text: str
    dims: frozenset[int] = frozenset()
    wide: bool = False
    literal: bool = False


def without(index: Affine, term: Expr) -> Affine:
    return affine(index.const, dict(index.axes), {t: c for t, c in index.terms if t is not term})


def merged(d: Dim, coefficients: Mapping[str, int]) -> int | None:
    """The single stride along a run of axes, where their strides are those of a row-major array."""
    inner = d.axes[-1]
    c = coefficients.get(inner.name, 0)
    expected = c
    for a in reversed(d.axes):
        if coefficients.get(a.name, 0) != expected:
            return None
        expected *= a.extent
    return c


def scaled(text: str, c: int) -> str:
    return text if c == 1 else f"{text} * {c}"


def literal(value: float | int | bool) -> str:
    if isinstance(value, bool):
        return str(value)
    if isinstance(value, float) and not math.isfinite(value):
        return f'float("{value}")'
    return repr(value)
