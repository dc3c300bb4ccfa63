"""Contractions: the axes and operands of a sum of products, for skeletons built on ``tl.dot``."""

from __future__ import annotations

import math
from collections.abc import Sequence

from agent.proposers.builtin.triton_dims import DTYPES, Dim, Text
from agent.proposers.builtin.triton_holes import Holes
from agent.proposers.builtin.triton_scope import Scope
from agent.proposers.builtin.triton_tile import Tile, refuse
from evaluators.ir.expr import Expr, axes_of, walk
from evaluators.ir.kernel import Axis
from evaluators.ir.pattern import contraction_operands


class Contraction:
    """``acc[m, n] = sum over k of a[m, k] * b[k, n]`` for every point of the batch axes, then an epilogue."""

    def __init__(self, k: Holes) -> None:
        kernel = k.kernel
        found = [
            (i, p, r, operands)
            for i, p in enumerate(kernel.passes)
            for r in p.reductions
            if (operands := contraction_operands(kernel, p, r)) is not None
        ]
        with_cols = [p for p in kernel.passes if p.cols]
        if len(found) != 1 or len(with_cols) != 1 or len(with_cols[0].reductions) != 1 or with_cols[0].stores:
            raise refuse(k.name, "a contraction schedule needs exactly one sum of products and an epilogue")
        _, at, self.reduction, (self.a, self.b) = found[0]
        self.holes = k
        self.k_axes = at.cols
        of_a, of_b = axes_of(self.a), axes_of(self.b)
        self.m_axes = tuple(r for r in kernel.rows if r.name in of_a and r.name not in of_b)
        self.n_axes = tuple(r for r in kernel.rows if r.name in of_b and r.name not in of_a)
        self.batch_axes = tuple(r for r in kernel.rows if r not in self.m_axes and r not in self.n_axes)
        self.M, self.N, self.K = (_size(x) for x in (self.m_axes, self.n_axes, self.k_axes))
        self.BATCH = _size(self.batch_axes)
        types = {k.buffers[n.attr].dtype for e in (self.a, self.b) for n in walk(e) if n.op == "load"}
        floats = {t for t in types if t.startswith(("float", "bfloat"))}
        half = len(floats) == 1 and next(iter(floats)) in ("float16", "bfloat16")
        self.operand_type = next(iter(floats)) if half else "float32"
        self.half = half
        if "float64" in floats or self.reduction.kind != "f32":
            raise refuse(k.name, "tl.dot has no float64 or integer form here")

    @property
    def dot_type(self) -> str:
        """Launch argument: the operands' type. The interpreter multiplies bfloat16 wrongly, so there they are widened."""
        on_device = DTYPES[self.operand_type]
        return f'{on_device} if {self.holes.first}.device.type != "cpu" else tl.float32' if self.half else on_device

    def precision(self, value: str) -> str:
        """Launch argument: how float32 products are formed; the interpreter knows ``ieee`` only."""
        return '"ieee"' if self.half else f'"{value}" if {self.holes.first}.device.type != "cpu" else "ieee"'

    def unit(self, side: str) -> str:
        """Along which axis an operand is contiguous in memory: ``"k"``, or ``"row"`` for m (side a) or n (side b)."""
        e = self.a if side == "a" else self.b
        loads = [n.index for n in walk(e) if n.op == "load" and n.index is not None]
        k_name = self.k_axes[-1].name
        largest = max(loads, key=lambda i: self._reach(i.axes), default=None)
        return "k" if largest is None or largest.coeff(k_name) == 1 else "row"

    def _reach(self, axes: Sequence[tuple[str, int]]) -> int:
        return math.prod(self.holes.extents.get(a, 1) for a, _ in axes)

    def bare(self, side: str) -> bool:
        """Whether an operand is a plain two-dimensional array, so that the copy engine can fetch its tiles."""
        e = self.a if side == "a" else self.b
        if e.op != "load" or e.index is None or e.index.terms or e.index.const or self.batch_axes:
            return False
        rows = self.m_axes if side == "a" else self.n_axes
        if len(rows) != 1 or len(self.k_axes) != 1:
            return False
        row, col = e.index.coeff(rows[0].name), e.index.coeff(self.k_axes[0].name)
        return (col == 1 and row == self.K) or (row == 1 and col == _size(rows))

    def buffer(self, side: str) -> str:
        """Name of a bare operand's buffer."""
        e = self.a if side == "a" else self.b
        return str(e.attr)

    def operand(self, side: str, *dims: Dim) -> Tile:
        """A tile for loading one operand: a over (m, k), b over (k, n)."""
        return self.holes.tile(2, *dims)

    def value(self, tile: Tile, side: str, cast: bool = True) -> tuple[str, str]:
        """Statements that compute an operand's tile, and its variable, converted to the operands' type."""
        e = self.a if side == "a" else self.b
        scope = tile.scope
        got = _raw(scope, e) if self.half and e.op == "load" else scope.emit(e)
        masks = scope.masks(a.name for a in self.k_axes)
        text = got.text
        if masks and e.op != "load":
            text = scope.let(f"tl.where({' & '.join(masks)}, {text}, 0.0)")
        if cast:
            text = scope.let(f"{text}.to(DOT)")
        return scope.take(), text

    def hoist(self, outer: Tile, inner: Tile, side: str) -> str:
        """Values of an operand that do not vary along k, emitted before the loop."""
        return inner.hoist([self.a if side == "a" else self.b])

    def epilogue(self, acc: str, *dims: Dim) -> Tile:
        """A tile over (m, n) in which the contraction's result is the variable ``acc``."""
        tile = self.holes.tile(2, *dims)
        tile.scope.reduced[self.reduction.name] = Text(acc, frozenset((0, 1)))
        return tile


def _raw(scope: Scope, e: Expr) -> Text:
    return scope.load(e, raw=True)


def _size(axes: Sequence[Axis]) -> int:
    return math.prod(a.extent for a in axes)
