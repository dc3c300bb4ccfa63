"""Run a Program on small CPU tensors: the meaning of the loop IR, against which emitters are tested.

Every axis is a tensor dimension, so memory grows with the product of all extents: for tests, not for work.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from evaluators.ir.expr import Affine, Expr
from evaluators.ir.kernel import Kernel, LibraryCall, Pass, Program, Ref

TORCH_KIND = {
    "f32": torch.float32,
    "f64": torch.float64,
    "i64": torch.int64,
    "i32": torch.int32,
    "bool": torch.bool,
}

_UNARY: dict[str, Any] = {
    "neg": torch.neg, "abs": torch.abs, "exp": torch.exp, "exp2": torch.exp2, "expm1": torch.expm1, "log": torch.log,
    "log1p": torch.log1p, "log2": torch.log2, "sqrt": torch.sqrt, "rsqrt": torch.rsqrt, "tanh": torch.tanh,
    "sigmoid": torch.sigmoid, "erf": torch.erf, "sin": torch.sin, "cos": torch.cos, "tan": torch.tan,
    "reciprocal": torch.reciprocal, "floor": torch.floor, "ceil": torch.ceil, "round": torch.round, "trunc": torch.trunc,
    "sign": torch.sign, "not": torch.logical_not, "isnan": torch.isnan, "isinf": torch.isinf,
}  # fmt: skip
_BINARY: dict[str, Any] = {
    "add": torch.add, "sub": torch.sub, "mul": torch.mul, "div": torch.div, "floordiv": torch.floor_divide,
    "mod": torch.remainder, "pow": torch.pow, "min": torch.minimum, "max": torch.maximum, "lt": torch.lt, "le": torch.le,
    "gt": torch.gt, "ge": torch.ge, "eq": torch.eq, "ne": torch.ne, "atan2": torch.atan2, "fmod": torch.fmod,
}  # fmt: skip
_LOGIC = {
    ("and", True): torch.logical_and, ("or", True): torch.logical_or, ("xor", True): torch.logical_xor,
    ("and", False): torch.bitwise_and, ("or", False): torch.bitwise_or, ("xor", False): torch.bitwise_xor,
}  # fmt: skip


def interpret(program: Program, inputs: Sequence[Any], state: Mapping[str, Tensor] | None = None) -> list[Tensor]:
    """Outputs of ``program`` for forward's arguments and the model's state dict, computed in the IR's own types."""
    held: dict[str, Tensor] = {}
    for b in program.buffers.values():
        dtype = getattr(torch, b.dtype)
        if b.role == "input":
            held[b.name] = inputs[b.source].contiguous()
        elif b.role == "param":
            assert state is not None
            held[b.name] = state[b.source].detach().contiguous()
        elif b.role == "constant":
            held[b.name] = torch.tensor(b.source, dtype=dtype).reshape(b.shape)
        else:
            fill = float("nan") if dtype.is_floating_point else 0
            held[b.name] = torch.full(b.shape, fill, dtype=dtype)
    for step in program.steps:
        if isinstance(step, LibraryCall):
            _library(step, held)
        else:
            run_kernel(step, held)
    return [held[name] for name in program.outputs]


def _library(call: LibraryCall, held: dict[str, Tensor]) -> None:
    def value(a: Any) -> Any:
        if isinstance(a, Ref):
            return held[a.buffer]
        return [value(x) for x in a] if isinstance(a, tuple) else a

    packet, _, overload = call.target.removeprefix("aten::").partition(".")
    fn = getattr(getattr(torch.ops.aten, packet), overload)
    out = fn(*map(value, call.args), **{k: value(v) for k, v in call.kwargs})
    outs = out if isinstance(out, (tuple, list)) else (out,)
    held.update(zip(call.outputs, outs, strict=True))


def run_kernel(kernel: Kernel, held: dict[str, Tensor]) -> None:
    """Execute one kernel, writing its stores into ``held``."""
    finished: dict[str, Tensor] = {}
    for p in kernel.passes:
        _Pass(kernel, p, held, finished).run()


