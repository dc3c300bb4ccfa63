"""What a skeleton's holes are filled with: code for one tile of a kernel's domain, in straight line or inside a loop."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from agent.errors import EmitError
from agent.proposers.builtin import triton_online
from agent.proposers.builtin.triton_dims import KINDS, Dim, Text
from agent.proposers.builtin.triton_fold import accumulator_type, combine, fold, identity
from agent.proposers.builtin.triton_scope import Scope
from agent.proposers.builtin.triton_shape import Stage
from evaluators.ir.expr import Expr, axes_of, walk
from evaluators.ir.kernel import Axis, Reduction, Scan


class Tile:
    """A tile bound to index variables. Skeletons call its methods in the order the code should run.

    ``nan_free`` names maxima whose NaNs need no special propagation because every use subtracts them under ``exp``.
    """

    def __init__(self, scope: Scope, nan_free: frozenset[str] = frozenset(), parent: Tile | None = None) -> None:
        self.scope = scope
        self.nan_free = nan_free
        self.parent = parent
        self._accumulators: dict[str, str] = {}
        self._own = scope.dims if parent is None else scope.dims[len(parent.scope.dims) :]

    def loop(self, *dims: Dim) -> Tile:
        """A tile inside a loop over more axes."""
        return Tile(self.scope.child(*dims), self.nan_free, self)

    def last(self, *dims: Dim) -> Tile:
        """This tile for the masked iteration after the loop, which leaves the domain: it folds into the same accumulators."""
        assert self.parent is not None
        other = self.parent.loop(*dims)
        other._accumulators = self._accumulators
        return other

    def open(self) -> str:
        """Broadcast indices and masks of this tile's own dimensions."""
        self.scope.open(*self._own)
        return self.scope.take()

    def again(self, cache: dict[str, str]) -> Tile:
        """The same points with values computed anew: what a sweep reads it reads from memory, under these cache hints."""
        fresh = replace(self.scope, memo={}, derived={}, lines=[], cache=cache)
        return type(self)(fresh, self.nan_free, self.parent)

    # -- whole rows in registers -------------------------------------------------------------------------------------

    def reduce(self, stage: Stage) -> str:
        """Finish a stage's reductions over this tile."""
        for r in stage.reductions:
            value = self._masked(r, self.scope.emit(r.value))
            self._bind(r, self._folded(r, value))
        return self.scope.take()

    def bind_fold(self, reduction: Reduction, each: str, position: int) -> str:
        """Fold a tile of partial results along one dimension and declare it the reduction's result."""
        kept = frozenset(d.position for d in self.scope.dims if d.position is not None)
        self._bind(reduction, Text(self.scope.let(fold(reduction, each, position), f"{reduction.name}_"), kept))
        return self.scope.take()

    def ragged_bounds(self, axis: Axis) -> str:
        """Scalars ``low`` and ``high``: the data-dependent range of a ragged axis."""
        assert axis.low is not None
        assert axis.high is not None
        low, high = self.scope.emit(axis.low), self.scope.emit(axis.high)
        for name, value in (("low", low), ("high", high)):
            text = f"tl.full((), {value.text}, tl.int32)" if value.literal else f"{value.text}.to(tl.int32)"
            self.scope.lines.append(f"{name} = {text}")
        return self.scope.take()

    def write(self, stage: Stage, policy: str = "") -> str:
        """A stage's stores."""
        for s in stage.stores:
            self.scope.store(s.buffer, s.index, s.value, f'eviction_policy="{policy}"' if policy else "")
        return self.scope.take()

    # -- loops -------------------------------------------------------------------------------------------------------

    def init(self, stage: Stage) -> str:
        """Before the loop: values that do not depend on it, and one accumulator tile per reduction."""
        assert self.parent is not None
        roots = (
            [r.value for r in stage.reductions] + [s.value for s in stage.at.scans] + [s.value for s in stage.stores]
        )
        text = self.hoist(roots)
        lines: list[str] = [] if text == "pass" else [text]
        for r in stage.reductions:
            name = self._accumulators[r.name] = self.scope.fresh(f"acc_{r.name}_")
            start = triton_online.LOWEST if stage.online and r.combine == "max" else identity(r)
            shape = self._shape(r.value)
            if self.grouped(stage):
                sizes = [*map(str, self._sizes()[:-1]), f"{self._sizes()[-1]} // {self.group}"]
                shape = f"[{', '.join(sizes)}]"
            lines.append(f"{name} = tl.full({shape}, {start}, {accumulator_type(r)})")
        return "\n".join(lines) or "pass"

    def hoist(self, roots: Sequence[Expr]) -> str:
        """Emit, in the enclosing scope, the largest values that do not vary inside this loop."""
        assert self.parent is not None
        inner = frozenset(a.name for d in self._own for a in d.axes)
        outer = self.parent.scope

        def visit(node: Expr) -> None:
            if node.op in ("const", "axis") or id(node) in outer.memo:
                return
            if node.op in ("reduced", "scanned"):
                return
            if not axes_of(node) & inner and _finished(node, outer):
                outer.emit(node)
                return
            for a in node.args:
                visit(a)
            if node.index is not None:
                for t, _ in node.index.terms:
                    visit(t)

        for root in roots:
            visit(root)
        self.scope.memo = {**outer.memo, **self.scope.memo}
        self.scope.reduced = {**outer.reduced, **self.scope.reduced}
        return outer.take()

    def accumulate(self, stage: Stage) -> str:
        """Inside the loop: fold this tile into the accumulators, element by element."""
        if stage.online is not None:
            return self._accumulate_online(stage)
        for r in stage.reductions:
            acc = self._accumulators[r.name]
            value = self._masked(r, self.scope.emit(r.value))
            self.scope.lines.append(f"{acc} = {combine(r, acc, value, self._plain(r))}")
        return self.scope.take()

    def _accumulate_online(self, stage: Stage) -> str:
        peak, total = stage.reductions
        m, s = self._accumulators[peak.name], self._accumulators[total.name]
        value = self._masked(peak, self.scope.emit(peak.value))
        if self.grouped(stage):
            triton_online.grouped_step(self.scope, value, m, s, self._sizes(), self.group)
        else:
            triton_online.step(self.scope, value, m, s)
        return self.scope.take()

    @property
    def group(self) -> int:
        """Neighbouring columns that share a running maximum: those one thread loads at once, 16 bytes of them."""
        inputs = [b.dtype for b in self.scope.buffers.values() if b.role == "input" and "float" in b.dtype]
        return 8 if self.scope.fast or (inputs and all(d in ("float16", "bfloat16") for d in inputs)) else 4

    def grouped(self, stage: Stage) -> bool:
        """Whether an online stage keeps one running maximum per group of neighbouring columns."""
        return stage.online is not None and self._positions() == [self.scope.rank - 1]

    def _sizes(self) -> list[int | str]:
        sizes = {d.position: d.block for d in self.scope.dims}
        return [sizes.get(i, 1) for i in range(self.scope.rank)]

    def finish(self, stage: Stage) -> str:
        """After the loop: fold each accumulator to the reduction's result and hand it to the enclosing scope."""
        assert self.parent is not None
        outer = self.parent
        if stage.online is not None:
            peak, total = stage.reductions
            m, s = self._accumulators[peak.name], self._accumulators[total.name]
            whole = outer.scope.let(self._fold_text(peak, m, plain=True))
            scaled = triton_online.rescaled(outer.scope, s, m, whole)
            below = outer.scope.let(triton_online.spoiled(self._fold_text(total, scaled), whole))
            outer.scope.reduced[peak.name] = Text(whole, self._kept(peak))
            outer.scope.reduced[total.name] = Text(below, self._kept(total))
            return outer.scope.take()
        for r in stage.reductions:
            text = self._fold_text(r, self._accumulators[r.name], self._plain(r))
            name = outer.scope.let(text, f"{r.name}_")
            outer._bind(r, Text(name, self._kept(r)))
        return outer.scope.take()

    def results(self, stage: Stage) -> list[tuple[str, str]]:
        """Names and values of a stage's finished reductions, for exchanging partial results."""
        return [(r.name, self.scope.reduced[r.name].text) for r in stage.reductions]

    def bind(self, reduction: Reduction, text: str, dims: frozenset[int] | None = None) -> None:
        """Declare the finished value of a reduction that the skeleton computed itself."""
        self.scope.reduced[reduction.name] = Text(text, self._kept(reduction) if dims is None else dims)

    # -- scans -------------------------------------------------------------------------------------------------------

    def scan_init(self, stage: Stage) -> str:
        """Before a scan's loop: the carry, the fold of everything already passed."""
        assert self.parent is not None
        lines = [self.hoist([s.value for s in stage.at.scans] + [s.value for s in stage.stores])]
        for s in stage.at.scans:
            name = self._accumulators[s.name] = self.scope.fresh(f"carry_{s.name}_")
            shape = self._shape_of({d.position for d in self.parent.scope.dims})
            lines.append(f"{name} = tl.full({shape}, {identity(s)}, {KINDS[s.kind]})")
        return "\n".join(x for x in lines if x != "pass") or "pass"

    def scan(self, stage: Stage) -> str:
        """Inside the loop: running folds of this tile on top of the carry, then the stores that read them."""
        for s in stage.at.scans:
            position = self._positions()[0]
            carry = self._accumulators[s.name]
            value = self._masked(s, self.scope.emit(s.value))
            if s.combine == "sum":
                running = self.scope.let(f"tl.cumsum({value}, axis={position}, reverse={s.reverse})")
                total = f"tl.sum({value}, axis={position}, keep_dims=True)"
            else:
                fold = {"prod": "_mul", "max": "_nanmax", "min": "_nanmin"}[s.combine]
                running = self.scope.let(f"tl.associative_scan({value}, {position}, {fold}, reverse={s.reverse})")
                total = f"tl.reduce({value}, {position}, {fold}, keep_dims=True)"
            result = self.scope.let(combine(s, carry, running))
            self.scope.lines.append(f"{carry} = {combine(s, carry, total)}")
            self.scope.reduced[s.name] = Text(result, frozenset(p for p in range(self.scope.rank)))
        for st in stage.stores:
            self.scope.store(st.buffer, st.index, st.value)
        return self.scope.take()

    # -- pieces ------------------------------------------------------------------------------------------------------

    def _plain(self, r: Reduction) -> bool:
        return r.name in self.nan_free or r.kind not in ("f32", "f64")

    def _cols(self) -> list[Dim]:
        return [d for d in self.scope.dims if d.folded]

    def _positions(self) -> list[int]:
        return sorted({d.position for d in self._cols() if d.position is not None})

    def _kept(self, r: Reduction) -> frozenset[int]:
        return self.scope.span(axes_of(r.value)) - set(self._positions())

    def _shape_of(self, positions: set[int | None]) -> str:
        sizes = {d.position: d.block for d in self.scope.dims}
        return "[" + ", ".join(str(sizes[i]) if i in positions else "1" for i in range(self.scope.rank)) + "]"

    def _shape(self, value: Expr) -> str:
        deps = set(axes_of(value))
        for name in _reads(value):
            found = self.scope.reduced.get(name)
            deps |= {a.name for d in self.scope.dims if found and d.position in found.dims for a in d.axes}
        return self._shape_of({*self.scope.span(deps), *self._positions()})

    def _masked(self, r: Reduction | Scan, value: Text) -> str:
        """The value with points outside the domain replaced by the fold's identity."""
        text = value.text
        if r.combine in ("any", "all"):
            text = f"({text} != 0).to(tl.int32)"
        elif r.kind == "i64" and not value.wide and not value.literal:
            text = f"{text}.to(tl.int64)"
        names = [a.name for d in self._cols() for a in d.axes]
        masks = self.scope.masks(names)
        missing = value.literal or bool(set(self._positions()) - value.dims)
        if masks:
            text = self.scope.let(f"tl.where({' & '.join(masks)}, {text}, {identity(r)})")
            missing = value.literal and len(masks) < len(self._cols())
        if missing:
            shape = self._shape_of({*self._positions(), *value.dims})
            return self.scope.let(f"tl.zeros({shape}, {accumulator_type(r)}) + {text}")
        return text

    def _fold_text(self, r: Reduction, text: str, plain: bool = False) -> str:
        for position in self._positions():
            text = fold(r, text, position, plain)
        return text

    def _folded(self, r: Reduction, value: str) -> Text:
        return Text(self.scope.let(self._fold_text(r, value, self._plain(r)), f"{r.name}_"), self._kept(r))

    def _bind(self, r: Reduction, value: Text) -> None:
        if r.combine in ("any", "all") and r.kind == "bool":
            value = Text(self.scope.let(f"({value.text} != 0)"), value.dims)
        self.scope.reduced[r.name] = Text(value.text, value.dims, r.kind == "i64")


def _reads(value: Expr) -> set[str]:
    return {n.attr for n in walk(value) if n.op in ("reduced", "scanned")}


def _finished(node: Expr, scope: Scope) -> bool:
    return _reads(node) <= set(scope.reduced)


def refuse(what: str, why: str) -> EmitError:
    """The error for a kernel that a schedule cannot carry."""
    return EmitError(f"{what}: {why}; choose another exemplar")
