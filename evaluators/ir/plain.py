"""A Program as plain data and back, so that it can come from the process that traced it: JSON carries no code."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from evaluators.ir.expr import Affine, Expr, affine, interned, serial, walk
from evaluators.ir.kernel import Axis, Buffer, Kernel, LibraryCall, Pass, Program, Reduction, Ref, Scan, Store

_TORCH = ("torch.dtype", "torch.layout", "torch.memory_format")


def to_plain(program: Program) -> dict[str, Any]:
    """Values that JSON can carry. Expressions become one table, arguments before users, so that no depth is too deep.

    Raises TypeError for an argument of a library call that has no plain form.
    """
    nodes = sorted({id(n): n for root in _roots(program) for n in walk(root)}.values(), key=serial)
    place = {id(n): i for i, n in enumerate(nodes)}

    def index(value: Affine | None) -> Any:
        if value is None:
            return None
        return [value.const, [list(a) for a in value.axes], [[place[id(t)], c] for t, c in value.terms]]

    def expr(value: Expr | None) -> int | None:
        return None if value is None else place[id(value)]

    def step(value: Kernel | LibraryCall) -> dict[str, Any]:
        if isinstance(value, LibraryCall):
            return {
                "target": value.target,
                "args": [_argument(a) for a in value.args],
                "kwargs": [[k, _argument(v)] for k, v in value.kwargs],
                "outputs": list(value.outputs),
            }
        return {
            "name": value.name,
            "rows": [[a.name, a.extent, expr(a.low), expr(a.high)] for a in value.rows],
            "passes": [
                {
                    "cols": [[a.name, a.extent, expr(a.low), expr(a.high)] for a in p.cols],
                    "reductions": [[r.name, r.combine, expr(r.value), r.kind] for r in p.reductions],
                    "scans": [[s.name, s.combine, expr(s.value), s.kind, s.reverse] for s in p.scans],
                    "stores": [[s.buffer, index(s.index), expr(s.value)] for s in p.stores],
                }
                for p in value.passes
            ],
        }

    return {
        "name": program.name,
        "nodes": [[n.op, [place[id(a)] for a in n.args], n.kind, n.attr, index(n.index)] for n in nodes],
        "buffers": [[b.name, list(b.shape), b.dtype, b.role, b.source] for b in program.buffers.values()],
        "steps": [step(s) for s in program.steps],
        "outputs": list(program.outputs),
        "structure": program.structure,
        "arguments": program.arguments,
    }


def from_plain(data: Mapping[str, Any]) -> Program:
    """Inverse of :func:`to_plain`. Raises KeyError, ValueError, TypeError or IndexError for anything else."""
    nodes: list[Expr] = []

    def index(value: Any) -> Affine | None:
        if value is None:
            return None
        const, axes, terms = value
        return affine(const, dict(axes), {nodes[t]: c for t, c in terms})

    def some(value: Any) -> Affine:
        found = index(value)
        if found is None:
            raise ValueError("a store without an index")
        return found

    def axis(value: Any) -> Axis:
        name, extent, low, high = value
        return Axis(name, extent, None if low is None else nodes[low], None if high is None else nodes[high])

    def step(value: Any) -> Kernel | LibraryCall:
        if "target" in value:
            return LibraryCall(
                value["target"],
                tuple(_argument_from(a) for a in value["args"]),
                tuple((k, _argument_from(v)) for k, v in value["kwargs"]),
                tuple(value["outputs"]),
            )
        passes = (
            Pass(
                tuple(axis(a) for a in p["cols"]),
                tuple(Reduction(n, c, nodes[v], k) for n, c, v, k in p["reductions"]),
                tuple(Scan(n, c, nodes[v], k, r) for n, c, v, k, r in p["scans"]),
                tuple(Store(b, some(i), nodes[v]) for b, i, v in p["stores"]),
            )
            for p in value["passes"]
        )
        return Kernel(value["name"], tuple(axis(a) for a in value["rows"]), tuple(passes))

    for op, args, kind, attr, at in data["nodes"]:
        nodes.append(interned(op, tuple(nodes[a] for a in args), kind, attr, index(at)))
    buffers = {n: Buffer(n, tuple(shape), dtype, role, source) for n, shape, dtype, role, source in data["buffers"]}
    return Program(
        data["name"], buffers, tuple(step(s) for s in data["steps"]), tuple(data["outputs"]), data["structure"],
        data["arguments"],
    )  # fmt: skip


def _roots(program: Program) -> Iterable[Expr | Affine]:
    for kernel in program.kernels:
        for axis in (*kernel.rows, *(c for p in kernel.passes for c in p.cols)):
            yield from (e for e in (axis.low, axis.high) if e is not None)
        for p in kernel.passes:
            yield from (r.value for r in p.reductions)
            yield from (s.value for s in p.scans)
            for store in p.stores:
                yield store.value
                yield store.index


def _argument(value: Any) -> Any:
    """An argument of a library call: a number, text or nothing as it is, everything else under the name of its type."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Ref):
        return {"buffer": value.buffer}
    if isinstance(value, list | tuple):
        return {"list" if isinstance(value, list) else "tuple": [_argument(v) for v in value]}
    kind = f"{type(value).__module__}.{type(value).__qualname__}"
    if kind in _TORCH:
        return {"torch": str(value).removeprefix("torch.")}
    if kind == "torch.device":
        return {"device": str(value)}
    raise TypeError(f"a {kind} as argument of a library call")


def _argument_from(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    ((kind, body),) = value.items()
    if kind == "buffer":
        return Ref(body)
    if kind in ("list", "tuple"):
        items = [_argument_from(v) for v in body]
        return items if kind == "list" else tuple(items)
    import torch

    if kind == "device":
        return torch.device(body)
    found = getattr(torch, body) if kind == "torch" else None
    if not isinstance(found, torch.dtype | torch.layout | torch.memory_format):
        raise ValueError(f"{kind} {body!r} as argument of a library call")
    return found