class _Pass:
    def __init__(self, kernel: Kernel, at: Pass, held: dict[str, Tensor], finished: dict[str, Tensor]) -> None:
        self.at, self.held, self.finished = at, held, finished
        self.names = [a.name for a in kernel.rows] + [a.name for a in at.cols]
        self.rank = len(self.names)
        self.rows = len(kernel.rows)
        self.extents = [a.extent for a in kernel.rows] + [a.extent for a in at.cols]
        self.memo: dict[int, Tensor] = {}
        self.scans: dict[str, Tensor] = {}
        self.mask: Tensor | None = None
        self.low: Tensor | None = None
        ragged = [c for c in at.cols if c.ragged]
        if ragged:
            assert len(at.cols) == 1
            assert ragged[0].low is not None
            assert ragged[0].high is not None
            low, high = self.value(ragged[0].low), self.value(ragged[0].high)
            self.memo.clear()
            self.extents[-1] = max(int((high - low).max()), 1)
            steps = torch.arange(self.extents[-1]).reshape([1] * (self.rank - 1) + [-1])
            self.low, self.mask = low, steps < (high - low)

    def axis(self, name: str) -> Tensor:
        d = self.names.index(name)
        steps = torch.arange(self.extents[d]).reshape([-1 if i == d else 1 for i in range(self.rank)])
        if self.mask is not None and self.low is not None and d == self.rank - 1:
            return torch.where(self.mask, self.low + steps, torch.zeros((), dtype=torch.int64))
        return steps

    def index(self, a: Affine) -> Tensor:
        total = torch.full([1] * self.rank, a.const, dtype=torch.int64)
        for name, c in a.axes:
            total = total + self.axis(name) * c
        for term, c in a.terms:
            total = total + self.value(term).to(torch.int64) * c
        return total

    def value(self, e: Expr) -> Tensor:
        if id(e) not in self.memo:
            self.memo[id(e)] = self._value(e).to(TORCH_KIND[e.kind])
        return self.memo[id(e)]

    def _value(self, e: Expr) -> Tensor:
        match e.op:
            case "const":
                return torch.full([1] * self.rank, e.attr, dtype=TORCH_KIND[e.kind])
            case "axis":
                return self.axis(e.attr)
            case "load":
                assert e.index is not None
                return self.held[e.attr].reshape(-1)[self.index(e.index)]
            case "reduced":
                f = self.finished[e.attr]
                return f.reshape([*f.shape[: self.rows], *[1] * (self.rank - self.rows)])
            case "scanned":
                return self.scans[e.attr]
            case "where":
                return torch.where(*map(self.value, e.args))
            case "cast":
                return self.value(e.args[0])
            case "and" | "or" | "xor":
                return _LOGIC[e.op, e.kind == "bool"](*map(self.value, e.args))
        table = _UNARY if len(e.args) == 1 else _BINARY
        return table[e.op](*map(self.value, e.args))

    def run(self) -> None:
        cols = list(range(self.rows, self.rank))
        for r in self.at.reductions:
            v = self.value(r.value).expand(self.extents)
            if self.mask is not None:
                neutral = {"sum": 0, "prod": 1, "max": float("-inf"), "min": float("inf"), "any": 0, "all": 1}[
                    r.combine
                ]
                v = torch.where(self.mask, v, torch.full((), neutral, dtype=v.dtype))
            self.finished[r.name] = _fold(r.combine, v, cols)
        for s in self.at.scans:
            v = self.value(s.value).expand(self.extents)
            v = v.flip(-1) if s.reverse else v
            out = {"sum": torch.cumsum, "prod": torch.cumprod}[s.combine](v, -1)
            self.scans[s.name] = out.flip(-1) if s.reverse else out
        for store in self.at.stores:
            where = self.index(store.index).expand(self.extents).reshape(-1)
            what = self.value(store.value).expand(self.extents).reshape(-1)
            target = self.held[store.buffer]
            target.reshape(-1)[where] = what.to(target.dtype)


def _fold(combine: str, v: Tensor, dims: list[int]) -> Tensor:
    if not dims:
        return v
    if combine == "sum":
        return v.sum(dims)
    if combine in ("max", "min"):
        return v.amax(dims) if combine == "max" else v.amin(dims)
    for d in reversed(dims):
        v = {"prod": torch.prod, "any": torch.any, "all": torch.all}[combine](v, d)
    return v
