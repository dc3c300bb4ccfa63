"""Sizes: whether a spec fits its device, and a smaller version of a large one for the checks that run it many times.

Everything here runs on the meta device: shapes without data.
"""

from __future__ import annotations

import ast
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.utils.flop_counter import flop_registry

from evaluators.dispatch_mode import DispatchMode
from evaluators.errors import EvaluatorError
from evaluators.lint.finding import Finding
from evaluators.spec.inputs import make_inputs, resolve_dims
from evaluators.spec.kernel_spec import Dim, KernelSpec
from evaluators.spec.model import build_model

_OPERATIONS_PER_S, _BYTES_PER_S = 1e10, 5e8
"""One core with the comparisons that follow, roughly: only the order of magnitude matters."""
_CALL_S = 4e-5
_LONG = 8000
"""Calls of operators after which the reference is not followed further."""
_VOLUME = 20
"""Convolutions of volumes are that much slower on a CPU, most of all in float64."""
_LEAST = 32
"""What a size other than a batch is not taken below in the first round."""
_UNKNOWN = 1 << 22
"""Bytes of inputs and parameters taken as affordable where the reference does not run without data."""
_LARGE = 2**31


@dataclass(frozen=True)
class Cost:
    """Bytes of inputs, parameters and outputs, bytes of all results inside, floating operations, and elements of the largest tensor."""

    inputs: int
    parameters: int
    outputs: int
    inside: int
    operations: int
    calls: int
    largest: int
    whole: bool

    @property
    def seconds(self) -> float:
        """A guess at one run on one core."""
        if not self.whole:
            return (self.inputs + self.parameters) / _UNKNOWN
        moved = self.inputs + self.parameters + self.inside
        return self.operations / _OPERATIONS_PER_S + moved / _BYTES_PER_S + self.called

    @property
    def called(self) -> float:
        """The part of it that is calls of operators: long recurrences."""
        return self.calls * _CALL_S


class _Long(Exception):
    """The reference calls more operators than are worth following."""


