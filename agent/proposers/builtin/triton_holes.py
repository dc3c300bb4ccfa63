"""The object a skeleton sees as ``k``: one kernel of the loop IR, with the pieces of code its schedule arranges."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

from agent.proposers.builtin.triton_dims import Dim
from agent.proposers.builtin.triton_fold import accumulator_type, fold, identity
from agent.proposers.builtin.triton_scope import Scope
from agent.proposers.builtin.triton_shape import Stage, aligned, epilogue, softmax_pair, stages
from agent.proposers.builtin.triton_shared import SharedTile
from agent.proposers.builtin.triton_tile import Tile, refuse
from evaluators.ir.expr import Expr, axes_of, walk
from evaluators.ir.kernel import Axis, Kernel, Program, Reduction
from evaluators.ir.pattern import accesses, unit_stride_axis

_SIZES = {"float32": 4, "int32": 4, "float64": 8, "int64": 8, "float16": 2, "bfloat16": 2, "int16": 2}


class Holes:
    """Facts about a kernel and factories for its tiles. Everything is fixed at emission: extents are literals in the source."""

    def __init__(self, kernel: Kernel, program: Program, align: bool = True) -> None:
        self.original = kernel
        self.kernel = aligned(kernel) if align else kernel
        self.program = program
        self.name = kernel.name
        self.buffers = program.buffers
        self.extents = _extents(self.kernel)
        self.row_axes = kernel.rows
        self.ROWS = math.prod(a.extent for a in kernel.rows)
        self.touched = _touched(self.kernel)
        self.params = ", ".join(f"{b}_ptr" for b in self.touched)
        self.args = ", ".join(self.touched)
        self.first = next((b for b in self.touched if self.buffers[b].role == "input"), self.touched[0])
        outputs = [b.dtype for b in program.buffers.values() if b.role == "output" and "float" in b.dtype]
        self.half = bool(outputs) and all(d in ("float16", "bfloat16") for d in outputs)
        self.nan_free = _nan_free(self.kernel)
        self._counter = itertools.count()

    # -- axes --------------------------------------------------------------------------------------------------------

    @property
    def cols(self) -> tuple[Axis, ...]:
        """Column axes shared by every pass that has any."""
        found = [p.cols for p in self.kernel.passes if p.cols]
        if not found:
            raise refuse(self.name, "it has no columns to fold over")
        if any(c != found[0] for c in found):
            raise refuse(self.name, "its passes sweep different columns")
        return found[0]

    @property
    def COLS(self) -> int:
        """Number of columns."""
        return math.prod(a.extent for a in self.cols)

    def unit_rows(self) -> tuple[tuple[Axis, ...], tuple[Axis, ...]]:
        """Row axes split into (outer, unit): the unit axis is the one along which memory is contiguous (else the last)."""
        unit = unit_stride_axis(self.kernel)
        names = [a.name for a in self.row_axes]
        at = names.index(unit) if unit in names else len(names) - 1
        return tuple(a for i, a in enumerate(self.row_axes) if i != at), (self.row_axes[at],)

    def segment_axes(self) -> tuple[tuple[Axis, ...], tuple[Axis, ...]]:
        """Row axes split into those that choose the segment and those inside a ragged element."""
        ragged = next((c for p in self.kernel.passes for c in p.cols if c.ragged), None)
        if ragged is None or ragged.low is None or ragged.high is None:
            raise refuse(self.name, "it has no ragged axis")
        choosing = axes_of(ragged.low) | axes_of(ragged.high)
        return tuple(a for a in self.row_axes if a.name in choosing), tuple(
            a for a in self.row_axes if a.name not in choosing
        )

    @staticmethod
    def wide(n: int) -> str:
        """Suffix that makes an index 64 bits wide where ``n`` does not fit in 32."""
        return ".to(tl.int64)" if n >= 1 << 31 else ""

    def dim(
        self, axes: Sequence[Axis], var: str, position: int | None = None, block: int = 1, exact: bool | None = None,
        limit: str = "", folded: bool = False, size: str = "",
    ) -> Dim:  # fmt: skip
        """Bind a run of axes to an index variable; ``block`` is the tile's length, ``size`` its name in the code."""
        extent = math.prod(a.extent for a in axes)
        fits = extent % block == 0 if exact is None else exact
        return Dim(tuple(axes), var, position, size or block, fits, limit, folded)

    # -- tiles -------------------------------------------------------------------------------------------------------

    def _scope(self, rank: int, dims: tuple[Dim, ...], cache: dict[str, str] | None = None) -> Scope:
        return Scope(rank, self.buffers, self.extents, dims, self._counter, cache=cache or {}, fast=self.half)

    def tile(self, rank: int, *dims: Dim, cache: dict[str, str] | None = None) -> Tile:
        """A tile of the given rank over these dimensions."""
        return Tile(self._scope(rank, dims, cache), self.nan_free)

    def shared_tile(self, *dims: Dim) -> SharedTile:
        """A one-dimensional tile that holds part of a row."""
        return SharedTile(self._scope(1, dims), self.nan_free)

    def stages(self, online: bool = False) -> list[Stage]:
        """The sweeps over the columns, in order."""
        return stages(self.kernel, online)

    @property
    def has_softmax(self) -> bool:
        """Whether two consecutive passes are a maximum and the sum of exponentials below it."""
        ps = self.kernel.passes
        return any(softmax_pair(a, b) for a, b in itertools.pairwise(ps))

    @property
    def single(self) -> Stage:
        """The only sweep that folds, for schedules that split it between programs."""
        with_cols = [p for p in self.kernel.passes if p.cols]
        if len(with_cols) != 1 or not with_cols[0].reductions or with_cols[0].stores or with_cols[0].scans:
            raise refuse(self.name, "a split reduction needs exactly one pass over the columns")
        return Stage(with_cols[0])

    @property
    def after(self) -> list[Stage]:
        """Epilogue stages, once per row."""
        return [Stage(p) for p in epilogue(self.kernel)]

    def whole_axes(self, exprs: Sequence[Expr]) -> set[str]:
        """Buffers read by these expressions."""
        return {n.attr for e in exprs for n in walk(e) if n.op == "load"}

    def streamed(self, policy: str) -> dict[str, str]:
        """Cache hint for buffers of which each element is used by one row only."""
        if not policy:
            return {}
        points = self.ROWS * max((math.prod(c.extent for c in p.cols) for p in self.kernel.passes), default=1)
        large = [b for b in self.touched if self.buffers[b].numel >= points]
        return dict.fromkeys(large, f'eviction_policy="{policy}"')

    # -- partial results ---------------------------------------------------------------------------------------------

    @staticmethod
    def identity(r: Reduction) -> str:
        """Neutral element of a fold."""
        return identity(r)

    @staticmethod
    def dtype(r: Reduction) -> str:
        """Torch dtype name of a partial result."""
        return accumulator_type(r).removeprefix("tl.")

    @staticmethod
    def fold(r: Reduction, text: str, position: int) -> str:
        """Text that folds a tile of partial results along a dimension."""
        return fold(r, text, position)


