"""Expressions of the loop IR: scalar values computed at one point of an iteration domain.

An :class:`Expr` is an immutable, interned node, so common subexpressions are shared by identity and an emitter that keeps a
dict keyed on nodes emits each value once. Buffers are addressed by :class:`Affine` indices: a constant plus integer
multiples of loop axes and of opaque integer terms (gathers, div and mod), in elements of the flattened buffer.

Compute types are ``f32`` (all of float32, float16, bfloat16: loads widen, stores narrow), ``f64``, ``i64``, ``i32``, ``bool``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

Kind = Literal["f32", "f64", "i64", "i32", "bool"]

UNARY = frozenset(
    "neg abs exp exp2 expm1 log log1p log2 sqrt rsqrt tanh sigmoid erf sin cos tan reciprocal floor ceil round trunc "
    "sign not isnan isinf".split()
)
BINARY = frozenset("add sub mul div floordiv mod pow min max lt le gt ge eq ne and or xor atan2 fmod".split())
"""``div`` is true division; ``floordiv`` and ``mod`` are Python's; ``min`` and ``max`` propagate NaN as PyTorch does."""


@dataclass(frozen=True, eq=False)
class Expr:
    """One value. ``op`` is a member of UNARY or BINARY, or one of:

    - ``const``: ``attr`` is the Python number;
    - ``axis``: ``attr`` is the axis name, the value its current index (i64);
    - ``load``: ``attr`` is the buffer name, ``index`` the element offset;
    - ``where``: args (condition, if_true, if_false);
    - ``cast``: to ``kind``;
    - ``reduced``: ``attr`` is the name of a Reduction of the same kernel, finished in an earlier pass;
    - ``scanned``: ``attr`` is the name of a Scan of the same pass;
    - ``pending``: during lowering only: a fold or scan named ``attr`` at the indices ``args``, not yet placed in a kernel.
    """

    op: str
    args: tuple[Expr, ...]
    kind: Kind
    attr: Any = None
    index: Affine | None = None

    def __repr__(self) -> str:
        if self.op == "const":
            return repr(self.attr)
        if self.op in ("axis", "reduced", "scanned"):
            return f"{self.op}:{self.attr}"
        if self.op == "load":
            return f"{self.attr}[{self.index}]"
        name = f"cast_{self.kind}" if self.op == "cast" else self.op
        return f"{name}({', '.join(map(repr, self.args))})"


@dataclass(frozen=True, eq=False)
class Affine:
    """``const + sum(coeff * axis) + sum(coeff * term)``; axes and terms are sorted, interned tuples."""

    const: int
    axes: tuple[tuple[str, int], ...]
    terms: tuple[tuple[Expr, int], ...]

    def coeff(self, axis: str) -> int:
        """The stride, in elements, along ``axis`` (0 where the affine part does not depend on it)."""
        return dict(self.axes).get(axis, 0)

    @property
    def opaque_axes(self) -> frozenset[str]:
        """Axes that enter through the terms, where the dependence is not affine."""
        return frozenset().union(*(axes_of(t) for t, _ in self.terms))

    def __repr__(self) -> str:
        parts = [f"{c}*{a}" if c != 1 else a for a, c in self.axes]
        parts += [f"{c}*({t!r})" if c != 1 else f"({t!r})" for t, c in self.terms]
        if self.const or not parts:
            parts.append(str(self.const))
        return " + ".join(parts)


_exprs: dict[tuple[Any, ...], Expr] = {}
_affines: dict[tuple[Any, ...], Affine] = {}
_serial: dict[int, int] = {}


def _intern_expr(op: str, args: tuple[Expr, ...], kind: Kind, attr: Any = None, index: Affine | None = None) -> Expr:
    key = (op, tuple(map(id, args)), kind, type(attr).__name__, repr(attr), id(index) if index is not None else 0)
    found = _exprs.get(key)
    if found is None:
        found = _exprs[key] = Expr(op, args, kind, attr, index)
        _serial[id(found)] = len(_serial)
    return found


def interned(op: str, args: tuple[Expr, ...], kind: Kind, attr: Any = None, index: Affine | None = None) -> Expr:
    """The one node with these parts, taken as they are: for building again what was built before."""
    return _intern_expr(op, args, kind, attr, index)


def serial(node: Expr) -> int:
    """Position in the order in which nodes were first built: arguments come before their users."""
    return _serial[id(node)]


