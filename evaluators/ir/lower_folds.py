"""Lowerings of ATen operators that fold or scan: reductions, softmax, normalisations, products of matrices, segments."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

from evaluators.ir.expr import Expr, cast, const, op
from evaluators.ir.index import integer
from evaluators.ir.kernel import Combine
from evaluators.ir.lower_pointwise import broadcast, pointwise
from evaluators.ir.values import KIND_OF, Lowering, Point, Ragged, Value

CHEAP = frozenset("load const cast mul add sub neg axis".split())
"""Operators a matrix product may recompute per tile of its other operand."""


def reduce(
    low: Lowering,
    combine: Combine,
    x: Value,
    dims: Sequence[int] | None,
    keepdim: bool,
    dtype: str,
    of: Callable[[Expr], Expr] = lambda e: e,
) -> Value:
    """Fold ``of(x)`` over ``dims`` (all dims when empty or ``None``)."""
    n = len(x.shape)
    over = sorted({d % n for d in dims}) if dims and n else list(range(n))
    outer = [x.shape[d] for d in range(n) if d not in over]
    cols = tuple(x.shape[d] for d in over)
    kind = KIND_OF[dtype]

    def body(o: Point, c: Point) -> Expr:
        p: list[Expr] = []
        oi, ci = iter(o), iter(c)
        for d in range(n):
            p.append(next(ci) if d in over else next(oi))
        return cast(of(x.at(tuple(p))), kind)

    out = low.fold(combine, outer, cols, body, kind, dtype)
    if not keepdim:
        return out
    shape = tuple(1 if d in over else s for d, s in enumerate(x.shape))
    return Value(shape, dtype, lambda p: out.at(tuple(p[d] for d in range(n) if d not in over)))


def mean(low: Lowering, x: Value, dims: Sequence[int] | None, keepdim: bool, dtype: str) -> Value:
    """Arithmetic mean."""
    total = reduce(low, "sum", x, dims, keepdim, dtype)
    count = prod(x.shape) // max(prod(total.shape), 1)
    return pointwise(lambda a: op("mul", a, const(1.0 / count, a.kind)), total.shape, dtype, total)


def variance(
    low: Lowering, x: Value, dims: Sequence[int] | None, keepdim: bool, correction: float
) -> tuple[Value, Value]:
    """(variance, mean) in two passes: the mean first, then squared deviations, as accurate as the data allow."""
    centre = mean(low, x, dims, True, x.dtype)
    wide = broadcast(centre, x.shape)
    deviation = pointwise(lambda a, m: op("sub", a, m), x.shape, x.dtype, x, wide)
    total = reduce(low, "sum", deviation, dims, keepdim, x.dtype, lambda e: op("mul", e, e))
    count = prod(x.shape) // max(prod(total.shape), 1)
    scale = 1.0 / (count - correction) if count > correction else float("nan")
    var = pointwise(lambda a: op("mul", a, const(scale, a.kind)), total.shape, x.dtype, total)
    m = mean(low, x, dims, keepdim, x.dtype) if not keepdim else centre
    return var, m


def softmax(low: Lowering, x: Value, dim: int, log: bool, dtype: str) -> Value:
    """Softmax or log-softmax along ``dim``, shifted by the maximum."""
    top = broadcast(reduce(low, "max", x, [dim], True, x.dtype), x.shape)
    shifted = pointwise(lambda a, m: op("sub", a, m), x.shape, dtype, x, top)
    total = broadcast(reduce(low, "sum", shifted, [dim], True, dtype, lambda e: op("exp", e)), x.shape)
    if log:
        return pointwise(lambda s, t: op("sub", s, op("log", t)), x.shape, dtype, shifted, total)
    return pointwise(lambda s, t: op("div", op("exp", s), t), x.shape, dtype, shifted, total)


def normalise(
    low: Lowering, x: Value, dims: Sequence[int], weight: Value | None, bias: Value | None, eps: float
) -> tuple[Value, Value, Value]:
    """``(x - mean) * rsqrt(var + eps) * weight + bias`` with weight and bias broadcastable to x; also mean and rstd (keepdim)."""
    var, centre = variance(low, x, dims, True, 0)
    rstd = pointwise(lambda v: op("rsqrt", op("add", v, const(eps, v.kind))), var.shape, x.dtype, var)
    out = pointwise(lambda a, m, r: op("mul", op("sub", a, m), r), x.shape, x.dtype, x, centre, rstd)
    if weight is not None:
        out = pointwise(lambda a, w: op("mul", a, w), x.shape, x.dtype, out, weight)
    if bias is not None:
        out = pointwise(lambda a, b: op("add", a, b), x.shape, x.dtype, out, bias)
    return out, centre, rstd


def product(low: Lowering, a: Value, b: Value, dtype: str) -> Value:
    """Matrix product of ``[..., M, K]`` and ``[..., K, N]`` with equal leading dims.

    An operand that costs more than a few arithmetic operations per element is written to scratch first, since tiles re-read it.
    """
    a, b = _operand(low, a), _operand(low, b)
    k = a.shape[-1]
    outer = (*a.shape[:-1], b.shape[-1])
    kind = KIND_OF[dtype]

    def body(o: Point, c: Point) -> Expr:
        left = a.at((*o[:-1], c[0]))
        right = b.at((*o[:-2], c[0], o[-1]))
        return op("mul", cast(left, kind), cast(right, kind))

    return low.fold("sum", outer, (k,), body, kind, dtype, contraction=True)


def _operand(low: Lowering, x: Value) -> Value:
    from evaluators.ir.expr import axis, walk
    from evaluators.ir.fuse import realize

    probe = []
    for size in x.shape:
        name = low.fresh("p")
        low.extents[name] = size
        probe.append(axis(name) if size > 1 else integer(0))
    if all(n.op in CHEAP or n.kind == "i64" for n in walk(x.at(tuple(probe)))):
        return x
    buffer = low.scratch(x.shape, x.dtype)
    realize(low, x, buffer)
    return low.buffer_value(buffer)


def segment(
    low: Lowering, combine: str, offsets: Value, last: int, width: tuple[int, ...], read: Callable[[Expr, Point], Expr],
    dtype: str, include_last: bool, empty: float,
) -> Value:  # fmt: skip
    """Reduce items ``[offsets[s], offsets[s+1])`` for every segment ``s``; ``read(item, inner point)`` is one element.

    ``last`` is the item count, which ends the final segment when offsets do not include it. Empty segments give ``empty``.
    """
    count = offsets.shape[0] - (1 if include_last else 0)
    kind = KIND_OF[dtype]

    def bounds(o: Point) -> tuple[Expr, Expr]:
        after = op("add", o[0], integer(1))
        first = cast(offsets.at((o[0],)), "i64")
        if include_last:
            return first, cast(offsets.at((after,)), "i64")
        end = cast(offsets.at((op("min", after, integer(count - 1)),)), "i64")
        return first, op("where", op("eq", o[0], integer(count - 1)), integer(last), end)

    fold: Combine = {"sum": "sum", "mean": "sum", "max": "max", "min": "min", "prod": "prod"}[combine]  # type: ignore[assignment]
    ragged = Ragged(bounds, max(last // max(count, 1), 1))
    out = low.fold(fold, (count, *width), ragged, lambda o, c: cast(read(c[0], o[1:]), kind), kind, dtype)
    if combine == "sum":
        return out

    def at(p: Point) -> Expr:
        first, end = bounds(p)
        size = op("sub", end, first)
        value = out.at(p)
        if combine == "mean":
            value = op("div", value, cast(op("max", size, integer(1)), kind))
        return op("where", op("eq", size, integer(0)), const(empty, kind), value)

    return Value(out.shape, dtype, at)


def embedding_bag(low: Lowering, args: tuple[Any, ...], dtype: str) -> Value | None:
    """``aten._embedding_bag_forward_only``: (weight, indices, offsets, scale_grad, mode, sparse, weights, include_last, padding)."""
    weight, indices, offsets = args[:3]
    mode = args[4] if len(args) > 4 else 0
    per_sample = args[6] if len(args) > 6 else None
    include_last = bool(args[7]) if len(args) > 7 else False
    if mode not in (0, 1, 2) or (len(args) > 8 and args[8] >= 0):
        return None

    def read(item: Expr, inner: Point) -> Expr:
        row = weight.at((cast(indices.at((item,)), "i64"), *inner))
        return row if per_sample is None else op("mul", row, per_sample.at((item,)))

    name = ("sum", "mean", "max")[mode]
    return segment(low, name, offsets, indices.shape[0], weight.shape[1:], read, dtype, include_last, 0.0)
