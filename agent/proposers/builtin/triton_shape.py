"""Reshape a kernel's passes so that a schedule can keep values between them: shared column names, folded domains, online softmax."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from evaluators.ir.expr import Expr, axis, const, op, rewrite, rewrite_affine
from evaluators.ir.kernel import Axis, Kernel, Pass, Reduction, Scan, Store

_FOLD = {"sum": "add", "prod": "mul", "max": "max", "min": "min", "any": "or", "all": "and"}
_MOST_FOLDS = 4


@dataclass(frozen=True)
class Stage:
    """One sweep over the columns. ``online`` holds the pass that was merged into it: a sum of ``exp(v - max v)`` accumulated together
    with the maximum itself (Milakov and Gimelshein 2018, arXiv 1805.02867)."""

    at: Pass
    online: Pass | None = None

    @property
    def cols(self) -> tuple[Axis, ...]:
        """The axes swept; empty for an epilogue that runs once per row."""
        return self.at.cols

    @property
    def reductions(self) -> tuple[Reduction, ...]:
        """Reductions finished by this sweep."""
        return self.at.reductions + (self.online.reductions if self.online else ())

    @property
    def stores(self) -> tuple[Store, ...]:
        """Stores written by this sweep."""
        return self.at.stores


def aligned(kernel: Kernel) -> Kernel:
    """The same kernel with every pass over one shared set of column axes where that is possible.

    A pass over ``m`` times as many columns as the narrowest one (a statistic over a whole row whose halves are then combined) is folded:
    each of its points handles columns ``c, c + n, …``, so the values it loads are those the narrow pass needs.
    """
    with_cols = [p for p in kernel.passes if p.cols and not any(c.ragged for c in p.cols)]
    if len(with_cols) < 2:
        return kernel
    base = min(with_cols, key=lambda p: math.prod(c.extent for c in p.cols)).cols
    return replace(kernel, passes=tuple(_onto(p, base) for p in kernel.passes))


def _onto(p: Pass, base: tuple[Axis, ...]) -> Pass:
    if not p.cols or p.cols == base or any(c.ragged for c in p.cols):
        return p
    if tuple(c.extent for c in p.cols) == tuple(b.extent for b in base):
        names = {c.name: axis(b.name) for c, b in zip(p.cols, base, strict=True)}
        return _substituted(p, base, [names])
    if len(p.cols) == len(base) == 1 and not p.scans:
        times, rest = divmod(p.cols[0].extent, base[0].extent)
        if rest == 0 and 1 < times <= _MOST_FOLDS:
            here, n = axis(base[0].name), base[0].extent
            shifts = [{p.cols[0].name: op("add", here, const(j * n, "i64"))} for j in range(times)]
            return _substituted(p, base, shifts)
    return p


def _substituted(p: Pass, base: tuple[Axis, ...], points: list[dict[str, Expr]]) -> Pass:
    def at(e: Expr, names: dict[str, Expr]) -> Expr:
        return rewrite(e, lambda n: names.get(n.attr) if n.op == "axis" else None)

    reductions: list[Reduction] = []
    for r in p.reductions:
        value = at(r.value, points[0])
        for names in points[1:]:
            value = op(_FOLD[r.combine], value, at(r.value, names))
        reductions.append(replace(r, value=value))
    scans = tuple(Scan(s.name, s.combine, at(s.value, points[0]), s.kind, s.reverse) for s in p.scans)
    stores = tuple(
        Store(
            s.buffer,
            rewrite_affine(s.index, lambda n, names=names: names.get(n.attr) if n.op == "axis" else None),
            at(s.value, names),
        )
        for names in points
        for s in p.stores
    )
    return Pass(base, tuple(reductions), scans, stores)


def stages(kernel: Kernel, online: bool) -> list[Stage]:
    """The kernel's passes in order; with ``online``, a maximum and the sum of exponentials below it become one sweep."""
    out: list[Stage] = []
    for p in kernel.passes:
        if online and out and out[-1].online is None and softmax_pair(out[-1].at, p):
            out[-1] = Stage(out[-1].at, p)
        else:
            out.append(Stage(p))
    return out


def softmax_pair(first: Pass, second: Pass) -> bool:
    """Whether ``first`` is the maximum of some v and ``second`` the sum of exp(v - maximum), and neither does anything else."""
    if first.stores or second.stores or first.scans or second.scans or first.cols != second.cols:
        return False
    if len(first.reductions) != 1 or len(second.reductions) != 1:
        return False
    peak, total = first.reductions[0], second.reductions[0]
    if peak.combine != "max" or total.combine != "sum" or total.value.op != "exp" or peak.kind != "f32":
        return False
    shifted = total.value.args[0]
    return (
        shifted.op == "sub"
        and shifted.args[0] is peak.value
        and shifted.args[1].op == "reduced"
        and shifted.args[1].attr == peak.name
    )


def epilogue(kernel: Kernel) -> tuple[Pass, ...]:
    """The passes after the last one with columns."""
    last = max((i for i, p in enumerate(kernel.passes) if p.cols), default=-1)
    return kernel.passes[last + 1 :]
