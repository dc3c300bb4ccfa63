"""Lowerings of ATen operators that move no data of their own: views, slices, concatenation, gathers, constant fills."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from evaluators.ir.expr import Expr, cast, const, op
from evaluators.ir.index import integer, reshape
from evaluators.ir.lower_pointwise import broadcast
from evaluators.ir.values import KIND_OF, Lowering, Point, Value


def view(low: Lowering, name: str, x: Value, args: tuple[Any, ...], shape: tuple[int, ...]) -> Value | None:
    """A view of ``x`` with result ``shape``; ``None`` where ``name`` is not one. ``args`` exclude the tensor."""
    n = len(x.shape)

    def dim(d: int) -> int:
        return d % n if n else 0

    match name:
        case "view" | "reshape" | "_unsafe_view" | "squeeze" | "unsqueeze" | "squeeze_dims":
            return Value(shape, x.dtype, lambda p: x.at(reshape(p, shape, x.shape, low.extents)))
        case "clone" | "alias" | "detach" | "contiguous" | "lift_fresh_copy":
            return x
        case "permute":
            order = [dim(d) for d in args[0]]
            return Value(shape, x.dtype, lambda p: x.at(_inverse(p, order)))
        case "transpose" | "t":
            order = list(range(n))
            a, b = (dim(args[0]), dim(args[1])) if name == "transpose" else (0, n - 1)
            order[a], order[b] = order[b], order[a]
            return Value(shape, x.dtype, lambda p: x.at(_inverse(p, order)))
        case "expand":
            return broadcast(x, shape)
        case "slice":
            d = dim(args[0] if args else 0)
            start = args[1] if len(args) > 1 and args[1] is not None else 0
            step = args[3] if len(args) > 3 else 1
            start = max(start + x.shape[d], 0) if start < 0 else min(start, x.shape[d])
            return Value(shape, x.dtype, lambda p: x.at(_shift(p, d, start, step)))
        case "select":
            d, i = dim(args[0]), args[1]
            i = i + x.shape[d] if i < 0 else i
            return Value(shape, x.dtype, lambda p: x.at((*p[:d], integer(i), *p[d:])))
        case "flip":
            dims = {dim(d) for d in args[0]}
            return Value(
                shape,
                x.dtype,
                lambda p: x.at(
                    tuple(op("sub", integer(x.shape[d] - 1), i) if d in dims else i for d, i in enumerate(p))
                ),
            )
    return None


def split(low: Lowering, x: Value, sizes: int | Sequence[int], d: int) -> tuple[Value, ...]:
    """``aten.split`` (equal chunks, the last one shorter) and ``aten.split_with_sizes``."""
    d %= len(x.shape)
    n = x.shape[d]
    lengths = [min(sizes, n - start) for start in range(0, n, sizes)] if isinstance(sizes, int) else list(sizes)
    out: list[Value] = []
    start = 0
    for length in lengths:
        shape = (*x.shape[:d], length, *x.shape[d + 1 :])
        out.append(Value(shape, x.dtype, lambda p, start=start: x.at(_shift(p, d, start, 1))))  # type: ignore[misc]
        start += length
    return tuple(out)


def _inverse(p: Point, order: Sequence[int]) -> Point:
    out: list[Expr] = list(p)
    for new, old in enumerate(order):
        out[old] = p[new]
    return tuple(out)


def _shift(p: Point, d: int, start: int, step: int) -> Point:
    return (*p[:d], op("add", op("mul", p[d], integer(step)), integer(start)), *p[d + 1 :])


def concatenate(parts: Sequence[Value], d: int, shape: tuple[int, ...], dtype: str) -> Value:
    """``aten.cat``: a chain of selections on the position along ``d``, each part read at a clamped index."""
    d %= len(shape)
    parts = [p for p in parts if p.shape != (0,)]

    def at(p: Point) -> Expr:
        offset = sum(v.shape[d] for v in parts[:-1])
        out = parts[-1].at((*p[:d], _clamped(p[d], offset, parts[-1].shape[d]), *p[d + 1 :]))
        for v in reversed(parts[:-1]):
            end, offset = offset, offset - v.shape[d]
            here = v.at((*p[:d], _clamped(p[d], offset, v.shape[d]), *p[d + 1 :]))
            out = op("where", op("lt", p[d], integer(end)), here, out)
        return out

    return Value(shape, dtype, at)


def _clamped(i: Expr, offset: int, size: int) -> Expr:
    shifted = op("sub", i, integer(offset))
    return op("min", op("max", shifted, integer(0)), integer(size - 1))


def pad(x: Value, pads: Sequence[int], fill: float, shape: tuple[int, ...]) -> Value:
    """``aten.constant_pad_nd``."""
    before = {len(shape) - 1 - i: pads[2 * i] for i in range(len(pads) // 2)}

    def at(p: Point) -> Expr:
        inside: Expr = const(True, "bool")
        q: list[Expr] = []
        for d, i in enumerate(p):
            if d not in before or (before[d] == 0 and shape[d] == x.shape[d]):
                q.append(i)
                continue
            shifted = op("sub", i, integer(before[d]))
            here = op("and", op("ge", shifted, integer(0)), op("lt", shifted, integer(x.shape[d])))
            inside = here if inside.op == "const" else op("and", inside, here)
            q.append(_clamped(i, before[d], x.shape[d]))
        value = x.at(tuple(q))
        return value if inside.op == "const" else op("where", inside, value, const(fill, x.kind))

    return Value(shape, x.dtype, at)


def wrapped(i: Expr, size: int) -> Expr:
    """A gathered index with PyTorch's negative wrap-around."""
    i = cast(i, "i64")
    return op("where", op("lt", i, integer(0)), op("add", i, integer(size)), i)


