"""Rewrite the axes of a kernel: rename, substitute, and merge neighbours that every access walks as one."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

from evaluators.ir.expr import Affine, Expr, rewrite, rewrite_affine, walk
from evaluators.ir.index import integer
from evaluators.ir.kernel import Axis, Kernel, Pass, Store


def substitute(kernel: Kernel, values: dict[str, Expr], names: dict[str, str]) -> Kernel:
    """Replace axes by expressions everywhere, and rename the axes that stay."""
    memo: dict[int, Expr] = {}

    def leaf(e: Expr) -> Expr | None:
        return values.get(e.attr) if e.op == "axis" else None

    def on(e: Expr) -> Expr:
        return rewrite(e, leaf, memo)

    def ax(a: Axis) -> Axis:
        return Axis(names.get(a.name, a.name), a.extent, a.low and on(a.low), a.high and on(a.high))

    return Kernel(
        kernel.name,
        tuple(map(ax, kernel.rows)),
        tuple(
            Pass(
                tuple(map(ax, p.cols)),
                tuple(replace(r, value=on(r.value)) for r in p.reductions),
                tuple(replace(s, value=on(s.value)) for s in p.scans),
                tuple(Store(s.buffer, rewrite_affine(s.index, leaf, memo), on(s.value)) for s in p.stores),
            )
            for p in kernel.passes
        ),
    )


def coalesce(kernel: Kernel) -> Kernel:
    """Merge neighbouring axes that every access walks as one contiguous axis."""
    while True:
        groups = [kernel.rows, *(p.cols for p in kernel.passes)]
        pair = next((ab for g in groups for ab in pairwise(g) if _mergeable(kernel, groups, *ab)), None)
        if pair is None:
            return kernel
        kernel = _merge(kernel, *pair)


def _mergeable(kernel: Kernel, groups: list[tuple[Axis, ...]], a: Axis, b: Axis) -> bool:
    if a.ragged or b.ragged or any(len(p.cols) > 0 and p.scans for p in kernel.passes if a in p.cols):
        return False
    for g in groups:
        names = [x.name for x in g]
        if (a.name in names) != (b.name in names):
            return False
        if a.name in names and names.index(b.name) != names.index(a.name) + 1:
            return False
    for p in kernel.passes:
        for c in p.cols:
            if c.ragged and any(_uses(e, a, b) for e in (c.low, c.high) if e is not None):
                return False
        roots = [r.value for r in p.reductions] + [s.value for s in p.scans] + [s.value for s in p.stores]
        if any(_uses(r, a, b) for r in roots) or any(_breaks(s.index, a, b) for s in p.stores):
            return False
    return True


def _breaks(index: Affine, a: Axis, b: Axis) -> bool:
    return index.coeff(a.name) != index.coeff(b.name) * b.extent or any(_uses(t, a, b) for t, _ in index.terms)


def _uses(root: Expr, a: Axis, b: Axis) -> bool:
    """Whether the two axes enter other than as one contiguous axis."""
    for n in walk(root):
        if n.op == "axis" and n.attr in (a.name, b.name):
            return True
        if n.index is not None and n.index.coeff(a.name) != n.index.coeff(b.name) * b.extent:
            return True
    return False


def _merge(kernel: Kernel, a: Axis, b: Axis) -> Kernel:
    merged = Axis(b.name, a.extent * b.extent)

    def axes(group: tuple[Axis, ...]) -> tuple[Axis, ...]:
        return tuple(merged if x.name == b.name else x for x in group if x.name != a.name)

    out = substitute(kernel, {a.name: integer(0)}, {})
    return Kernel(out.name, axes(out.rows), tuple(replace(p, cols=axes(p.cols)) for p in out.passes))
