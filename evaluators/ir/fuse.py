"""Place pending folds and scans in kernels: what can share a row is fused, the rest gets a kernel and a scratch buffer of its own.

A value is written by one kernel over the axes of its shape. Every fold it needs must depend on the same subset of those axes,
which become the kernel's rows; the others are the columns of its last pass. A fold that does not fit is realised first, into scratch.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from evaluators.ir.axes import coalesce, substitute
from evaluators.ir.expr import (
    Affine,
    Expr,
    as_affine,
    axis,
    op,
    pending,
    reduced,
    rewrite,
    scanned,
    walk,
)
from evaluators.ir.index import flatten, integer
from evaluators.ir.kernel import Axis, Buffer, Kernel, Pass, Reduction, Scan, Store
from evaluators.ir.values import Fold, Lowering, Ragged, Run, Value


def realize(low: Lowering, value: Value, buffer: Buffer) -> None:
    """Append the kernels that write ``value`` to ``buffer``."""
    axes: list[Axis] = []
    point: list[Expr] = []
    for size in value.shape:
        point.append(_new_axis(low, size, axes) if size > 1 else integer(0))
    while True:
        expr = _with_realized(low, value.at(tuple(point)))
        split = _split_candidate(expr, low.extents)
        if split is not None:
            axes, point = _split(low, axes, point, *split)
            continue
        expr = _reshaped(low, expr, axes)
        misfit = _misfit(low, axes, expr)
        if misfit is None:
            break
        _realize_pending(low, misfit)
    low.steps.append(_form(low, axes, expr, buffer, flatten(tuple(point), buffer.shape)))


def _new_axis(low: Lowering, size: int, axes: list[Axis]) -> Expr:
    name = low.fresh("a")
    low.extents[name] = size
    axes.append(Axis(name, size))
    return axis(name)


def _split_candidate(expr: Expr, extents: dict[str, int]) -> tuple[str, int] | None:
    """An axis that enters only through division by a constant that divides its extent."""
    for node in walk(expr):
        if node.op in ("floordiv", "mod") and node.args[0].op == "axis" and node.args[1].op == "const":
            name, by = node.args[0].attr, int(node.args[1].attr)
            if name in extents and extents[name] % by == 0:
                return name, by
    return None


def _split(low: Lowering, axes: list[Axis], point: list[Expr], name: str, by: int) -> tuple[list[Axis], list[Expr]]:
    pair: list[Axis] = []
    outer, inner = _new_axis(low, low.extents[name] // by, pair), _new_axis(low, by, pair)
    whole = _sum(outer, by, inner)

    def leaf(e: Expr) -> Expr | None:
        return whole if e.op == "axis" and e.attr == name else None

    at = next(i for i, a in enumerate(axes) if a.name == name)
    return [*axes[:at], *pair, *axes[at + 1 :]], [rewrite(p, leaf) for p in point]


def _sum(outer: Expr, by: int, inner: Expr) -> Expr:
    return op("add", op("mul", outer, integer(by)), inner)


def _with_realized(low: Lowering, expr: Expr) -> Expr:
    """Replace pending values that already sit in scratch by loads."""

    def leaf(e: Expr) -> Expr | None:
        if e.op == "pending" and e.attr in low.realized:
            at = tuple(rewrite(a, leaf) for a in e.args)
            return low.buffer_value(low.buffers[low.realized[e.attr]]).at(at)
        return None

    return rewrite(expr, leaf)


def _pendings(expr: Expr) -> Iterator[Expr]:
    return (n for n in walk(expr) if n.op == "pending")


def _plain_axes(node: Expr) -> frozenset[str] | None:
    """The axes of a pending value's point if each index is a distinct axis or the constant zero."""
    names: list[str] = []
    for a in node.args:
        if a.op == "axis":
            names.append(a.attr)
        elif not (a.op == "const" and a.attr == 0):
            return None
    return frozenset(names) if len(set(names)) == len(names) else None


def _rows(low: Lowering, axes: list[Axis], expr: Expr) -> frozenset[str]:
    """Which axes become rows, decided by the folds the value needs."""
    everything = frozenset(a.name for a in axes)
    sets: list[frozenset[str]] = []
    for node in _pendings(expr):
        plain = _plain_axes(node)
        if plain is None:
            continue
        if node.attr in low.runs:
            if plain == everything:
                dim = node.args[low.runs[node.attr].dim]
                return everything - {dim.attr} if dim.op == "axis" else everything
            continue
        if low.folds[node.attr].contraction and plain == everything:
            return everything
        sets.append(plain)
    return max(sets, key=len) if sets else everything