def _extents(kernel: Kernel) -> dict[str, int]:
    """Extent of every axis; a ragged axis is bounded only by what int32 can hold."""
    out = {a.name: a.extent for a in kernel.rows}
    for p in kernel.passes:
        for c in p.cols:
            out[c.name] = c.extent if not c.ragged else 1 << 31
    return {n: e for n, e in out.items() if e < 1 << 31}


def _touched(kernel: Kernel) -> list[str]:
    """Buffers a kernel reads or writes, sorted by name."""
    names: set[str] = set()
    for p in kernel.passes:
        roots = [r.value for r in p.reductions] + [s.value for s in p.scans] + [s.value for s in p.stores]
        bounds = [b for c in p.cols for b in (c.low, c.high) if b is not None]
        terms = [t for s in p.stores for t, _ in s.index.terms]
        for root in roots + bounds + terms:
            names |= {n.attr for n in walk(root) if n.op == "load"}
        names |= {s.buffer for s in p.stores}
    return sorted(names)


def _nan_free(kernel: Kernel) -> frozenset[str]:
    """Maxima that a later stage subtracts from the same values under ``exp``: a NaN reaches every result through those."""
    ps = kernel.passes
    return frozenset(a.reductions[0].name for a, b in itertools.pairwise(ps) if softmax_pair(a, b))


def bytes_touched(kernel: Kernel, program: Program) -> int:
    """Bytes of the buffers a kernel reads and writes, each once."""
    return sum(program.buffers[b].numel * _SIZES.get(program.buffers[b].dtype, 1) for b in _touched(kernel))


def count_accesses(kernel: Kernel) -> int:
    """Number of distinct loads and stores."""
    return sum(1 for _ in accesses(kernel))
