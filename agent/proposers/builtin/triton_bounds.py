"""Ranges of integer index expressions, so that int32 offsets and unguarded loads are used only where they are provable."""

from __future__ import annotations

from collections.abc import Mapping

from evaluators.ir.expr import Affine, Expr

Range = tuple[int, int] | None
INT32 = 1 << 31


def bounds(node: Expr, extents: Mapping[str, int]) -> Range:
    """Smallest and largest value of an integer expression, or ``None`` where nothing is known (loaded data)."""
    if node.op == "const":
        return None if isinstance(node.attr, float) else (int(node.attr), int(node.attr))
    if node.op == "axis":
        return (0, max(0, extents[node.attr] - 1)) if node.attr in extents else None
    if node.kind == "bool":
        return (0, 1)
    if node.op == "cast":
        return bounds(node.args[0], extents) if node.args[0].kind not in ("f32", "f64") else None
    if node.op == "where":
        return _union(bounds(node.args[1], extents), bounds(node.args[2], extents))
    if len(node.args) == 2 and node.kind in ("i32", "i64"):
        return _binary(node.op, bounds(node.args[0], extents), bounds(node.args[1], extents))
    return None


def affine_bounds(index: Affine, extents: Mapping[str, int]) -> Range:
    """The same for an index into a buffer."""
    low = high = index.const
    parts = [((0, max(0, extents[a] - 1)) if a in extents else None, c) for a, c in index.axes]
    parts += [(bounds(t, extents), c) for t, c in index.terms]
    for known, coefficient in parts:
        if known is None:
            return None
        ends = (known[0] * coefficient, known[1] * coefficient)
        low, high = low + min(ends), high + max(ends)
    return low, high


def narrow(known: Range) -> bool:
    """Whether every value fits in int32."""
    return known is not None and known[0] >= -INT32 and known[1] < INT32


def _union(a: Range, b: Range) -> Range:
    return None if a is None or b is None else (min(a[0], b[0]), max(a[1], b[1]))


def _binary(op: str, a: Range, b: Range) -> Range:
    if op == "min" and (a is None or b is None):
        return None
    if a is None or b is None:
        if op == "mod" and b is not None and b[0] == b[1] and b[0] > 0:
            return 0, b[0] - 1
        return None
    if op == "add":
        return a[0] + b[0], a[1] + b[1]
    if op == "sub":
        return a[0] - b[1], a[1] - b[0]
    if op == "mul":
        ends = [x * y for x in a for y in b]
        return min(ends), max(ends)
    if op == "min":
        return min(a[0], b[0]), min(a[1], b[1])
    if op == "max":
        return max(a[0], b[0]), max(a[1], b[1])
    if op == "floordiv" and b[0] == b[1] and b[0] > 0:
        return a[0] // b[0], a[1] // b[0]
    if op == "mod" and b[0] == b[1] and b[0] > 0:
        return (a[0], a[1]) if a[0] >= 0 and a[1] < b[0] else (0, b[0] - 1)
    return None