def _misfit(low: Lowering, axes: list[Axis], expr: Expr) -> str | None:
    """A pending value that cannot be computed inside this kernel and must be realised first."""
    everything = frozenset(a.name for a in axes)
    # A product that another fold reads would be computed once per reader: it goes first.
    for node in _pendings(expr):
        if node.attr in low.folds:
            for inner in _pendings(_body(low, low.folds[node.attr], node.args)):
                if inner.attr in low.folds and low.folds[inner.attr].contraction:
                    return str(inner.attr)
    rows = _rows(low, axes, expr)
    for node in _pendings(expr):
        plain = _plain_axes(node)
        if node.attr in low.runs:
            if plain != everything or len(rows) == len(everything):
                return str(node.attr)
            body = _with_realized(low, low.runs[node.attr].body(node.args))
            found = _misfit_inside(low, rows, body)
        else:
            if plain != rows or (low.folds[node.attr].contraction and len(rows) < len(everything)):
                return str(node.attr)
            found = _misfit_of_fold(low, rows, node)
        if found is not None:
            return found
    return None


def _misfit_of_fold(low: Lowering, rows: frozenset[str], node: Expr) -> str | None:
    fold = low.folds[node.attr]
    body = _body(low, fold, node.args)
    found = _misfit_inside(low, rows, body)
    if found is not None and _body_is_smaller(low, fold, node, body):
        _realize_body(low, fold)
        return _misfit_of_fold(low, rows, node)
    return found


def _misfit_inside(low: Lowering, rows: frozenset[str], body: Expr) -> str | None:
    for node in _pendings(body):
        if node.attr in low.runs or low.folds[node.attr].contraction or _plain_axes(node) != rows:
            return str(node.attr)
        found = _misfit_of_fold(low, rows, node)
        if found is not None:
            return found
    return None


def _body_is_smaller(low: Lowering, fold: Fold, node: Expr, body: Expr) -> bool:
    """Whether the folded value is itself one number per finished fold (a loss per row): then it gets the buffer, not its parts."""
    if isinstance(fold.cols, Ragged) or body.op == "pending":
        return False
    domain = frozenset(c.name for c in _cols(low, fold, node.args)) | (_plain_axes(node) or frozenset())
    inner = list(_pendings(body))
    return all(n.attr in low.folds and not low.folds[n.attr].contraction and _plain_axes(n) == domain for n in inner)


def _realize_body(low: Lowering, fold: Fold) -> None:
    assert not isinstance(fold.cols, Ragged)
    n = len(fold.outer)
    dtype = "float32" if fold.kind == "f32" else fold.dtype
    value = Value((*fold.outer, *fold.cols), dtype, lambda p: fold.body(p[:n], p[n:]))
    buffer = low.scratch(value.shape, dtype)
    realize(low, value, buffer)
    held = low.buffer_value(buffer)
    low.folds[fold.name] = replace(fold, body=lambda o, c: held.at((*o, *c)))


def _reshaped(low: Lowering, expr: Expr, axes: list[Axis]) -> Expr:
    """Folds read through a reshape that only splits dims become folds over the split dims, so that they fuse."""
    extents = {a.name: a.extent for a in axes}

    def leaf(e: Expr) -> Expr | None:
        if e.op != "pending" or e.attr not in low.folds or _plain_axes(e) is not None:
            return None
        fold = low.folds[e.attr]
        split = [_mixed_radix(as_affine(a), extents, size) for a, size in zip(e.args, fold.outer, strict=True)]
        if any(s is None for s in split):
            return None
        order = [name for s in split if s is not None for name in s]
        if len(set(order)) != len(order):
            return None
        args = e.args
        name = f"{fold.name}_{'_'.join(str(extents[a]) for a in order)}"
        if name not in low.folds:

            def body(o: tuple[Expr, ...], c: tuple[Expr, ...]) -> Expr:
                at = dict(zip(order, o, strict=True))
                point = tuple(rewrite(a, lambda x: at.get(x.attr) if x.op == "axis" else None) for a in args)
                return fold.body(point, c)

            low.folds[name] = replace(fold, name=name, outer=tuple(extents[a] for a in order), body=body)
        return pending(name, e.kind, tuple(axis(a) for a in order))

    return rewrite(expr, leaf)


def _mixed_radix(index: Affine, extents: dict[str, int], size: int) -> list[str] | None:
    """Axes, outermost first, whose digits make up an index that covers ``range(size)`` exactly once; else ``None``."""
    if index.terms or index.const or any(a not in extents for a, _ in index.axes):
        return None
    order = sorted(index.axes, key=lambda ac: -ac[1])
    step = 1
    for a, c in reversed(order):
        if c != step:
            return None
        step *= extents[a]
    return [a for a, _ in order] if step == size else None


