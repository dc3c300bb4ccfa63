"""Lowerings of pointwise ATen operators. Half-precision values compute in float32 and are rounded only where stored."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from evaluators.ir.expr import Expr, Kind, cast, const, op
from evaluators.ir.values import KIND_OF, Value

UNARY_OPS = {
    "neg": "neg", "abs": "abs", "exp": "exp", "exp2": "exp2", "expm1": "expm1", "log": "log", "log1p": "log1p", "log2": "log2",
    "sqrt": "sqrt", "rsqrt": "rsqrt", "tanh": "tanh", "sigmoid": "sigmoid", "erf": "erf", "sin": "sin", "cos": "cos", "tan": "tan",
    "reciprocal": "reciprocal", "floor": "floor", "ceil": "ceil", "round": "round", "trunc": "trunc", "sign": "sign",
    "isnan": "isnan", "isinf": "isinf", "logical_not": "not", "sgn": "sign",
}  # fmt: skip
BINARY_OPS = {
    "mul": "mul", "lt": "lt", "le": "le", "gt": "gt", "ge": "ge", "eq": "eq", "ne": "ne", "minimum": "min", "maximum": "max",
    "logical_and": "and", "logical_or": "or", "logical_xor": "xor", "bitwise_and": "and", "bitwise_or": "or",
    "bitwise_xor": "xor", "atan2": "atan2", "fmod": "fmod", "remainder": "mod", "floor_divide": "floordiv",
}  # fmt: skip


def literal(value: float | int | bool, like: Kind) -> Expr:
    """A Python scalar as PyTorch would promote it against a tensor of compute type ``like``."""
    if isinstance(value, bool):
        return const(value, "bool")
    if isinstance(value, int):
        return const(value, "i64" if like == "bool" else like)
    return const(value, like if like in ("f32", "f64") else "f32")


def broadcast(value: Value, shape: tuple[int, ...]) -> Value:
    """Numpy-style expansion to ``shape``."""
    if value.shape == shape:
        return value
    pad = len(shape) - len(value.shape)
    zero = const(0, "i64")

    def at(p: tuple[Expr, ...]) -> Expr:
        return value.at(tuple(zero if n == 1 else i for i, n in zip(p[pad:], value.shape, strict=True)))

    return Value(shape, value.dtype, at)


def pointwise(fn: Callable[..., Expr], shape: tuple[int, ...], dtype: str, *args: Any) -> Value:
    """Apply ``fn`` to the elements of broadcast tensors and to Python scalars."""
    tensors = [broadcast(a, shape) if isinstance(a, Value) else a for a in args]
    kinds: list[Kind] = [a.kind for a in args if isinstance(a, Value)]
    like: Kind = max(kinds, key=("bool", "i32", "i64", "f32", "f64").index) if kinds else KIND_OF[dtype]

    def at(p: tuple[Expr, ...]) -> Expr:
        return fn(*(t.at(p) if isinstance(t, Value) else literal(t, like) for t in tensors))

    return Value(shape, dtype, at)


def _alpha(name: str) -> Callable[..., Expr]:
    return lambda a, b, alpha=None: op(name, a, b if alpha is None else op("mul", b, alpha))


def gelu(x: Expr, approximate: str) -> Expr:
    """GELU, exact (erf) or its tanh form."""
    half = op("mul", x, const(0.5, x.kind))
    if approximate == "tanh":
        inner = op("add", x, op("mul", op("mul", op("mul", x, x), x), const(0.044715, x.kind)))
        t = op("tanh", op("mul", inner, const(math.sqrt(2 / math.pi), x.kind)))
    else:
        t = op("erf", op("mul", x, const(math.sqrt(0.5), x.kind)))
    return op("mul", half, op("add", t, const(1.0, x.kind)))


def clamp(x: Expr, low: Expr | None, high: Expr | None) -> Expr:
    """Clamp; NaN passes through, as in PyTorch."""
    if low is not None:
        x = op("max", x, low)
    return x if high is None else op("min", x, high)


def _float(x: Expr) -> Expr:
    return x if x.kind in ("f32", "f64") else cast(x, "f32")


def _gt(x: Expr, c: float) -> Expr:
    return op("gt", x, const(c, x.kind))


def _c(x: Expr, c: float) -> Expr:
    return const(c, x.kind)


def activation(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Callable[[Expr], Expr] | None:
    """Activations with scalar attributes; ``None`` where ``name`` is not one."""

    def get(i: int, key: str, default: Any) -> Any:
        return args[i] if len(args) > i else kwargs.get(key, default)

    match name:
        case "relu":
            return lambda x: op("max", x, _c(x, 0))
        case "gelu":
            return lambda x: gelu(x, kwargs.get("approximate", "none"))
        case "silu":
            return lambda x: op("mul", x, op("sigmoid", x))
        case "leaky_relu":
            slope = get(1, "negative_slope", 0.01)
            return lambda x: op("where", _gt(x, 0), x, op("mul", x, _c(x, slope)))
        case "elu":
            alpha, scale, input_scale = get(1, "alpha", 1.0), get(2, "scale", 1.0), get(3, "input_scale", 1.0)
            return lambda x: op(
                "where",
                _gt(x, 0),
                op("mul", x, _c(x, scale)),
                op("mul", op("expm1", op("mul", x, _c(x, input_scale))), _c(x, alpha * scale)),
            )
        case "hardtanh":
            low, high = get(1, "min_val", -1.0), get(2, "max_val", 1.0)
            return lambda x: clamp(x, _c(x, low), _c(x, high))
        case "clamp":
            low, high = get(1, "min", None), get(2, "max", None)
            return lambda x: clamp(
                x, None if low is None else literal(low, x.kind), None if high is None else literal(high, x.kind)
            )
        case "softplus":
            beta, threshold = get(1, "beta", 1.0), get(2, "threshold", 20.0)
            return lambda x: op(
                "where",
                _gt(op("mul", x, _c(x, beta)), threshold),
                x,
                op("div", op("log1p", op("exp", op("mul", x, _c(x, beta)))), _c(x, beta)),
            )
        case "hardsigmoid":
            return lambda x: op("div", clamp(op("add", x, _c(x, 3)), _c(x, 0), _c(x, 6)), _c(x, 6))
        case "hardswish":
            return lambda x: op("mul", x, op("div", clamp(op("add", x, _c(x, 3)), _c(x, 0), _c(x, 6)), _c(x, 6)))
        case "square":
            return lambda x: op("mul", x, x)
        case "mish":
            return lambda x: op("mul", x, op("tanh", op("log1p", op("exp", x))))
        case _ if name in UNARY_OPS:
            return lambda x: op(UNARY_OPS[name], x)
    return None


def binary(
    name: str, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[Callable[..., Expr], tuple[Any, ...]] | None:
    """Operators of two or three operands: the element function and the operands; ``None`` where ``name`` is not one."""
    if name in ("add", "sub"):
        alpha = kwargs.get("alpha", args[2] if len(args) > 2 else 1)
        extra = () if alpha == 1 else (alpha,)
        return _alpha(name), (*args[:2], *extra)
    if name == "rsub":
        return (lambda a, b: op("sub", b, a)), args[:2]
    if name == "div":
        mode = kwargs.get("rounding_mode")
        if mode == "floor":
            return (
                lambda a, b: op("floordiv", a, b) if a.kind in ("i32", "i64") else op("floor", op("div", a, b))
            ), args[:2]
        if mode == "trunc":
            return (lambda a, b: op("trunc", op("div", a, b))), args[:2]
        return (lambda a, b: op("div", _float(a), _float(b))), args[:2]
    if name == "pow":
        return (lambda a, b: op("pow", a, b)), args[:2]
    if name == "where":
        return (lambda c, a, b: op("where", c, a, b)), args[:3]
    if name in ("clamp_min", "clamp_max"):
        return (lambda a, b: op("max" if name == "clamp_min" else "min", a, b)), args[:2]
    if name == "masked_fill":
        return (lambda x, m, v: op("where", m, cast(v, x.kind), x)), args[:3]
    if name in BINARY_OPS:
        return (lambda a, b: op(BINARY_OPS[name], a, b)), args[:2]
    return None
