"""A tile that is one part of a row: what programs that share the row exchange, and loads made one row ahead."""

from __future__ import annotations

from collections.abc import Sequence

from agent.proposers.builtin import triton_online
from agent.proposers.builtin.triton_dims import Text
from agent.proposers.builtin.triton_fold import accumulator_type, fold
from agent.proposers.builtin.triton_scope import Scope
from agent.proposers.builtin.triton_shape import Stage
from agent.proposers.builtin.triton_tile import Tile, refuse
from evaluators.ir.expr import Expr, axes_of, walk


class SharedTile(Tile):
    """A tile over part of the columns; other programs hold the rest of the row at the same time."""

    def __init__(self, scope: Scope, nan_free: frozenset[str] = frozenset(), parent: Tile | None = None) -> None:
        super().__init__(scope, nan_free, parent)
        self._local = ("", "")

    # -- one row ahead -----------------------------------------------------------------------------------------------

    def hold(self, stages: Sequence[Stage]) -> str:
        """Load, at the points this tile is bound to, what these stages read once per point: ``held_0``, ``held_1``, …"""
        self.scope.open(*self._own)
        for i, node in enumerate(self._once(stages)):
            self.scope.lines.append(f"held_{i} = {self.scope.load(node, raw=True).text}")
        return self.scope.take()

    def held(self, stages: Sequence[Stage]) -> str:
        """Take those values for this tile's own loads."""
        for i, node in enumerate(self._once(stages)):
            value = self.scope.load(node, text=f"held_{i}")
            self.scope.memo[id(node)] = value
        return self.scope.take()

    def _once(self, stages: Sequence[Stage]) -> list[Expr]:
        """Loads that no other point of the domain shares, by plain strides."""
        names = {a.name for d in self.scope.dims for a in d.axes}
        roots = [e for s in stages for e in (*(r.value for r in s.reductions), *(w.value for w in s.stores))]
        loads = {id(n): n for root in roots for n in walk(root) if n.op == "load"}
        return [n for n in loads.values() if n.index is not None and not n.index.terms and axes_of(n.index) == names]

    # -- the exchange ------------------------------------------------------------------------------------------------

    def reduce_local(self, stage: Stage) -> str:
        """The same over one part of a row that other programs share: results are this part's own until :meth:`join`."""
        if any(r.kind not in ("f32", "i32") or r.combine in ("any", "all") for r in stage.reductions):
            raise refuse(stage.reductions[0].name, "partial results travel as float32")
        if stage.online is None:
            return self.reduce(stage)
        peak, total = stage.reductions
        value = self._masked(peak, self.scope.emit(peak.value))
        fold_peak = self._fold_text(peak, value, plain=True)
        top = self.scope.let(f"tl.maximum({fold_peak}, {triton_online.LOWEST})", f"{peak.name}_")
        each = self.scope.let(f"{triton_online.exp(self.scope)}({value} - {top})")
        below = self.scope.let(self._fold_text(total, each), f"{total.name}_")
        self._local = (top, each)
        self.bind(peak, top)
        self.bind(total, below)
        return self.scope.take()

    def sealed(self, stage: Stage) -> list[str]:
        """A part's results as 64-bit words, never zero: a sum of exponentials below the maximum is at least 1 and marks its pair."""
        values = [self.scope.reduced[r.name].text for r in stage.reductions]
        return [f"_paired({', '.join(values)})"] if stage.online else [f"_sealed({v})" for v in values]

    def join(self, stage: Stage) -> str:
        """Fold the parts' words, in tiles named ``word_0``, ``word_1``, …, into the row's results."""
        if stage.online is None:
            for i, r in enumerate(stage.reductions):
                text = f"_low(word_{i})" if r.kind == "f32" else f"_low(word_{i}).to({accumulator_type(r)})"
                self._bind(r, Text(self.scope.let(fold(r, text, 0), f"{r.name}_"), frozenset()))
            return self.scope.take()
        peak, total = stage.reductions
        top, each = self._local
        exp = triton_online.exp(self.scope)
        peaks, sums = self.scope.let("_high(word_0)"), self.scope.let("_low(word_0)")
        whole = self.scope.let(f"tl.max({peaks}, axis=0, keep_dims=True)")
        scaled = triton_online.rescaled(self.scope, sums, peaks, whole)
        below = self.scope.let(f"tl.sum({scaled}, axis=0, keep_dims=True)")
        self.bind(peak, whole)
        self.bind(total, below)
        # the exponentials below the part's maximum become those below the row's: one product instead of a second exp
        spans = self.scope.emit(peak.value).dims
        # in place, so that the row's other factors are known first: a tile of products held meanwhile costs its registers
        factor = self.scope.let(f"{exp}({top} - {whole})")
        self.scope.memo[id(total.value)] = Text(f"({each} * {factor})", spans)
        return self.scope.take()
