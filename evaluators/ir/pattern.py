"""Which schedule family a kernel of the loop IR belongs to, read off its axes and strides."""

from __future__ import annotations

from collections.abc import Iterator

from evaluators.ir.expr import Affine, Expr, axes_of, walk
from evaluators.ir.kernel import Kernel, Pass, Reduction

PATTERNS = (
    "pointwise",  # one pass, no reduction: elementwise, gather, index maps
    "row_reduce",  # reductions along contiguous columns, one result per row
    "row_norm",  # the same, then a pass that writes every column (softmax, layer norm)
    "column_reduce",  # reductions along a strided axis, contiguous across rows
    "column_norm",  # the same, then a pass that writes every column
    "full_reduce",  # no rows at all
    "scan",  # running fold along columns
    "contraction",  # sum of products of two operands (matrix product, batched or not)
    "segment",  # columns delimited by data (offsets)
)


def classify(kernel: Kernel) -> str:
    """The pattern name, one of :data:`PATTERNS`."""
    if any(p.scans for p in kernel.passes):
        return "scan"
    if any(c.ragged for p in kernel.passes for c in p.cols):
        return "segment"
    if not any(p.reductions for p in kernel.passes):
        return "pointwise"
    if any(contraction_operands(kernel, p, r) for p in kernel.passes for r in p.reductions):
        return "contraction"
    if not kernel.rows:
        return "full_reduce"
    writes = any(p.stores and p.cols for p in kernel.passes)
    if unit_stride_axis(kernel) in {a.name for a in kernel.rows}:
        return "column_norm" if writes else "column_reduce"
    return "row_norm" if writes else "row_reduce"


def contraction_operands(kernel: Kernel, at: Pass, reduction: Reduction) -> tuple[Expr, Expr] | None:
    """The two factors of a sum of products, where each depends on the reduced axis and on a row axis the other lacks.

    The left factor is the one that depends on the earlier of the row axes they do not share.
    """
    value = reduction.value
    if reduction.combine != "sum" or value.op != "mul" or len(at.cols) != 1:
        return None
    a, b = value.args
    rows = [r.name for r in kernel.rows]
    k = at.cols[0].name
    of_a, of_b = axes_of(a), axes_of(b)
    only_a = [r for r in rows if r in of_a and r not in of_b]
    only_b = [r for r in rows if r in of_b and r not in of_a]
    if k not in of_a or k not in of_b or not only_a or not only_b:
        return None
    return (a, b) if rows.index(only_a[0]) < rows.index(only_b[0]) else (b, a)


def unit_stride_axis(kernel: Kernel) -> str | None:
    """The axis along which most of the traffic is contiguous: the unit-stride axis of the largest accesses."""
    extents = {a.name: a.extent for a in kernel.rows}
    for p in kernel.passes:
        extents |= {a.name: a.extent for a in p.cols}
    votes: dict[str, int] = {}
    for index in accesses(kernel):
        size = 1
        for a, _ in index.axes:
            size *= extents.get(a, 1)
        for a, c in index.axes:
            if c == 1:
                votes[a] = votes.get(a, 0) + size
    return max(votes, key=votes.__getitem__) if votes else None


def accesses(kernel: Kernel) -> Iterator[Affine]:
    """Every distinct load and store index."""
    seen: set[tuple[str, int]] = set()
    for p in kernel.passes:
        roots = [r.value for r in p.reductions] + [s.value for s in p.scans] + [s.value for s in p.stores]
        for root in roots:
            for node in walk(root):
                if node.index is not None and (node.attr, id(node.index)) not in seen:
                    seen.add((node.attr, id(node.index)))
                    yield node.index
        for s in p.stores:
            yield s.index
