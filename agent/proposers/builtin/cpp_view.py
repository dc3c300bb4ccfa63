"""What every C++ skeleton sees of a kernel: names, parameters, lane types, row unpacking, accumulators.

A view is filled in while its template renders, top to bottom: each hole emits the statements it needs into the block that is
open there and returns their text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from math import prod

from agent.proposers.builtin.cpp_expr import MEMORY, SCALAR, VECTOR, Block, Lanes, memory_type
from evaluators.ir.expr import Affine, Expr, Kind, walk
from evaluators.ir.kernel import Axis, Kernel, Pass, Program, Reduction

_FOLD = {
    "sum": "a + b",
    "prod": "a * b",
    "max": "maximum(a, b)",
    "min": "minimum(a, b)",
    "any": "a | b",
    "all": "a & b",
}


def roots_of(p: Pass) -> Iterator[Expr | Affine]:
    """Everything a pass evaluates: reduction and scan values, store values and store indices."""
    for r in p.reductions:
        yield r.value
    for s in p.scans:
        yield s.value
    for t in p.stores:
        yield t.value
        yield t.index


def buffers_of(kernel: Kernel) -> tuple[list[str], list[str]]:
    """Names of the buffers a kernel reads and of those it writes, each in order of first use."""
    written = list(dict.fromkeys(s.buffer for p in kernel.passes for s in p.stores))
    read: dict[str, None] = {}
    bounds = [e for p in kernel.passes for c in p.cols for e in (c.low, c.high) if e is not None]
    for root in [*bounds, *(r for p in kernel.passes for r in roots_of(p))]:
        for node in walk(root):
            if node.op == "load":
                read[node.attr] = None
    return [b for b in read if b not in written], written


def identity(combine: str, kind: Kind) -> str:
    """The neutral element of a fold as C++ text of a scalar of ``kind``."""
    if combine in ("sum", "prod"):
        return f"({SCALAR[kind]}){0 if combine == 'sum' else 1}"
    if combine in ("any", "all"):
        return "0" if combine == "any" else "-1"
    if kind in ("i64", "i32"):
        bits = kind[1:]
        return f"INT{bits}_MIN" if combine == "max" else f"INT{bits}_MAX"
    inf = "__builtin_inff()" if kind == "f32" else "__builtin_inf()"
    return f"-{inf}" if combine == "max" else inf


@dataclass
class Accumulator:
    """A reduction's running value: how it starts, takes a value, and ends."""

    reduction: Reduction
    lanes: Lanes

    @property
    def name(self) -> str:
        """The reduction's name."""
        return self.reduction.name

    @property
    def kind(self) -> Kind:
        """Compute type of the running value."""
        return self.reduction.kind

    @property
    def vector(self) -> str:
        """C++ vector type of the running value."""
        return VECTOR[self.kind]

    @property
    def scalar(self) -> str:
        """C++ scalar type of the running value; a truth value folds as 0 or -1."""
        return "i32" if self.kind == "bool" else SCALAR[self.kind]

    @property
    def partial(self) -> str:
        """C++ type in which partial results are combined: sums of float32 widen to double."""
        return "double" if self.kind == "f32" and self.reduction.combine in ("sum", "prod") else self.scalar

    @property
    def memory(self) -> str:
        """Torch dtype name of the running value, for scratch tensors."""
        return {"double": "float64", "float": "float32", "i64": "int64", "i32": "int32"}[self.scalar]

    @property
    def partial_dtype(self) -> str:
        """Torch dtype name of :attr:`partial`, for scratch tensors."""
        return {"double": "float64", "float": "float32", "i64": "int64", "i32": "int32"}[self.partial]

    @property
    def start(self) -> str:
        """Neutral element (scalar text)."""
        return identity(self.reduction.combine, self.kind)

    def fold(self, a: str, b: str) -> str:
        """C++ text of the combination of two running values."""
        combine = self.reduction.combine
        if combine in ("max", "min"):
            self.lanes.used.add("minmax")
            return f"{combine}imum({a}, {b})"
        return f"{a} {_FOLD[combine][2]} {b}"

    def pairwise(self, values: Sequence[str]) -> str:
        """C++ text of several running values folded with each other, as a balanced tree."""
        left = list(values)
        while len(left) > 1:
            pairs = [f"({self.fold(x, y)})" for x, y in zip(left[::2], left[1::2], strict=False)]
            left = pairs + left[len(pairs) * 2 :]
        return left[0]

    def across(self, vector: str) -> str:
        """C++ text of all lanes folded into one scalar."""
        self.lanes.used.add("fold")
        if self.reduction.combine in ("max", "min"):
            self.lanes.used.add("minmax")
        return f"fold({vector}, [](auto a, auto b) {{ return {_FOLD[self.reduction.combine]}; }})"

    def result(self, scalar: str) -> str:
        """C++ text of the finished value from a scalar running value."""
        return f"{scalar} != 0" if self.kind == "bool" else f"({SCALAR[self.kind]}){scalar}"


