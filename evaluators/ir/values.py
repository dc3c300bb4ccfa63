"""Tensors during lowering: functions from indices to expressions, so that views and pointwise operators cost nothing.

A fold (reduction) or scan stays pending until :mod:`evaluators.ir.fuse` places it in a kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from evaluators.ir.expr import Expr, Kind, cast, load, pending
from evaluators.ir.index import flatten
from evaluators.ir.kernel import Buffer, Combine, Kernel, LibraryCall

Point = tuple[Expr, ...]

KIND_OF: dict[str, Kind] = {
    "float32": "f32", "float16": "f32", "bfloat16": "f32", "float64": "f64",
    "int64": "i64", "int32": "i32", "int16": "i32", "int8": "i32", "uint8": "i32", "bool": "bool",
}  # fmt: skip


class Value:
    """A tensor: ``shape``, torch ``dtype`` name, and its element at a point. Equal points give the identical expression."""

    def __init__(self, shape: Sequence[int], dtype: str, at: Callable[[Point], Expr]) -> None:
        self.shape = tuple(int(s) for s in shape)
        self.dtype = dtype
        self._at = at
        self._memo: dict[tuple[int, ...], Expr] = {}

    @property
    def kind(self) -> Kind:
        """Compute type of the elements."""
        return KIND_OF[self.dtype]

    def at(self, point: Point) -> Expr:
        """The element at a point, in the compute type."""
        key = tuple(map(id, point))
        found = self._memo.get(key)
        if found is None:
            found = self._memo[key] = cast(self._at(point), self.kind)
        return found


@dataclass(frozen=True)
class Ragged:
    """Columns delimited by data: bounds as functions of the outer point, and the expected length."""

    bounds: Callable[[Point], tuple[Expr, Expr]]
    mean: int


@dataclass(frozen=True)
class Fold:
    """A pending reduction over ``cols`` for every point of ``outer``."""

    name: str
    combine: Combine
    outer: tuple[int, ...]
    cols: tuple[int, ...] | Ragged
    body: Callable[[Point, Point], Expr]
    kind: Kind
    dtype: str
    contraction: bool = False


@dataclass(frozen=True)
class Run:
    """A pending inclusive scan along dimension ``dim`` of ``shape``."""

    name: str
    combine: str
    shape: tuple[int, ...]
    dim: int
    body: Callable[[Point], Expr]
    kind: Kind
    dtype: str


@dataclass
class Lowering:
    """Everything gathered while one graph is lowered."""

    buffers: dict[str, Buffer] = field(default_factory=dict)
    steps: list[Kernel | LibraryCall] = field(default_factory=list)
    folds: dict[str, Fold] = field(default_factory=dict)
    runs: dict[str, Run] = field(default_factory=dict)
    realized: dict[str, str] = field(default_factory=dict)
    """Pending name → scratch buffer that holds it."""
    extents: dict[str, int] = field(default_factory=dict)
    """Extent of every axis in use; ragged axes are absent."""

    def fresh(self, prefix: str) -> str:
        """A name not used before."""
        used = {
            *self.buffers,
            *self.folds,
            *self.runs,
            *self.extents,
            *(s.name for s in self.steps if isinstance(s, Kernel)),
        }
        n = 0
        while f"{prefix}{n}" in used:
            n += 1
        return f"{prefix}{n}"

    def buffer_value(self, buffer: Buffer) -> Value:
        """A tensor that reads a buffer."""
        kind = KIND_OF[buffer.dtype]
        return Value(buffer.shape, buffer.dtype, lambda p: load(buffer.name, flatten(p, buffer.shape), kind))

    def scratch(self, shape: Sequence[int], dtype: str) -> Buffer:
        """Allocate an intermediate."""
        name = self.fresh("t")
        self.buffers[name] = Buffer(name, tuple(shape), dtype, "scratch")
        return self.buffers[name]

    def fold(
        self,
        combine: Combine,
        outer: Sequence[int],
        cols: tuple[int, ...] | Ragged,
        body: Callable[[Point, Point], Expr],
        kind: Kind,
        dtype: str,
        contraction: bool = False,
    ) -> Value:
        """A pending reduction as a tensor of shape ``outer``."""
        name = self.fresh("s")
        self.folds[name] = Fold(name, combine, tuple(outer), cols, body, kind, dtype, contraction)
        return Value(outer, dtype, lambda p: pending(name, kind, p))

    def run(self, combine: str, value: Value, dim: int, dtype: str) -> Value:
        """A pending scan as a tensor of the same shape."""
        name = self.fresh("n")
        kind = KIND_OF[dtype]
        self.runs[name] = Run(name, combine, value.shape, dim, lambda p: cast(value.at(p), kind), kind, dtype)
        return Value(value.shape, dtype, lambda p: pending(name, kind, p))
