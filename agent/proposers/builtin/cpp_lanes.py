"""Holes of the lane schedules: the vector axis is a row axis, so every lane is a row of its own and no fold crosses lanes.

Serves pointwise, column_reduce, column_norm and segment kernels, and any kernel whose rows are contiguous.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from agent.errors import EmitError
from agent.proposers.builtin.cpp_expr import Block
from agent.proposers.builtin.cpp_pass import PassView
from agent.proposers.builtin.cpp_view import View, hoisted, points, prefetches, roots_of, taken, unflattened, var
from evaluators.ir.expr import Expr, axes_of, walk
from evaluators.ir.kernel import Axis, Kernel, Program
from evaluators.ir.pattern import unit_stride_axis


def row_lane(kernel: Kernel) -> Axis | None:
    """The row axis to lay lanes along: the one contiguous in the stores or loads, otherwise the last."""
    if not kernel.rows:
        return None
    unit = unit_stride_axis(kernel)
    by_name = {r.name: r for r in kernel.rows}
    if unit in by_name:
        return by_name[unit]
    stored = [a for p in kernel.passes for s in p.stores for a, c in s.index.axes if c == 1 and a in by_name]
    return by_name[stored[0]] if stored else kernel.rows[-1]


@dataclass
class LanePass(PassView["LaneView"]):
    """One pass: a loop over columns with a vector of rows in each step, or an epilogue without a loop."""

    group: list[Block] = field(default_factory=list)

    @property
    def extent(self) -> int:
        """Number of columns (of a ragged axis, the expected number)."""
        return points(self.source.cols)

    @property
    def varying(self) -> frozenset[str]:
        """The lanes and the columns."""
        return frozenset((self.view.axis, *(c.name for c in self.source.cols)))

    def constant(self) -> str:
        """Values that are constant over the lanes, at the current columns."""
        return hoisted(self.block, self.source, frozenset((self.view.axis,)))

    def bind(self, index: str, group: int) -> str:
        """Bind ``group`` consecutive columns from a flattened index instead of loops, with what is constant over the lanes."""
        self.group = []
        lines = []
        for u in range(group):
            block = self.view.top.inside()
            lines.append(unflattened(block, self.source.cols, f"({index} + {u})" if u else index, f"_{u}"))
            lines.append(hoisted(block, self.source, frozenset((self.view.axis,))))
            self.group.append(block)
        return "\n".join(t for t in lines if t)

    def gathered(self, group: int, partial: bool = False) -> str:
        """One vector of rows: the bound columns folded with each other, then into the running value in memory."""
        rest = "rest_0" if partial else None
        blocks = [b.inside({self.view.axis: self.view.c}, rest) for b in self.group[:group]]
        lines = []
        for a in self.accumulators:
            value = a.pairwise([b.vector(a.reduction.value) for b in blocks])
            suffix, tail = ("_n", ", rest_0") if partial else ("", "")
            self.view.lanes.used.update(("load" + suffix, "store" + suffix))
            at = f"{a.name} + {self.view.c}"
            old = f"load{suffix}<{a.vector}>({at}{tail})"
            lines.append(f"store{suffix}<{a.scalar}>({at}, {a.fold(old, value)}{tail});")
        return "\n".join([*(line for b in blocks for line in b.lines), *lines])

    def combine(self, pieces: int, partial: bool = False) -> str:
        """Fold the pieces of the running values that the jobs left in scratch, sums in double."""
        lines = []
        suffix, tail = ("_n", ", rest_0") if partial else ("", "")
        for a in self.accumulators:
            self.view.lanes.used.add("load" + suffix)
            vector = f"vec<{a.partial}, W>"
            scratch = self.view.array(a.name + "_part", [], "")
            at = f"{scratch} + (row * {pieces} + piece) * {self.view.extent} + {self.view.c}"
            lines += [
                f"{vector} {a.name}_sum = splat<{vector}>({a.start});",
                f"for (i64 piece = 0; piece < {pieces}; ++piece) {{",
                f"const {vector} part = load{suffix}<{vector}>({at}{tail});",
                f"{a.name}_sum = {a.fold(a.name + '_sum', 'part')};",
                "}",
            ]
            self.view.finished.setdefault(0, {})[a.name] = f"convert<{a.vector}>({a.name}_sum)"
        return "\n".join(lines)

    def step(self, u: int = 0, partial: bool = False, stream: bool = False, accumulator: str = "{name}_{u}") -> str:
        """One vector of rows at the current column, ``u`` vectors after the loop variable.

        ``accumulator`` is the C++ place of a running value; ``partial`` handles only ``rest_<u>`` lanes.
        """
        at = self.view.lane_at(u)
        block = self.block.inside({self.view.axis: at}, f"rest_{u}" if partial else None)
        block.results = self.view.results(u)
        for s in self.source.scans:
            raise EmitError(f"scan {s.name!r}: this schedule has no running fold")
        for a in self.accumulators:
            place = accumulator.format(name=a.name, u=u, c=self.view.c)
            block.lines.append(f"{place} = {a.fold(place, block.vector(a.reduction.value))};")
        for t in self.source.stores:
            block.write(t.buffer, t.index, t.value, stream)
        return taken(block)

    def done(self, vectors: int, accumulator: str = "{name}_{u}") -> str:
        """Make the reductions' results known to later passes."""
        for a in self.accumulators:
            for u in range(vectors):
                self.view.finished.setdefault(u, {})[a.name] = accumulator.format(name=a.name, u=u, c=self.view.c)
        return ""

    def prefetch(self, distance: int, vectors: int) -> str:
        """Prefetch the lanes' data ``distance`` columns ahead, where the address can be known that early."""
        if distance <= 0 or len(self.source.cols) != 1:
            return ""
        column = self.source.cols[0].name
        ahead = f"{var(column)}_ahead"
        limit, targets = self._ahead(column)
        if not targets:
            return ""
        self.view.lanes.used.add("prefetch")
        block = self.view.top.inside({column: ahead})  # nothing known at the current column may be reused
        far = "_far" if distance >= 32 else ""
        lines = [
            f"const i64 {ahead} = {var(column)} + {distance}"
            + (f" < {limit} ? {var(column)} + {distance} : {limit - 1};" if limit is not None else ";")
        ]
        for u in range(vectors):
            block.bind[self.view.axis] = self.view.lane_at(u)
            for node in targets:
                assert node.index is not None
                block.lines.append(f"prefetch{far}({block.address(node.attr, node.index)});")
        return "\n".join([*lines, taken(block)])

    def stream_ahead(self, distance: int, u: int = 0) -> str:
        """Prefetch what this pass reads ``distance`` rows further on, at the current column."""
        block = self.block.inside({self.view.axis: f"({self.view.c} + {distance} + {u} * W)"})
        return prefetches(self.view.lanes, block, self.source) if distance else ""

    def _ahead(self, column: str) -> tuple[int | None, list[Expr]]:
        """Largest safe column of the index loads, and the contiguous loads whose address depends on the column."""
        limit: int | None = None
        targets: list[Expr] = []
        seen: set[int] = set()
        for root in roots_of(self.source):
            for node in walk(root):
                if node.op != "load" or node.index is None or column not in axes_of(node) or id(node) in seen:
                    continue
                seen.add(id(node))
                if not self.view.lanes.varies(node):
                    if node.index.axes != ((column, 1),) or node.index.const or node.index.terms:
                        return None, []
                    size = self.view.program.buffers[node.attr].numel
                    limit = size if limit is None else min(limit, size)
                elif node.index.coeff(self.view.axis) == 1:
                    targets.append(node)
        return limit, targets