def gather(x: Value, d: int, index: Value) -> Value:
    """``aten.gather``: indices are non-negative by contract."""
    d %= len(x.shape)
    return Value(index.shape, x.dtype, lambda p: x.at((*p[:d], cast(index.at(p), "i64"), *p[d + 1 :])))


def index_select(x: Value, d: int, index: Value, shape: tuple[int, ...]) -> Value:
    """``aten.index_select`` and ``aten.embedding`` (``d`` = 0 with index of any rank)."""
    n = len(index.shape)
    return Value(shape, x.dtype, lambda p: x.at((*p[:d], cast(index.at(p[d : d + n]), "i64"), *p[d + n :])))


def index_tensor(x: Value, indices: Sequence[Value | None], shape: tuple[int, ...]) -> Value | None:
    """``aten.index.Tensor`` with adjacent index tensors."""
    dims = [d for d, i in enumerate(indices) if i is not None]
    tensors = [i for i in indices if i is not None]
    if not dims or dims != list(range(dims[0], dims[-1] + 1)) or any(t.dtype == "bool" for t in tensors):
        return None
    rank = len(shape) - (len(x.shape) - len(dims))
    common = shape[dims[0] : dims[0] + rank]
    wide = [broadcast(t, common) for t in tensors]

    def at(p: Point) -> Expr:
        inner = p[dims[0] : dims[0] + rank]
        chosen = tuple(wrapped(t.at(inner), x.shape[d]) for t, d in zip(wide, dims, strict=True))
        return x.at((*p[: dims[0]], *chosen, *p[dims[0] + rank :]))

    return Value(shape, x.dtype, at)


def filled(shape: tuple[int, ...], dtype: str, value: float | int | bool) -> Value:
    """A constant tensor."""
    return Value(shape, dtype, lambda p: const(value, KIND_OF[dtype]))


def arange(shape: tuple[int, ...], dtype: str, start: float, step: float) -> Value:
    """``aten.arange.start_step``."""

    def at(p: Point) -> Expr:
        kind = KIND_OF[dtype]
        return op("add", op("mul", cast(p[0], kind), const(step, kind)), const(start, kind))

    return Value(shape, dtype, at)


def bucketize(x: Value, borders: Value, right: bool, dtype: str) -> Value:
    """``aten.bucketize``: the count of borders below the value; a few borders are compared one by one, many by bisection."""
    n = borders.shape[0]
    below = "le" if right else "lt"

    def at(p: Point) -> Expr:
        v = x.at(p)
        if n <= 32:
            total: Expr = const(0, "i64")
            for i in range(n):
                total = op("add", total, cast(op(below, borders.at((integer(i),)), v), "i64"))
            return total
        first: Expr = integer(0)
        step = 1 << (n.bit_length() - 1)
        while step:
            probe = op("add", first, integer(step))
            safe = op("min", op("sub", probe, integer(1)), integer(n - 1))
            take = op("and", op("le", probe, integer(n)), op(below, borders.at((safe,)), v))
            first = op("where", take, probe, first)
            step >>= 1
        return first

    return Value(x.shape, dtype, at)


def triangle(x: Value, diagonal: int, upper: bool) -> Value:
    """``aten.triu`` and ``aten.tril``."""

    def at(p: Point) -> Expr:
        gap = op("sub", p[-1], p[-2])
        keep = op("ge" if upper else "le", gap, integer(diagonal))
        return op("where", keep, x.at(p), const(0, x.kind))

    return Value(x.shape, x.dtype, at)
