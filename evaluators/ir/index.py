"""Index arithmetic of views: flatten, unflatten, and division that cancels where extents allow it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

from evaluators.ir.expr import Affine, Expr, affine, as_affine, as_expr, const, op


def integer(value: int) -> Expr:
    """An index literal."""
    return const(value, "i64")


def bounds(index: Affine, extents: Mapping[str, int]) -> tuple[int, int] | None:
    """Smallest and largest value of an index without opaque terms; ``None`` where unknown."""
    if index.terms or any(a not in extents for a, _ in index.axes):
        return None
    low = high = index.const
    for a, c in index.axes:
        span = c * (extents[a] - 1)
        low, high = (low, high + span) if span > 0 else (low + span, high)
    return low, high


def divide(value: Expr, divisor: int, extents: Mapping[str, int]) -> tuple[Expr, Expr]:
    """``(value // divisor, value % divisor)`` for a non-negative value, split exactly where the coefficients allow."""
    if divisor == 1:
        return value, integer(0)
    index = as_affine(value)
    whole = {a: c // divisor for a, c in index.axes if c % divisor == 0}
    part = {a: c for a, c in index.axes if c % divisor != 0}
    whole_terms = {t: c // divisor for t, c in index.terms if c % divisor == 0}
    part_terms = {t: c for t, c in index.terms if c % divisor != 0}
    rest = affine(index.const % divisor, part, part_terms)
    limits = bounds(rest, extents)
    quotient = affine(index.const // divisor, whole, whole_terms)
    if limits is not None and limits[0] >= 0 and limits[1] < divisor:
        return as_expr(quotient), as_expr(rest)
    if not whole and not whole_terms:
        return op("floordiv", value, integer(divisor)), op("mod", value, integer(divisor))
    remainder = as_expr(rest)
    inner = op("floordiv", remainder, integer(divisor))
    return op("add", as_expr(quotient), inner), op("mod", remainder, integer(divisor))


def strides(shape: Sequence[int]) -> tuple[int, ...]:
    """Row-major strides in elements."""
    out, step = [], 1
    for size in reversed(shape):
        out.append(step)
        step *= size
    return tuple(reversed(out))


def flatten(at: Sequence[Expr], shape: Sequence[int]) -> Affine:
    """The element offset of a point of a contiguous tensor."""
    total = integer(0)
    for i, step in zip(at, strides(shape), strict=True):
        total = op("add", total, op("mul", i, integer(step)))
    return as_affine(total)


def reshape(at: Sequence[Expr], new: Sequence[int], old: Sequence[int], extents: Mapping[str, int]) -> tuple[Expr, ...]:
    """Where a point of shape ``new`` lies in shape ``old``: dims that line up pass through, groups split or merge."""
    out: list[Expr] = []
    i = j = 0
    while i < len(new) or j < len(old):
        gi, gj = [i], [j]
        a = new[i] if i < len(new) else 1
        b = old[j] if j < len(old) else 1
        i, j = min(i + 1, len(new)), min(j + 1, len(old))
        while a != b:
            if a < b:
                a *= new[i]
                gi.append(i)
                i += 1
            else:
                b *= old[j]
                gj.append(j)
                j += 1
        new_dims = [d for d in gi if d < len(new)]
        old_dims = [d for d in gj if d < len(old)]
        out += _regroup([at[d] for d in new_dims], [new[d] for d in new_dims], [old[d] for d in old_dims], extents)
    return tuple(out)


def _regroup(at: list[Expr], new: list[int], old: list[int], extents: Mapping[str, int]) -> list[Expr]:
    if new == old:
        return at
    flat = as_expr(flatten(at, new)) if at else integer(0)
    out: list[Expr] = []
    for d in range(len(old)):
        if old[d] == 1:
            out.append(integer(0))
            continue
        step = prod(old[d + 1 :])
        quotient, flat = divide(flat, step, extents)
        out.append(quotient)
    return out