@dataclass
class LaneView(View):
    """A kernel whose lanes are rows."""

    finished: dict[int, dict[str, str]] = field(default_factory=dict)

    @classmethod
    def of(cls, kernel: Kernel, program: Program) -> LaneView:
        """The view whose vectors run along the kernel's rows. A kernel without rows is one scalar."""
        return cls(kernel, program, row_lane(kernel) or Axis("lane", 1), True)

    @property
    def axis(self) -> str:
        """Name of the vector axis."""
        assert self.lane is not None
        return self.lane.name

    @property
    def c(self) -> str:
        """Loop variable of the vector axis."""
        return var(self.axis)

    @property
    def extent(self) -> int:
        """Extent of the vector axis."""
        assert self.lane is not None
        return self.lane.extent

    @property
    def passes(self) -> list[LanePass]:
        """The passes, in order."""
        return [LanePass(self, p) for p in self.kernel.passes]

    def lane_at(self, u: int) -> str:
        """Index of the first lane of vector ``u``."""
        return self.c if u == 0 else f"({self.c} + {u} * W)"

    def results(self, u: int) -> dict[str, str]:
        """Finished reductions of vector ``u``."""
        return dict(self.finished.get(u, {}))

    def forget(self) -> str:
        """Start another rendering of the passes (a second tile shape)."""
        self.finished.clear()
        self.top.names.clear()
        return ""

    def rests(self, vectors: int, end: str) -> str:
        """Declare how many lanes of each vector lie before ``end``."""
        lines = []
        for u in range(vectors):
            left = f"({end}) - {self.lane_at(u)}"
            lines.append(f"const int rest_{u} = {left} >= W ? W : {left} > 0 ? (int)({left}) : 0;")
        return "\n".join(lines)