def affine(const: int, axes: Mapping[str, int] | None = None, terms: Mapping[Expr, int] | None = None) -> Affine:
    """Build an interned affine index; zero coefficients are dropped."""
    ax = tuple(sorted((a, c) for a, c in (axes or {}).items() if c))
    tm = tuple(sorted(((t, c) for t, c in (terms or {}).items() if c), key=lambda tc: _serial[id(tc[0])]))
    key = (const, ax, tuple((id(t), c) for t, c in tm))
    found = _affines.get(key)
    if found is None:
        found = _affines[key] = Affine(const, ax, tm)
    return found


def affine_sum(parts: list[tuple[Affine, int]], const: int = 0) -> Affine:
    """``const + sum(factor * part)``."""
    axes: dict[str, int] = {}
    terms: dict[Expr, int] = {}
    for part, factor in parts:
        const += factor * part.const
        for a, c in part.axes:
            axes[a] = axes.get(a, 0) + factor * c
        for t, c in part.terms:
            terms[t] = terms.get(t, 0) + factor * c
    return affine(const, axes, terms)


def const(value: float | int | bool, kind: Kind) -> Expr:
    """A literal. Floats may be inf or nan."""
    if kind in ("f32", "f64"):
        value = float(value)
    elif kind == "bool":
        value = bool(value)
    else:
        value = int(value)
    return _intern_expr("const", (), kind, value)


def axis(name: str) -> Expr:
    """The current index along an axis, as a value."""
    return _intern_expr("axis", (), "i64", name)


def load(buffer: str, index: Affine, kind: Kind) -> Expr:
    """The element of ``buffer`` at ``index``, widened to ``kind``."""
    return _intern_expr("load", (), kind, buffer, index)


def reduced(name: str, kind: Kind) -> Expr:
    """The finished result of a reduction of the same kernel."""
    return _intern_expr("reduced", (), kind, name)


def scanned(name: str, kind: Kind) -> Expr:
    """The running value of a scan of the same pass."""
    return _intern_expr("scanned", (), kind, name)


def pending(name: str, kind: Kind, at: tuple[Expr, ...]) -> Expr:
    """A fold or scan at given indices that no kernel computes yet (lowering only)."""
    return _intern_expr("pending", at, kind, name)


_COMPARE = frozenset("lt le gt ge eq ne".split())
_FLOAT_ONLY = frozenset(
    "exp exp2 expm1 log log1p log2 sqrt rsqrt tanh sigmoid erf sin cos tan reciprocal div pow atan2".split()
)
_RANK: dict[Kind, int] = {"bool": 0, "i32": 1, "i64": 2, "f32": 3, "f64": 4}


def promote(*kinds: Kind) -> Kind:
    """The widest of several compute types."""
    return max(kinds, key=_RANK.__getitem__)


def cast(value: Expr, kind: Kind) -> Expr:
    """Convert to another compute type; constants fold."""
    if value.kind == kind:
        return value
    if value.op == "const" and not (kind in ("i32", "i64") and isinstance(value.attr, float)):
        return const(value.attr, kind)
    return _intern_expr("cast", (value,), kind)


def op(name: str, *args: Expr) -> Expr:
    """Apply a pointwise operator, promoting its arguments to a common type and folding identities.

    Raises ``KeyError`` for a name outside UNARY, BINARY and ``where``.
    """
    if name == "where":
        kind = promote(args[1].kind, args[2].kind)
        return _intern_expr("where", (cast(args[0], "bool"), cast(args[1], kind), cast(args[2], kind)), kind)
    if name not in UNARY and name not in BINARY:
        raise KeyError(name)
    kind = promote(*(a.kind for a in args))
    if name in _FLOAT_ONLY and kind not in ("f32", "f64"):
        kind = "f32"
    if name in ("and", "or", "xor", "not") and kind == "bool":
        return _intern_expr(name, tuple(cast(a, "bool") for a in args), "bool")
    if kind == "bool" and name in ("add", "sub", "mul", "min", "max"):
        kind = "i64"
    args = tuple(cast(a, kind) for a in args)
    folded = _fold(name, args)
    if folded is not None:
        return folded
    out: Kind = "bool" if name in _COMPARE or name in ("isnan", "isinf") else kind
    return _intern_expr(name, args, out)


def _fold(name: str, args: tuple[Expr, ...]) -> Expr | None:
    """Identities that keep NaN and infinity semantics."""
    if len(args) == 2:
        a, b = args
        if name in ("mul", "div") and b.op == "const" and b.attr == 1:
            return a
        if name == "mul" and a.op == "const" and a.attr == 1:
            return b
        if name in ("add", "sub") and b.op == "const" and b.attr == 0:
            return a
        if name == "add" and a.op == "const" and a.attr == 0:
            return b
        if name == "pow" and b.op == "const":
            if b.attr == 2:
                return op("mul", a, a)
            if b.attr == 3:
                return op("mul", op("mul", a, a), a)
            if b.attr == 1:
                return a
            if b.attr == 0.5:
                return op("sqrt", a)
            if b.attr == -0.5:
                return op("rsqrt", a)
    return None