@dataclass
class View:
    """Common part of the views: one kernel, one lane axis."""

    kernel: Kernel
    program: Program
    lane: Axis | None
    over_rows: bool
    """Whether the lane axis is a row axis (each lane is a row of its own)."""
    lanes: Lanes = field(init=False)
    top: Block = field(init=False)
    scratch: list[tuple[str, tuple[int, ...], str, bool]] = field(default_factory=list)

    def __post_init__(self) -> None:
        reductions = frozenset(r.name for p in self.kernel.passes for r in p.reductions)
        self.lanes = Lanes(
            self.lane_axes(),
            self.program.buffers,
            reductions if self.over_rows else frozenset(),
        )
        self.top = Block(self.lanes)
        roots = [root for p in self.kernel.passes for root in roots_of(p)]
        kinds = [r.kind for p in self.kernel.passes for r in p.reductions if self.lane is not None]
        self.wide = self.lanes.wide(roots) or any(k in ("i64", "f64") for k in kinds)

    def lane_axes(self) -> frozenset[str]:
        """Names of the axes that vectors run along."""
        return frozenset((self.lane.name,)) if self.lane else frozenset()

    @property
    def name(self) -> str:
        """The kernel's name, also of its C function."""
        return self.kernel.name

    @property
    def head(self) -> str:
        """First lines of the C function's body: the tensors by name, from the table of addresses, and the vector types."""
        read, written = buffers_of(self.kernel)
        kinds = [f"const {memory_type(self.program.buffers[b])}" for b in read] + [
            memory_type(self.program.buffers[b]) for b in written
        ]
        kinds += [MEMORY[dtype] for _, _, dtype, _ in self.scratch]
        lines = [
            f"{kind}* const __restrict {name} = ({kind}*)at[{n}];"
            for n, (kind, name) in enumerate(zip(kinds, self.arguments, strict=True))
        ]
        return "\n".join([*lines, self.types])

    @property
    def arguments(self) -> list[str]:
        """Names of the tensors passed, in order: buffers read, buffers written, scratch."""
        read, written = buffers_of(self.kernel)
        return [*read, *written, *(s[0] for s in self.scratch)]

    @property
    def types(self) -> str:
        """Lane count and vector types of this kernel."""
        return (
            f"constexpr int W = BYTES / {8 if self.wide else 4};\n"
            "using f32v = vec<float, W>;\nusing i32v = vec<i32, W>;\n"
            "using f64v = vec<double, W>;\nusing i64v = vec<i64, W>;"
        )

    @property
    def outer(self) -> tuple[Axis, ...]:
        """The row axes other than the lane axis."""
        return tuple(r for r in self.kernel.rows if self.lane is None or r.name != self.lane.name)

    @property
    def count(self) -> int:
        """Number of points of the :attr:`outer` axes."""
        return points(self.outer)

    @property
    def ragged(self) -> bool:
        """Whether any column range depends on data, so that rows differ in work."""
        return any(c.ragged for p in self.kernel.passes for c in p.cols)

    def fence(self, stream: bool) -> str:
        """Make streamed stores visible before the threads join."""
        if stream and "stream" in self.lanes.used:
            self.lanes.used.add("fence")
            return "fence();"
        return ""

    def accumulators(self, p: Pass) -> list[Accumulator]:
        """Accumulators of a pass."""
        return [Accumulator(r, self.lanes) for r in p.reductions]

    def array(self, name: str, shape: Iterable[int], dtype: str, zero: bool = False) -> str:
        """Declare a scratch tensor that the caller of the kernel provides; returns its name."""
        unique = f"{self.name}_{name}"
        if all(s[0] != unique for s in self.scratch):
            self.scratch.append((unique, tuple(shape), dtype, zero))
        return unique

    def enter(self, index: str) -> str:
        """Bind the outer row axes from their flattened index."""
        text = unflattened(self.top, self.outer, index)
        self.top.names.clear()
        self.top.results.clear()
        return text


def var(axis: str) -> str:
    """C++ name of a loop variable."""
    return f"i_{axis}"


def points(axes: Iterable[Axis]) -> int:
    """Number of points of the axes together (of a ragged axis, the expected number)."""
    return prod(a.extent for a in axes)


def unflattened(block: Block, axes: Sequence[Axis], index: str, suffix: str = "") -> str:
    """Bind ``axes`` in ``block`` from their flattened index: C++ text that declares their loop variables, named with ``suffix``."""
    lines, rest = [], index
    for n, a in enumerate(reversed(axes)):
        last, name = n == len(axes) - 1, var(a.name) + suffix
        lines.append(f"const i64 {name} = {rest if last else f'{rest} % {a.extent}'};")
        rest = f"({rest} / {a.extent})"
        block.bind[a.name] = name
    return "\n".join(lines)


def taken(block: Block) -> str:
    """The statements emitted into a block since the last call."""
    text = "\n".join(block.lines)
    block.lines.clear()
    return text


def hoisted(block: Block, p: Pass, varying: frozenset[str]) -> str:
    """Emit into ``block`` what a pass needs there and no loop over ``varying`` changes."""
    block.hoist(list(roots_of(p)), varying)
    return taken(block)


def bounds(block: Block, axis: Axis) -> tuple[str, str]:
    """C++ texts of an axis's first index and its end."""
    if axis.low is None or axis.high is None:
        return "0", str(axis.extent)
    return block.value(axis.low), block.value(axis.high)


def prefetches(lanes: Lanes, block: Block, p: Pass, keep: Callable[[Affine], bool] = lambda _: True) -> str:
    """Prefetch into the second-level cache every contiguous load of a pass whose index ``keep`` admits, at the block's axes."""
    found: dict[tuple[str, int], Affine] = {}
    for root in roots_of(p):
        for n in walk(root):
            if (
                n.op == "load"
                and n.index is not None
                and not n.index.terms
                and lanes.stride(n.index) == 1
                and keep(n.index)
            ):
                found[n.attr, id(n.index)] = n.index
    if found:
        lanes.used.add("prefetch")
    return "\n".join(f"prefetch_far({block.address(name, index)});" for (name, _), index in found.items())
