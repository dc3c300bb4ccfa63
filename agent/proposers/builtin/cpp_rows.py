"""Holes of the row schedules: the vector axis is the innermost column, and every row folds its own lanes.

Serves row_reduce, row_norm, full_reduce, scan and one-dimensional segments.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from agent.errors import EmitError
from agent.proposers.builtin.cpp_expr import SCALAR, VECTOR, Block
from agent.proposers.builtin.cpp_pass import PassView
from agent.proposers.builtin.cpp_view import (
    Accumulator,
    View,
    bounds,
    hoisted,
    identity,
    points,
    prefetches,
    taken,
    unflattened,
    var,
)
from evaluators.ir.kernel import Axis, Kernel, Pass, Program, Reduction, Scan
from evaluators.ir.pattern import unit_stride_axis


def column_lane(kernel: Kernel) -> Axis | None:
    """The column axis to lay lanes along: the contiguous one, otherwise the innermost."""
    unit = unit_stride_axis(kernel)
    cols = [c for p in kernel.passes for c in p.cols]
    found = [c for c in cols if c.name == unit]
    return found[0] if found else cols[-1] if cols else None


@dataclass
class RowPass(PassView["RowView"]):
    """One pass over the columns of a row (or one epilogue, where there are no columns)."""

    @property
    def lane(self) -> Axis | None:
        """This pass's vector axis: every pass names its own columns."""
        return self.view.lane_of(self.source)

    @property
    def scans(self) -> bool:
        """Whether the pass has running folds."""
        return bool(self.source.scans)

    @property
    def loops(self) -> tuple[Axis, ...]:
        """The column axes outside the vector axis."""
        return tuple(c for c in self.source.cols if c is not self.lane)

    @property
    def c(self) -> str:
        """Loop variable of the vector axis."""
        assert self.lane is not None
        return var(self.lane.name)

    @property
    def low(self) -> str:
        """First index of the vector axis."""
        return self._bound(0)

    @property
    def high(self) -> str:
        """End of the vector axis."""
        return self._bound(1)

    @property
    def length(self) -> int:
        """Extent of the vector axis (the expected length of a ragged one)."""
        assert self.lane is not None
        return self.lane.extent

    @property
    def outer_count(self) -> int:
        """Points of the column axes outside the vector axis."""
        return points(self.loops)

    def constant(self) -> str:
        """Values that only the vector axis changes, at the current outer columns."""
        if not self.loops:
            return ""
        assert self.lane is not None
        return hoisted(self.block, self.source, frozenset((self.lane.name,)))

    def unpack(self, index: str) -> str:
        """Bind the column axes outside the vector axis from a flattened index, where jobs split them."""
        return unflattened(self.block, self.loops, index)

    def step(self, u: int = 0, stream: bool = False) -> str:
        """One vector of columns, ``u`` vectors after the loop variable."""
        at = self.c if u == 0 else f"({self.c} + {u} * W)"
        return self._body(self._inside(at, None), u, stream)

    def ahead(self, u: int = 0) -> str:
        """Prefetch what the first pass will read of the next row, at this vector's columns: for a pass that computes from cache
        while memory is idle. Nothing where rows or columns do not line up."""
        view = self.view
        first = next(p for p in view.kernel.passes if p.cols)
        if not view.outer or self.lane is None or view.lane_of(first) != self.lane or first.cols != self.source.cols:
            return ""
        row = view.outer[-1].name
        at = self.c if u == 0 else f"({self.c} + {u} * W)"
        block = self.block.inside({row: f"({var(row)} + 1)", self.lane.name: at})
        return prefetches(view.lanes, block, first, lambda index: index.coeff(row) != 0)

    def stream_ahead(self, u: int, distance: int) -> str:
        """Prefetch this pass's own data ``distance`` columns further on."""
        assert self.lane is not None
        block = self.block.inside({self.lane.name: f"({self.c} + {distance} + {u} * W)"})
        return prefetches(self.view.lanes, block, self.source) if distance else ""

    def tail(self) -> str:
        """The last, partial vector: ``rest`` columns."""
        return self._body(self._inside(self.c, "rest"), 0, False)

    def finish(self, unroll: int) -> str:
        """Fold unrolled accumulators and lanes into one scalar per reduction, named ``r_<reduction>``."""
        lines = []
        for a in self.accumulators:
            lines.append(self.folded(a, unroll))
            self.view.top.results[a.name] = f"r_{a.name}"
            lines.append(f"const {'bool' if a.kind == 'bool' else a.scalar} r_{a.name} = {a.result(a.name + '_all')};")
        return "\n".join(lines)

    def folded(self, a: Accumulator, unroll: int) -> str:
        """Declares ``<reduction>_all``: unrolled accumulators and lanes folded into one scalar."""
        total = a.pairwise([f"{a.name}_{u}" for u in range(unroll)])
        return f"const {a.scalar} {a.name}_all = {a.across(total)};"

    def carries(self, wide: bool) -> str:
        """Running values carried from vector to vector, sums of float32 in double where ``wide``."""
        lines = []
        for s in self.source.scans:
            kind = "double" if self._doubled(s, wide) else SCALAR[s.kind]
            lines.append(f"{kind} {s.name}_carry = {identity(s.combine, s.kind)};")
        return "\n".join(lines)

    def scan(self, u: int, wide: bool, tail: bool = False) -> str:
        """One vector of columns of a running fold: folded inside the vector, then onto the carry."""
        at = self.c if u == 0 else f"({self.c} {'-' if self.reverse else '+'} {u} * W)"
        block = self._inside(at, "rest" if tail else None)
        used = self.view.lanes.used
        used.add("scan")
        for s in self.source.scans:
            fold = Accumulator(Reduction(s.name, s.combine, s.value, s.kind), self.view.lanes)
            value, v = block.vector(s.value), VECTOR[s.kind]
            start = f"splat<{v}>({fold.start})"
            if tail:
                used.add("keep")
                value = f"keep({value}, {start}, rest)"
            value = f"reversed({value})" if self.reverse else value
            within = self.view.lanes.fresh()
            block.lines.append(
                f"const {v} {within} = prefix({value}, {start}, [](auto a, auto b) {{ return {fold.fold('a', 'b')}; }});"
            )
            carry, out = f"{s.name}_carry", self.view.lanes.fresh()
            if self._doubled(s, wide):
                # The carry as a sum of two floats: adding its low part first rounds once, at the size of the result.
                block.lines.append(
                    f"const float {out}_high = (float){carry}, {out}_low = (float)({carry} - {out}_high);"
                )
                total = f"{out}_high + ({within} + {out}_low)"
            else:
                total = fold.fold(f"splat<{v}>({carry})", within)
            block.lines.append(f"const {v} {out} = {f'reversed({v}({total}))' if self.reverse else total};")
            last = f"{within}[W - 1]"
            folded = f"{carry} + {last}" if self._doubled(s, wide) else fold.fold(carry, f"({SCALAR[s.kind]}){last}")
            block.lines.append(f"{carry} = {folded};")
            block.results[s.name] = out
        for t in self.source.stores:
            block.write(t.buffer, t.index, t.value, False)
        return taken(block)

    @property
    def reverse(self) -> bool:
        """Whether the running fold starts at the last column."""
        return any(s.reverse for s in self.source.scans)

    @staticmethod
    def _doubled(s: Scan, wide: bool) -> bool:
        return wide and s.kind == "f32" and s.combine == "sum"

    @property
    def once(self) -> str:
        """The statements of a pass without columns: an epilogue, once per row."""
        for r in self.source.reductions:
            self.view.top.results[r.name] = self.view.top.value(r.value)
        for s in self.source.stores:
            self.view.top.write(s.buffer, s.index, s.value)
        return taken(self.view.top)

    def _bound(self, which: int) -> str:
        assert self.lane is not None
        return bounds(self.view.top, self.lane)[which]

    def _inside(self, at: str, rest: str | None) -> Block:
        assert self.lane is not None
        return self.block.inside({self.lane.name: at}, rest)

    def _body(self, block: Block, u: int, stream: bool) -> str:
        for scan in self.source.scans:
            raise EmitError(f"scan {scan.name!r}: this schedule has no running fold")
        for r, a in zip(self.source.reductions, self.accumulators, strict=True):
            value = block.vector(r.value)
            if block.rest:
                self.view.lanes.used.add("keep")
                value = f"keep({value}, splat<{a.vector}>({a.start}), {block.rest})"
            name = f"{a.name}_{u}"
            block.lines.append(f"{name} = {a.fold(name, value)};")
        for s in self.source.stores:
            block.write(s.buffer, s.index, s.value, stream)
        return taken(block)


