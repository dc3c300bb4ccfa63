"""A live ``nn.Module`` or function to the normal form: exported once, written out as self-contained source."""

from __future__ import annotations

import hashlib
import io
import keyword
import logging
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evaluators.errors import SpecError
from evaluators.home import home
from evaluators.spec.kernel_spec import FloatType, InputSpec, KernelSpec

if TYPE_CHECKING:
    import torch
    from torch import fx, nn

_FLOATS: Mapping[str, FloatType] = {
    "torch.float32": "float32", "torch.bfloat16": "bfloat16", "torch.float16": "float16", "torch.float64": "float64",
}  # fmt: skip


def from_module(
    computation: nn.Module | Callable[..., Any],
    example_inputs: Sequence[Any],
    name: str | None = None,
    *,
    state_folder: Path | None = None,
) -> KernelSpec:
    """Spec of a live module or function called as ``computation(*example_inputs)``.

    The forward pass is exported (``torch.export``, sizes fixed to the examples) to ATen operators. Parameters and buffers are saved
    under the hash of their content in ``state_folder`` (default ``$KERNELEVOLVE_HOME/objects/states``). Inputs are later drawn
    with the examples' shapes, dtypes and, as far as a mean, a spread or a range describe them, values.
    Raises SpecError where the computation cannot be exported or takes something other than tensors and plain values.
    """
    import torch

    label = name or _label(computation)
    if not isinstance(example_inputs, tuple | list):
        raise SpecError(
            f"{label}: example_inputs: is {type(example_inputs).__name__}; pass a tuple with one value per argument, such as (x,)"
        )
    examples = tuple(example_inputs)
    for i, value in enumerate(examples):
        if not isinstance(value, torch.Tensor | int | float | bool | None):
            kind = type(value).__name__
            raise SpecError(
                f"{label}: example_inputs[{i}]: is {kind}; pass tensors, numbers, bools or None, one per argument"
            )
    _fits(computation, examples, label)
    module = computation if isinstance(computation, torch.nn.Module) else _as_module(computation)
    try:
        with _without_dumps():
            exported = torch.export.export(module, examples, strict=False)
            graph_module = exported.module()
    except torch.fx.experimental.symbolic_shapes.GuardOnDataDependentSymNode as e:
        raise SpecError(
            f"{label}: cannot be exported: what it does depends on the values of a tensor (an if, while, int() or shape made from "
            f"one); write it with torch.where or masks, which compute both ways"
        ) from e
    except Exception as e:  # torch.export raises many kinds
        reason = " ".join(str(e).split())[:240]
        raise SpecError(
            f"{label}: cannot be exported ({type(e).__name__}: {reason}); write the computation without it, or a YAML spec"
        ) from e
    source, state = _write(graph_module, exported, label)
    names = _placeholders(graph_module)
    inputs = tuple(_describe(n, v) for n, v in zip(names, examples, strict=True))
    dtypes = {
        str(t.dtype) for t in [*examples, *state.values()] if isinstance(t, torch.Tensor) and t.is_floating_point()
    }
    dtype = _FLOATS[next(iter(dtypes))] if len(dtypes) == 1 and next(iter(dtypes)) in _FLOATS else "float32"
    if len(dtypes) == 1:
        inputs = tuple(
            InputSpec(i.name, i.shape, "float" if i.dtype == dtype else i.dtype, i.dist, i.args) for i in inputs
        )
    return KernelSpec(
        name=label,
        source="live",
        reference=source,
        inputs=inputs,
        dtype=dtype,
        mode="train" if module.training else "eval",
        description=f"live {type(computation).__name__} {label}",
        state=str(_save(state, state_folder)) if state else None,
    )


def _fits(computation: Any, examples: tuple[Any, ...], label: str) -> None:
    """Raise SpecError where the examples are not one call's arguments. What has no readable signature is left to the export."""
    import inspect

    import torch

    call = computation.forward if isinstance(computation, torch.nn.Module) else computation
    try:
        signature = inspect.signature(call)
    except (TypeError, ValueError):
        return
    try:
        signature.bind(*examples)
    except TypeError as e:
        raise SpecError(
            f"{label}: example_inputs: do not fit {label}{signature}: {e}; pass one value per argument, {len(examples)} given"
        ) from e


