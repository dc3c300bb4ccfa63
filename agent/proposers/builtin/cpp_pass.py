"""What the views of one pass have in common, whichever way its vectors run: its loops, what is constant inside them, its accumulators."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Generic, TypeVar

from agent.proposers.builtin.cpp_expr import Block
from agent.proposers.builtin.cpp_view import Accumulator, View, bounds, hoisted, taken, var
from evaluators.ir.kernel import Axis, Pass

V = TypeVar("V", bound=View)


@dataclass
class PassView(Generic[V]):
    """One pass of a kernel: loops over columns, or an epilogue without a loop."""

    view: V
    source: Pass
    block: Block = field(init=False)

    def __post_init__(self) -> None:
        self.block = self.view.top.inside()

    @property
    def loops(self) -> tuple[Axis, ...]:
        """The column axes that are looped over one by one: all but a vector axis."""
        return self.source.cols

    @property
    def varying(self) -> frozenset[str]:
        """The axes that the pass runs over."""
        return frozenset(c.name for c in self.source.cols)

    @property
    def columns(self) -> bool:
        """Whether the pass loops over columns at all."""
        return bool(self.source.cols)

    @property
    def writes(self) -> bool:
        """Whether the pass stores at every column."""
        return bool(self.source.stores)

    @property
    def accumulators(self) -> list[Accumulator]:
        """The pass's reductions."""
        return self.view.accumulators(self.source)

    @property
    def hoisted(self) -> str:
        """Values that the pass needs and none of its axes change."""
        for c in self.source.cols:
            bounds(self.view.top, c)
        return hoisted(self.view.top, self.source, self.varying)

    @property
    def open(self) -> str:
        """The :attr:`loops`, and what is constant inside them."""
        lines = []
        for a in self.loops:
            v = var(a.name)
            low, high = bounds(self.block, a)
            lines += [taken(self.block), f"for (i64 {v} = {low}; {v} < {high}; ++{v}) {{"]
            self.block.bind[a.name] = v
        lines.append(self.constant())
        return "\n".join(t for t in lines if t)

    @property
    def close(self) -> str:
        """End of the loops that :attr:`open` began."""
        return "}" * len(self.loops)

    def constant(self) -> str:
        """Emits what does not change along the vector axis, inside the loops; the text of its statements."""
        raise NotImplementedError

    def declare(self, count: int) -> str:
        """Accumulators in registers: ``count`` of them per reduction."""
        return "\n".join(
            f"{a.vector} {', '.join(f'{a.name}_{u} = splat<{a.vector}>({a.start})' for u in range(count))};"
            for a in self.accumulators
        )