def walk(root: Expr | Affine) -> Iterator[Expr]:
    """Every node below ``root`` once, arguments before users, through indices as well."""
    seen: set[int] = set()
    stack: list[tuple[Expr, bool]] = (
        [(e, False) for e in _children(root)] if isinstance(root, Affine) else [(root, False)]
    )
    while stack:
        node, done = stack.pop()
        if done:
            yield node
            continue
        if id(node) in seen:
            continue
        seen.add(id(node))
        stack.append((node, True))
        stack.extend((c, False) for c in _children(node))


def _children(node: Expr | Affine) -> tuple[Expr, ...]:
    if isinstance(node, Affine):
        return tuple(t for t, _ in node.terms)
    below = node.args
    if node.index is not None:
        below += tuple(t for t, _ in node.index.terms)
    return below


_axes_cache: dict[int, frozenset[str]] = {}


def axes_of(node: Expr | Affine) -> frozenset[str]:
    """Every axis a value or index depends on (not through ``reduced`` or ``scanned``)."""
    found = _axes_cache.get(id(node))
    if found is None:
        direct: frozenset[str] = frozenset()
        if isinstance(node, Affine):
            direct = frozenset(a for a, _ in node.axes)
        elif node.op == "axis":
            direct = frozenset((node.attr,))
        elif node.index is not None:
            direct = frozenset(a for a, _ in node.index.axes)
        found = _axes_cache[id(node)] = direct.union(*(axes_of(c) for c in _children(node)))
    return found


def rewrite(node: Expr, leaf: Any, memo: dict[int, Expr] | None = None) -> Expr:
    """Rebuild a value. ``leaf(expr)`` returns a replacement for a node, or ``None`` to rebuild it from its parts.

    Interned nodes are never freed, so ``id`` keys are stable.
    """
    memo = {} if memo is None else memo
    if id(node) in memo:
        return memo[id(node)]
    out: Expr | None = leaf(node)
    if out is None:
        args = tuple(rewrite(a, leaf, memo) for a in node.args)
        index = rewrite_affine(node.index, leaf, memo) if node.index is not None else None
        if all(x is y for x, y in zip(args, node.args, strict=True)) and index is node.index:
            out = node
        elif node.op in UNARY or node.op in BINARY or node.op == "where":
            out = op(node.op, *args)
        else:
            out = _intern_expr(node.op, args, node.kind, node.attr, index)
    memo[id(node)] = out
    return out


def rewrite_affine(index: Affine, leaf: Any, memo: dict[int, Expr] | None = None) -> Affine:
    """Apply :func:`rewrite` to an index; axes are offered to ``leaf`` as ``axis`` nodes."""
    parts: list[tuple[Affine, int]] = []
    for a, c in index.axes:
        parts.append((as_affine(rewrite(axis(a), leaf, memo)), c))
    for t, c in index.terms:
        parts.append((as_affine(rewrite(t, leaf, memo)), c))
    return affine_sum(parts, index.const)


def as_affine(value: Expr) -> Affine:
    """Read an integer expression as an affine index; what is not affine becomes an opaque term."""
    if value.op == "const":
        return affine(int(value.attr))
    if value.op == "axis":
        return affine(0, {value.attr: 1})
    if value.op == "cast" and value.kind in ("i32", "i64") and value.args[0].kind in ("i32", "i64"):
        return as_affine(value.args[0])
    if value.op in ("add", "sub"):
        return affine_sum([(as_affine(value.args[0]), 1), (as_affine(value.args[1]), 1 if value.op == "add" else -1)])
    if value.op == "mul":
        a, b = value.args
        if b.op == "const":
            return affine_sum([(as_affine(a), int(b.attr))])
        if a.op == "const":
            return affine_sum([(as_affine(b), int(a.attr))])
    return affine(0, None, {value: 1})


def as_expr(index: Affine) -> Expr:
    """An affine index as an integer value."""
    out = const(index.const, "i64")
    for a, c in index.axes:
        out = op("add", out, op("mul", axis(a), const(c, "i64")))
    for t, c in index.terms:
        out = op("add", out, op("mul", cast(t, "i64"), const(c, "i64")))
    return out