class _Results(DispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.bytes = self.largest = self.calls = self.operations = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        self.calls += 1
        if self.calls > _LONG:
            raise _Long
        for t in result if isinstance(result, tuple | list) else (result,):
            if isinstance(t, torch.Tensor):
                self.bytes += t.numel() * t.element_size()
                self.largest = max(self.largest, t.numel())
        count = flop_registry.get(func._overloadpacket)
        if count is not None:
            volume = func._overloadpacket is torch.ops.aten.convolution and args[0].dim() == 5
            self.operations += int(count(*args, **kwargs, out_val=result)) * (_VOLUME if volume else 1)
        return result


def _bytes(tensors: list[Any]) -> int:
    return sum(t.numel() * t.element_size() for t in tensors if isinstance(t, torch.Tensor))


def cost(spec: KernelSpec) -> Cost:
    """What one run takes. Raises SpecError where model or inputs do not build."""
    inputs = list(torch.utils._pytree.tree_leaves(make_inputs(spec, 0, "meta")))
    model = build_model(spec, "meta")
    own = [*model.parameters(), *model.buffers()]
    arguments = make_inputs(spec, 0, "meta")
    results = _Results()
    whole, outputs = True, []
    try:
        with torch.no_grad(), results, torch.device("meta"):
            outputs = list(torch.utils._pytree.tree_leaves(model(*arguments)))
    except _Long:
        results.calls *= 10
    except NotImplementedError:
        whole = False
    except Exception as error:
        if "meta" not in str(error).lower():
            raise
        whole = False
    tensors = [t for t in [*inputs, *own, *outputs] if isinstance(t, torch.Tensor)]
    largest = max([results.largest, *(t.numel() for t in tensors)], default=0)
    seen = (results.bytes, results.operations, results.calls)
    return Cost(_bytes(inputs), _bytes(own), _bytes(outputs), *seen, largest, whole)


def fits(spec: KernelSpec, found: Cost, device: str, memory: int) -> list[Finding]:
    """Whether a spec of that cost fits ``device`` with ``memory`` bytes, beside what the judge has to hold."""
    findings = []
    needed = found.inputs + found.parameters + found.outputs
    width = torch.tensor([], dtype=getattr(torch, spec.dtype)).element_size()
    wide = 8 // width
    # The judge's own process: inputs and outputs shared, and once in float64 with the reference's copy of the parameters.
    judge = (found.inputs + found.parameters + found.outputs) * (1 + wide) + found.inputs + found.outputs
    evidence = {"needed": needed, "judge": judge, "memory": memory}
    gib = {k: v / 2**30 for k, v in evidence.items()}
    if memory and needed > memory:
        message = f"inputs, parameters and outputs take {gib['needed']:.1f} GiB, {device} has {gib['memory']:.1f}"
        advice = "make the problem smaller, or choose a larger device"
        findings.append(Finding("too_large", "error", "sizes", message, advice, evidence))
    elif memory and judge > memory:
        message = (
            f"with the float64 results the judge needs about {gib['judge']:.1f} GiB, {device} has {gib['memory']:.1f}"
        )
        advice = "make the problem smaller, or judge it on a larger device"
        findings.append(Finding("too_large", "warning", "sizes", message, advice, evidence))
    if found.largest >= _LARGE:
        message = f"a tensor has {found.largest} elements, more than 32-bit indices reach"
        advice = "kernels need 64-bit offsets here; make it smaller where that is not the point"
        findings.append(Finding("wide_indices", "info", "sizes", message, advice, {"elements": found.largest}))
    return findings


@dataclass(frozen=True)
class _Knob:
    """A size that may shrink: its name, its value, and the least it may become."""

    name: str
    value: int
    least: int
    batch: bool


def smaller(spec: KernelSpec, start: Cost, seconds: float, patience: float) -> tuple[KernelSpec, dict[str, list[int]]]:
    """The spec at sizes at which one run takes about ``seconds``, and what changed: ``{name: [from, to]}``.

    Dims are halved within their ranges; in a file without dims the integers of its module level and of ``get_inputs`` are. Batches go
    first, since they change a computation least. A size that breaks the reference stays. Gives up after ``patience`` seconds.
    """
    until = time.monotonic() + patience
    current, found = spec, start
    original = {k.name: k.value for k in _knobs(spec, _LEAST)}
    # Small features and images change what is computed more than small batches do: only where a run stays far too long.
    for least, enough in ((_LEAST, seconds), (_LEAST // 4, 4 * seconds)):
        stuck: set[str] = set()
        while found.seconds > enough and time.monotonic() < until:
            movable = [k for k in _knobs(current, least) if k.name not in stuck and k.value // 2 >= k.least]
            if not movable:
                break
            # A long recurrence does not get shorter with its batch.
            batches = found.called < 0.5 * found.seconds
            knob = max(movable, key=lambda k: (k.batch and batches, k.value))
            linked = [k for k in movable if k.value == knob.value]
            for group in [[knob], linked] if len(linked) > 1 else [[knob]]:
                changed = _shrunk(current, found, group, enough)
                if changed is not None:
                    current, found = changed
                    break
            else:
                stuck.add(knob.name)
    final = {k.name: k.value for k in _knobs(current, _LEAST)}
    return current, {n: [v, final[n]] for n, v in original.items() if final.get(n, v) != v}


def _shrunk(spec: KernelSpec, found: Cost, group: list[_Knob], seconds: float) -> tuple[KernelSpec, Cost] | None:
    """The spec with all sizes of a group divided by the largest factor that is of use; None where that breaks it, or does not help."""
    for factor in (32, 16, 8, 2):
        value = group[0].value // factor
        if value < max(k.least for k in group) or (factor > 2 and 2 * found.seconds < factor * seconds):
            continue
        changed = spec
        for knob in group:
            changed = _set(changed, knob, value)
        try:
            fresh = cost(changed)
        except (EvaluatorError, RuntimeError, ValueError, IndexError, AssertionError, TypeError):
            continue
        if fresh.seconds < 0.95 * found.seconds:
            return changed, fresh
    return None


def _knobs(spec: KernelSpec, least: int) -> list[_Knob]:
    if spec.dims:
        values = resolve_dims(spec)
        return [_Knob(n, v, max(spec.dims[n].low, 4), False) for n, v in values.items()]
    if spec.inputs is not None:
        return []
    return [_Knob(n, v, 4 if b else least, b) for n, v, b, _ in _numbers(spec.reference)]


def _set(spec: KernelSpec, knob: _Knob, value: int) -> KernelSpec:
    if spec.dims:
        held = spec.dims[knob.name]
        return replace(spec, dims={**spec.dims, knob.name: Dim(value, held.low, held.high)})
    lines = spec.reference.splitlines(keepends=True)
    node = next(n for name, _, _, n in _numbers(spec.reference) if name == knob.name)
    line = lines[node.lineno - 1].encode()
    lines[node.lineno - 1] = (line[: node.col_offset] + str(value).encode() + line[node.end_col_offset :]).decode()
    return replace(spec, reference="".join(lines))


def _numbers(text: str) -> Iterator[tuple[str, int, bool, Any]]:
    """Integers that may be sizes: name, value, whether it is a batch, and the expression. Named by what they are assigned to, or by
    their place in ``get_inputs`` and ``get_init_inputs``."""
    for node in ast.parse(text).body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            pairs = [(target, node.value)]
            if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
                pairs = list(zip(target.elts, node.value.elts, strict=False))
            for left, right in pairs:
                name = ast.unparse(left)
                parts = list(right.elts) if isinstance(right, ast.Tuple | ast.List) else [right]
                for at, part in enumerate(parts):
                    value = _integer(part)
                    if value is not None and part.lineno == part.end_lineno:
                        yield (name if len(parts) == 1 else f"{name}[{at}]"), value, "batch" in name.lower(), part
        elif isinstance(node, ast.FunctionDef) and node.name in ("get_inputs", "get_init_inputs"):
            inner = (n for n in ast.walk(node) if isinstance(n, ast.Constant))
            for at, part in enumerate(inner):
                if type(part.value) is int and part.value >= 16:
                    yield f"{node.name}[{at}]", part.value, False, part


def _integer(node: ast.expr) -> int | None:
    """Value of an integer, or of a product, sum or power of integers."""
    if isinstance(node, ast.Constant):
        return node.value if type(node.value) is int else None
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult | ast.Add | ast.Pow | ast.LShift | ast.FloorDiv):
        left, right = _integer(node.left), _integer(node.right)
        if left is None or right is None or (isinstance(node.op, ast.Pow | ast.LShift) and right > 40):
            return None
        return _apply(node.op, left, right)
    return None


def _apply(op: ast.operator, left: int, right: int) -> int:
    if isinstance(op, ast.Mult):
        return left * right
    if isinstance(op, ast.Add):
        return left + right
    if isinstance(op, ast.FloorDiv):
        return left // right if right else 0
    return left**right if isinstance(op, ast.Pow) else left << right
