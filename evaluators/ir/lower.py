"""From an exported graph of core ATen operators to a Program: one dispatch over operator names.

Operators without a lowering become library calls, so that a convolution between generated kernels stays PyTorch's.
"""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch.fx import Node

from evaluators.errors import TraceError
from evaluators.ir import lower_folds, lower_pointwise, lower_views
from evaluators.ir.expr import const, op
from evaluators.ir.fuse import realize
from evaluators.ir.kernel import LibraryCall, Ref
from evaluators.ir.values import KIND_OF, Lowering, Value

Result = Value | tuple[Value | None, ...]


def dtype_name(dtype: torch.dtype) -> str:
    """``torch.float32`` → ``"float32"``."""
    return str(dtype).removeprefix("torch.")


def _meta(node: Node) -> tuple[tuple[int, ...], str]:
    value = node.meta["val"]
    if isinstance(value, (list, tuple)):
        value = value[0]
    if any(isinstance(s, torch.SymInt) for s in value.shape):
        raise TraceError(
            f"{node.target}: a shape that depends on data cannot be traced; use the llm or manual proposer"
        )
    return tuple(int(s) for s in value.shape), dtype_name(value.dtype)


def lower_node(low: Lowering, node: Node, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Result:
    """The value of one operator node whose arguments are already lowered."""
    if node.target is operator.getitem:
        item = args[0][args[1]]
        assert item is not None, "an output nobody lowers is used"
        return item  # type: ignore[no-any-return]
    assert isinstance(node.target, torch._ops.OpOverload)
    name, overload = node.target._schema.name.removeprefix("aten::"), node.target._overloadname
    if "val" not in node.meta or node.meta["val"] is None:
        return ()  # an assertion about metadata: holds by construction
    shape, dtype = _meta(node)
    if dtype in KIND_OF and all(v.dtype in KIND_OF for v in args if isinstance(v, Value)):
        for attempt in (_elementwise, _views, _folds, _sources):
            out = attempt(low, name, overload, args, kwargs, shape, dtype)
            if out is not None:
                return out
    return library(low, node, args, kwargs)


def _elementwise(
    low: Lowering, name: str, overload: str, args: Any, kwargs: Any, shape: tuple[int, ...], dtype: str
) -> Result | None:
    if not args or not any(isinstance(a, Value) for a in args[:3]):
        return None
    if name in ("_to_copy", "to", "convert_element_type"):
        return lower_pointwise.pointwise(lambda a: a, shape, dtype, args[0])
    tensor_clamp = name == "clamp" and any(isinstance(a, Value) for a in args[1:])
    if name == "addcmul":
        scale = kwargs.get("value", 1)
        return lower_pointwise.pointwise(
            lambda a, b, c, s: op("add", a, op("mul", s, op("mul", b, c))), shape, dtype, *args[:3], scale
        )
    one = lower_pointwise.activation(name, args, kwargs) if isinstance(args[0], Value) and not tensor_clamp else None
    if one is not None:
        return lower_pointwise.pointwise(one, shape, dtype, args[0])
    two = lower_pointwise.binary(name, args, kwargs)
    if two is not None:
        return lower_pointwise.pointwise(two[0], shape, dtype, *two[1])
    return None


def _views(
    low: Lowering, name: str, overload: str, args: Any, kwargs: Any, shape: tuple[int, ...], dtype: str
) -> Result | None:
    if name == "cat":
        return lower_views.concatenate(args[0], args[1] if len(args) > 1 else 0, shape, dtype)
    if not args or not isinstance(args[0], Value):
        return None
    x = args[0]
    match name:
        case "constant_pad_nd":
            return lower_views.pad(x, args[1], args[2] if len(args) > 2 else 0.0, shape)
        case "gather":
            return lower_views.gather(x, args[1], args[2])
        case "index_select":
            return lower_views.index_select(x, args[1], args[2], shape)
        case "embedding":
            return lower_views.index_select(x, 0, args[1], shape)
        case "index":
            return lower_views.index_tensor(x, args[1], shape)
        case "bucketize":
            return lower_views.bucketize(x, args[1], bool(kwargs.get("right", False)), dtype)
        case "triu" | "tril":
            return lower_views.triangle(x, args[1] if len(args) > 1 else 0, name == "triu")
        case "split" | "split_with_sizes":
            return lower_views.split(low, x, args[1], args[2] if len(args) > 2 else 0)
    return lower_views.view(low, name, x, args[1:], shape)


def _folds(
    low: Lowering, name: str, overload: str, args: Any, kwargs: Any, shape: tuple[int, ...], dtype: str
) -> Result | None:
    if not args or not isinstance(args[0], Value):
        return None
    x = args[0]

    def get(i: int, default: Any) -> Any:
        return args[i] if len(args) > i else default

    match name:
        case "sum" | "prod" | "amax" | "amin" | "any" | "all" | "max" | "min":
            if name in ("max", "min") and overload:
                return None
            combine: Any = {"amax": "max", "amin": "min"}.get(name, name)
            dims = get(1, None)
            return lower_folds.reduce(low, combine, x, [dims] if isinstance(dims, int) else dims, get(2, False), dtype)
        case "mean":
            return lower_folds.mean(low, x, get(1, None), get(2, False), dtype)
        case "var":
            correction = kwargs.get("correction", 1)
            return lower_folds.variance(
                low, x, get(1, None), kwargs.get("keepdim", False), 1 if correction is None else correction
            )[0]
        case "_softmax" | "_log_softmax":
            return lower_folds.softmax(low, x, args[1], name == "_log_softmax", dtype)
        case "cumsum" | "cumprod":
            if not x.shape or x.shape[args[1]] == 1:
                return lower_pointwise.pointwise(lambda a: a, shape, dtype, x)
            return low.run("sum" if name == "cumsum" else "prod", x, args[1] % len(x.shape), dtype)
        case "mm" | "bmm":
            return lower_folds.product(low, x, args[1], dtype)
        case "mv":
            column = Value((*args[1].shape, 1), args[1].dtype, lambda p: args[1].at(p[:1]))
            out = lower_folds.product(low, x, column, dtype)
            return Value(shape, dtype, lambda p: out.at((*p, const(0, "i64"))))
        case "addmm":
            out = lower_folds.product(low, args[1], args[2], dtype)
            beta, alpha = kwargs.get("beta", 1), kwargs.get("alpha", 1)
            return lower_pointwise.pointwise(
                lambda c, ab, b, a: op("add", op("mul", b, c), op("mul", a, ab)),
                shape,
                dtype,
                x,
                out,
                float(beta),
                float(alpha),
            )
        case "native_layer_norm":
            dims = list(range(-len(args[1]), 0))
            return lower_folds.normalise(low, x, dims, args[2], args[3], args[4])
        case "native_group_norm":
            return _group_norm(low, x, *args[1:])
        case "_native_batch_norm_legit_no_training":
            return _batch_norm_eval(x, args[1], args[2], args[3], args[4], args[6], dtype), None, None
        case "_embedding_bag_forward_only" | "_embedding_bag":
            out_bag = lower_folds.embedding_bag(low, args, dtype)
            return None if out_bag is None else (out_bag, None, None, None)
        case "segment_reduce":
            return _segment_reduce(low, args, kwargs, dtype)
    return None


def _channel(v: Value | None, rank: int) -> Value | None:
    """A per-channel vector as a tensor that broadcasts over [N, C, …]."""
    if v is None:
        return None
    return Value((v.shape[0], *[1] * (rank - 2)), v.dtype, lambda p: v.at(p[:1]))


def _group_norm(
    low: Lowering, x: Value, weight: Any, bias: Any, n: int, c: int, hw: int, groups: int, eps: float
) -> Result:
    split = (n, groups, c // groups, hw)
    merged = lower_views.view(low, "view", x, (), split)
    assert merged is not None
    out, _, _ = lower_folds.normalise(low, merged, [2, 3], None, None, eps)
    back = lower_views.view(low, "view", out, (), x.shape)
    assert back is not None
    for name, v in (("mul", _channel(weight, len(x.shape))), ("add", _channel(bias, len(x.shape)))):
        if v is not None:
            back = lower_pointwise.pointwise(lambda a, b, name=name: op(name, a, b), x.shape, x.dtype, back, v)
    return back, None, None


def _batch_norm_eval(x: Value, weight: Any, bias: Any, mean: Value, var: Value, eps: float, dtype: str) -> Value:
    rank = len(x.shape)
    out = lower_pointwise.pointwise(
        lambda a, m, v: op("mul", op("sub", a, m), op("rsqrt", op("add", v, const(eps, v.kind)))),
        x.shape, dtype, x, _channel(mean, rank), _channel(var, rank),
    )  # fmt: skip
    for name, v in (("mul", _channel(weight, rank)), ("add", _channel(bias, rank))):
        if v is not None:
            out = lower_pointwise.pointwise(lambda a, b, name=name: op(name, a, b), x.shape, dtype, out, v)
    return out


def _segment_reduce(low: Lowering, args: Any, kwargs: Any, dtype: str) -> Value | None:
    x, combine = args[0], args[1]
    offsets = kwargs.get("offsets")
    if offsets is None or len(offsets.shape) != 1 or kwargs.get("axis", 0) != 0:
        return None
    initial = kwargs.get("initial")
    empty = {"sum": 0.0, "mean": float("nan"), "max": float("-inf"), "min": float("inf"), "prod": 1.0}[combine]
    if initial is not None:
        if combine not in ("mean", "sum") or initial != 0:
            return None
        empty = float(initial)
    return lower_folds.segment(
        low, combine, offsets, x.shape[0], x.shape[1:], lambda i, inner: x.at((i, *inner)), dtype, True, empty
    )


def _sources(
    low: Lowering, name: str, overload: str, args: Any, kwargs: Any, shape: tuple[int, ...], dtype: str
) -> Result | None:
    match name:
        case "full" | "full_like":
            return lower_views.filled(shape, dtype, args[1])
        case "scalar_tensor":
            return lower_views.filled(shape, dtype, args[0])
        case "zeros" | "zeros_like" | "new_zeros":
            return lower_views.filled(shape, dtype, 0)
        case "ones" | "ones_like" | "new_ones":
            return lower_views.filled(shape, dtype, 1)
        case "arange":
            start = args[0] if overload != "default" else 0
            return lower_views.arange(shape, dtype, start, args[2] if len(args) > 2 else 1)
    return None


def buffer_of(low: Lowering, value: Value) -> str:
    """The buffer that holds a value, written by a new kernel unless it is one already."""
    from evaluators.ir.expr import axis, walk
    from evaluators.ir.index import flatten, integer

    point = []
    for size in value.shape:
        name = low.fresh("p")
        low.extents[name] = size
        point.append(axis(name) if size > 1 else integer(0))
    expr = value.at(tuple(point))
    if expr.op == "pending" and expr.attr in low.realized and expr.args == tuple(point):
        return low.realized[expr.attr]
    if expr.op == "load" and expr.index is flatten(tuple(point), value.shape):
        held = low.buffers[expr.attr]
        if held.shape == value.shape and held.dtype == value.dtype:
            return held.name
    assert all(n.op != "scanned" for n in walk(expr))
    buffer = low.scratch(value.shape, value.dtype)
    realize(low, value, buffer)
    return buffer.name


def library(low: Lowering, node: Node, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Result:
    """Leave the operator to PyTorch, with its inputs and outputs in buffers."""
    from evaluators.ir.kernel import Buffer

    def convert(a: Any) -> Any:
        if isinstance(a, Value):
            return Ref(buffer_of(low, a))
        if isinstance(a, (list, tuple)):
            return tuple(convert(x) for x in a)
        return a

    held_args = tuple(convert(a) for a in args)
    held_kwargs = tuple((k, convert(v)) for k, v in kwargs.items() if k not in ("device", "layout", "pin_memory"))
    meta = node.meta["val"]
    outs = list(meta) if isinstance(meta, (list, tuple)) else [meta]
    names: list[str] = []
    values: list[Value | None] = []
    for m in outs:
        name = low.fresh("t")
        shape = tuple(int(s) for s in m.shape) if m is not None else ()
        low.buffers[name] = Buffer(name, shape, dtype_name(m.dtype) if m is not None else "float32", "scratch")
        names.append(name)
        values.append(low.buffer_value(low.buffers[name]))
    assert isinstance(node.target, torch._ops.OpOverload)
    target = f"{node.target._schema.name}.{node.target._overloadname or 'default'}"
    low.steps.append(LibraryCall(target, held_args, held_kwargs, tuple(names)))
    if isinstance(meta, (list, tuple)):
        return tuple(values)
    assert values[0] is not None
    return values[0]