def _realize_pending(low: Lowering, name: str) -> None:
    item: Fold | Run = low.folds[name] if name in low.folds else low.runs[name]
    shape = item.outer if isinstance(item, Fold) else item.shape
    wide = isinstance(item, Fold) and not item.contraction and item.kind == "f32"
    value = Value(shape, "float32" if wide else item.dtype, lambda p: pending(name, item.kind, p))
    buffer = low.scratch(shape, value.dtype)
    realize(low, value, buffer)
    low.realized[name] = buffer.name


def _cols(low: Lowering, fold: Fold, outer: tuple[Expr, ...]) -> tuple[Axis, ...]:
    """Column axes of a fold. Equal extents give equal names, so passes over the same columns share their loads."""
    if isinstance(fold.cols, Ragged):
        first, last = fold.cols.bounds(outer)
        return (Axis("k", fold.cols.mean, _with_realized(low, first), _with_realized(low, last)),)
    out = []
    for i, size in enumerate(fold.cols):
        if size > 1:
            out.append(Axis(_col_name(i, size), size))
            low.extents[out[-1].name] = size
    return tuple(out)


def _col_name(position: int, size: int) -> str:
    return f"c{position}x{size}"


def _body(low: Lowering, fold: Fold, outer: tuple[Expr, ...]) -> Expr:
    cols = _cols(low, fold, outer)
    if isinstance(fold.cols, Ragged):
        point: tuple[Expr, ...] = (axis("k"),)
    else:
        names = {c.name for c in cols}
        point = tuple(
            axis(_col_name(i, s)) if _col_name(i, s) in names else integer(0) for i, s in enumerate(fold.cols)
        )
    return _with_realized(low, fold.body(outer, point))


def _form(low: Lowering, axes: list[Axis], expr: Expr, buffer: Buffer, index: Affine) -> Kernel:
    """Lay out passes by dependency level and give axes their final names."""
    rows = _rows(low, axes, expr)
    levels: dict[str, int] = {}
    made: dict[str, tuple[tuple[Axis, ...], Reduction]] = {}

    def resolve(e: Expr) -> Expr:
        def leaf(n: Expr) -> Expr | None:
            if n.op != "pending":
                return None
            if n.attr in low.folds:
                place(n)
                return reduced(n.attr, n.kind)
            return scanned(n.attr, n.kind)

        return rewrite(e, leaf)

    def place(node: Expr) -> int:
        name = str(node.attr)
        if name not in levels:
            fold = low.folds[name]
            body = _body(low, fold, node.args)
            below = [place(n) for n in _pendings(body)]
            levels[name] = 1 + max(below, default=-1)
            made[name] = (_cols(low, fold, node.args), Reduction(name, fold.combine, resolve(body), fold.kind))
        return levels[name]

    scans: list[Scan] = []
    for node in list(_pendings(expr)):
        if node.attr in low.runs:
            run = low.runs[node.attr]
            scans.append(Scan(run.name, run.combine, resolve(_with_realized(low, run.body(node.args))), run.kind))  # type: ignore[arg-type]
    value = resolve(expr)
    passes: list[Pass] = []
    for level in sorted(set(levels.values())):
        groups: dict[tuple[str, ...], Pass] = {}
        for name, (cols, reduction) in made.items():
            if levels[name] == level:
                key = tuple(c.name + repr((c.low, c.high)) for c in cols)
                old = groups.get(key, Pass(cols))
                groups[key] = replace(old, reductions=(*old.reductions, reduction))
        passes += groups.values()
    last = tuple(a for a in axes if a.name not in rows)
    passes.append(Pass(last, scans=tuple(scans), stores=(Store(buffer.name, index, value),)))
    kernel = Kernel(low.fresh("k"), tuple(a for a in axes if a.name in rows), tuple(passes))
    return coalesce(_canonical(kernel))


def _canonical(kernel: Kernel) -> Kernel:
    """Rows become r0, r1, …; the last pass's columns take the names equal-sized columns of earlier passes have."""
    names = {a.name: f"r{i}" for i, a in enumerate(kernel.rows)}
    earlier = [p.cols for p in kernel.passes[:-1]]
    last = kernel.passes[-1].cols
    match = next((cols for cols in earlier if [c.extent for c in cols] == [c.extent for c in last]), None)
    for i, a in enumerate(last):
        names[a.name] = match[i].name if match else _col_name(i, a.extent)
    return substitute(kernel, {old: axis(new) for old, new in names.items()}, names)