@contextmanager
def _without_dumps() -> Iterator[None]:
    """Keep back the graphs and warnings that a failing export writes to stderr: the error says what matters. After a success
    everything written is passed on, as it is the computation's own."""
    logger = logging.getLogger("torch.fx.experimental.symbolic_shapes")
    level = logger.level
    kept = io.StringIO()
    logger.setLevel(logging.CRITICAL)
    try:
        with redirect_stderr(kept):
            yield
    finally:
        logger.setLevel(level)
    sys.stderr.write(kept.getvalue())


def _as_module(call: Callable[..., Any]) -> nn.Module:
    """A function as a module, which is what torch.export takes."""
    import torch

    class Function(torch.nn.Module):  # type: ignore[misc]
        forward = _with_signature(call)

    return Function().eval()


def _with_signature(call: Callable[..., Any]) -> Callable[..., Any]:
    """``forward(self, …)`` with the function's own argument names, which become the candidate's."""
    import inspect

    def forward(self: Any, *args: Any) -> Any:
        return call(*args)

    try:
        own = list(inspect.signature(call).parameters.values())
    except (TypeError, ValueError):
        return forward
    receiver = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    forward.__signature__ = inspect.Signature([receiver, *own])  # type: ignore[attr-defined]
    return forward


def _label(computation: Any) -> str:
    own = getattr(computation, "__name__", type(computation).__name__)
    return re.sub(r"\W+", "_", own).strip("_").lower() or "live"


def _placeholders(module: fx.GraphModule) -> list[str]:
    return [str(n.target) for n in module.graph.nodes if n.op == "placeholder"]


def _write(module: fx.GraphModule, exported: Any, label: str) -> tuple[str, dict[str, torch.Tensor]]:
    """Source of ``Model`` and its saved tensors. Nested names are flattened: ``block.0.weight`` becomes ``block_0_weight``."""
    import torch
    from torch import fx
    from torch.utils import _pytree

    state: dict[str, torch.Tensor] = {}
    parameters: set[str] = set()
    places: dict[str, str] = {}
    for node in list(module.graph.nodes):
        if node.op == "call_module":
            if node.users:
                raise SpecError(
                    f"{label}: uses a submodule that is not exported to operators ({node.target}); write it as tensor code"
                )
            module.graph.erase_node(node)
        elif node.op == "call_function" and isinstance(node.target, torch._ops.HigherOrderOperator):
            raise SpecError(f"{label}: uses {node.target}, control flow that has no kernel form; rewrite it without")
        elif node.op == "get_attr":
            target = str(node.target)
            value = _attribute(module, target)
            if target not in places:
                places[target] = _flat_name(target, set(places.values()))
                state[places[target]] = value.detach().cpu().contiguous()
                if isinstance(value, torch.nn.Parameter):
                    parameters.add(places[target])
            node.target = places[target]
    output = next(n for n in module.graph.nodes if n.op == "output")
    structured = _pytree.tree_unflatten(list(output.args[0]), exported.call_spec.out_spec)
    if not _plain(structured, fx.Node):
        raise SpecError(
            f"{label}: returns {type(structured).__name__}; return a tensor, or a tuple, list or dict of tensors"
        )
    output.args = (structured,)
    module.graph.set_codegen(fx.graph.CodeGen())
    code = module.graph.python_code("self").src
    first = next(
        (n for n in module.graph.nodes if n.op == "placeholder" and isinstance(n.meta.get("val"), torch.Tensor)), None
    )
    body = [f"    {line}".rstrip() for line in code.strip().splitlines()]
    baked = re.compile(r"\bdevice\(type='\w+'(, index=\d+)?\)")
    if first is not None and baked.search(code):
        # Export bakes in the device it saw; the kernel's device is where its first tensor is. The text lets go of arguments early.
        body = [baked.sub("here", line) for line in body]
        body.insert(1, f"        here = {first.name}.device")
    text = "\n".join(body)
    lines = ["import torch", "import torch.nn as nn"]
    lines += [
        f"from {m} import {n}"
        for m, n in (("math", "inf"), ("math", "nan"), ("torch", "device"))
        if re.search(rf"\b{n}\b(?!\s*=)", text)
    ]
    lines += ["", "", "class Model(nn.Module):"]
    lines += ["    def __init__(self):", "        super().__init__()"]
    for key, value in state.items():
        made = f"torch.empty({tuple(value.shape)}, dtype={value.dtype})"
        if key in parameters:
            lines.append(f"        self.{key} = nn.Parameter({made}, requires_grad=False)")
        else:
            lines.append(f"        self.register_buffer({key!r}, {made})")
    return "\n".join([*lines, "", *body]) + "\n", state