@dataclass
class RowView(View):
    """A kernel seen row by row."""

    remembered: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, kernel: Kernel, program: Program) -> RowView:
        """The view whose vectors run along the kernel's columns. Raises ``EmitError`` without columns."""
        lane = column_lane(kernel)
        if lane is None:
            raise EmitError(f"kernel {kernel.name!r}: a row schedule needs columns")
        return cls(kernel, program, lane, False)

    def lane_of(self, p: Pass) -> Axis | None:
        """The vector axis of a pass: its contiguous column axis, otherwise its last."""
        unit = unit_stride_axis(self.kernel)
        stored = {a for t in p.stores for a, c in t.index.axes if c == 1}
        preferred = [c for c in p.cols if c.name == unit] or [c for c in p.cols if c.name in stored]
        return preferred[0] if preferred else p.cols[-1] if p.cols else None

    def lane_axes(self) -> frozenset[str]:
        """Every pass may name its own columns. Raises ``EmitError`` where one pass's vector axis is another's loop."""
        lanes = {lane.name for p in self.kernel.passes if (lane := self.lane_of(p)) is not None}
        for p in self.kernel.passes:
            mixed = [c.name for c in p.cols if c.name in lanes and c is not self.lane_of(p)]
            if mixed:
                raise EmitError(
                    f"kernel {self.name!r}: column {mixed[0]!r} is contiguous in one pass and strided in another"
                )
        return frozenset(lanes)

    @property
    def passes(self) -> list[RowPass]:
        """The passes, in order, sharing the row's values."""
        return [RowPass(self, p) for p in self.kernel.passes]

    def remember(self, a: Accumulator) -> str:
        """A reduction's result now lies in its scratch tensor, one element per row."""
        self.remembered[a.name] = a.result(f"{self.array(a.name + '_row', [], '')}[row]")
        return ""

    def recall(self) -> str:
        """Read the results that earlier parallel loops left in scratch tensors."""
        needed = list(self.remembered.items())
        for name, _ in needed:
            self.top.results[name] = f"r_{name}"
        return "\n".join(f"const auto r_{name} = {text};" for name, text in needed)