def _attribute(module: Any, target: str) -> Any:
    for part in target.split("."):
        module = getattr(module, part)
    return module


def _flat_name(target: str, taken: set[str]) -> str:
    name = re.sub(r"\W", "_", target)
    if not name.isidentifier() or keyword.iskeyword(name):
        name = f"p_{name}"
    while name in taken:
        name += "_"
    return name


def _plain(value: Any, leaf: type) -> bool:
    if type(value) in (tuple, list):
        return all(_plain(v, leaf) for v in value)
    if type(value) is dict:
        return all(_plain(v, leaf) for v in value.values())
    return value is None or isinstance(value, leaf)


def _describe(name: str, value: Any) -> InputSpec:
    """An input like the example: normal by mean and spread for floats, uniform over the range for integers, and sorted
    where the example is sorted (offsets, borders)."""
    import torch

    if not isinstance(value, torch.Tensor):
        return InputSpec(name, (), "python", "literal", {"value": value})
    dtype = str(value.dtype).removeprefix("torch.")
    shape = tuple(value.shape)
    if value.numel() == 0:
        return InputSpec(name, shape, dtype, "zeros", {})
    if value.dtype == torch.bool:
        return InputSpec(name, shape, dtype, "bool", {"p": float(value.float().mean())})
    if value.is_complex():
        raise SpecError(f"{name}: is complex; pass its real and imaginary parts (torch.view_as_real)")
    if value.dim() == 1 and value.numel() >= 4 and not value.is_floating_point() and bool((value.diff() >= 0).all()):
        low, high = int(value[0]), int(value[-1])
        if low == 0:
            return InputSpec(
                name, shape, dtype, "offsets", {"total": high, "empty": float((value.diff() == 0).double().mean())}
            )
        return InputSpec(name, shape, dtype, "sorted_uniform", {"low": low, "high": high + 1})
    if not value.is_floating_point():
        return InputSpec(name, shape, dtype, "randint", {"low": int(value.min()), "high": int(value.max()) + 1})
    finite = value.double()[torch.isfinite(value)]
    if not finite.numel():
        raise SpecError(f"{name}: holds no finite value; pass an example with typical values")
    return InputSpec(
        name, shape, dtype, "normal", {"mean": float(finite.mean()), "std": float(finite.std(correction=0))}
    )


def _save(state: Mapping[str, torch.Tensor], folder: Path | None) -> Path:
    """Write saved tensors once per content and return the file."""
    import torch

    folder = folder or home() / "objects" / "states"
    folder.mkdir(parents=True, exist_ok=True)
    digest = hashlib.sha256()
    for key, value in sorted(state.items()):
        digest.update(f"{key}:{value.dtype}:{tuple(value.shape)}:".encode())
        digest.update(memoryview(value.reshape(-1).view(torch.uint8).numpy()))
    path = folder / f"{digest.hexdigest()}.pt"
    if not path.exists():
        buffer = io.BytesIO()
        torch.save(dict(state), buffer)
        # A partial file must never stand under a content hash.
        partial = path.with_suffix(f".{os.getpid()}.tmp")
        partial.write_bytes(buffer.getvalue())
        partial.replace(path)
    return path
