"""Assemble a candidate module: the language-independent shell around rendered kernels.

The result is self-contained Python that defines ``ModelNew`` with the reference's parameters by name and its forward signature.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from evaluators.ir.kernel import Buffer, LibraryCall, Program, Ref


@dataclass(frozen=True)
class Rendered:
    """One kernel in one language.

    ``definitions`` is source text (a ``@triton.jit`` function, or nothing where the language keeps its own source file); ``launch`` are
    the lines that run it inside ``forward``, where every buffer is a local tensor under its own name; ``scratch`` are
    temporaries the schedule adds (split partials, counters): name, shape, torch dtype name, and whether it must start at zero.
    """

    definitions: str
    launch: tuple[str, ...]
    scratch: tuple[tuple[str, tuple[int, ...], str, bool], ...] = field(default_factory=tuple)


def assemble(
    program: Program,
    signature: Sequence[str],
    preamble: str,
    rendered: Mapping[str, Rendered],
    closing: str = "",
) -> str:
    """Text of the candidate module.

    ``signature`` names forward's arguments in order; ``rendered`` maps kernel names to their rendering; ``preamble`` holds the imports and
    shared helpers, ``closing`` what goes after the class (a loader, for native code).
    """
    lines: list[str] = [preamble.rstrip(), ""]
    for step in program.kernels:
        if rendered[step.name].definitions:
            lines += ["", rendered[step.name].definitions.rstrip(), ""]
    lines += ["", "class ModelNew(torch.nn.Module):", *_constructor(program)]
    lines += ["", f"    def forward(self, {', '.join(signature)}):", *_forward(program, signature, rendered)]
    if closing:
        lines += ["", "", closing.rstrip()]
    return "\n".join(lines) + "\n"


def _constructor(program: Program) -> list[str]:
    out = ["    def __init__(self, *args, **kwargs):", "        super().__init__()"]
    made: set[str] = set()
    for b in program.buffers.values():
        if b.role == "param":
            path = str(b.source).split(".")
            for depth in range(1, len(path)):
                owner = ".".join(path[:depth])
                if owner not in made:
                    made.add(owner)
                    parent = ".".join(["self", *path[: depth - 1]])
                    out.append(f"        {parent}.add_module({path[depth - 1]!r}, torch.nn.Module())")
            owner_text = "self" if len(path) == 1 else f"self.get_submodule({'.'.join(path[:-1])!r})"
            floating = b.dtype.startswith(("float", "bfloat"))
            value = f"torch.empty({list(b.shape)}, dtype=torch.{b.dtype})"
            if floating:
                out.append(
                    f"        {owner_text}.register_parameter({path[-1]!r}, torch.nn.Parameter({value}, requires_grad=False))"
                )
            else:
                out.append(f"        {owner_text}.register_buffer({path[-1]!r}, {value})")
        elif b.role == "constant":
            out.append(
                f"        self.register_buffer({'_' + b.name!r}, torch.tensor({b.source!r}, dtype=torch.{b.dtype})"
                f".reshape({list(b.shape)}), persistent=False)"
            )
    return out


def _forward(program: Program, signature: Sequence[str], rendered: Mapping[str, Rendered]) -> list[str]:
    out: list[str] = []
    tensors = [b for b in program.buffers.values() if b.role == "input"]
    for b in tensors:
        out.append(f"        {b.name} = {signature[b.source]}.contiguous()")
        out.append(
            f"        if {b.name}.shape != {_shape(b.shape)} or {b.name}.dtype != torch.{b.dtype}:\n"
            f'            raise ValueError(f"{signature[b.source]}: this kernel is specialised for '
            f'{list(b.shape)} {b.dtype}, got {{list({b.name}.shape)}} {{{b.name}.dtype}}")'
        )
    for b in program.buffers.values():
        if b.role == "param":
            out.append(
                f"        {b.name} = self.{b.source}"
                if _plain(b)
                else f"        {b.name} = self.get_parameter({b.source!r})"
            )
        elif b.role == "constant":
            out.append(f"        {b.name} = self._{b.name}")
    device = f"{tensors[0].name}.device" if tensors else _device_of_params(program)
    made_by_library = {o for s in program.steps if isinstance(s, LibraryCall) for o in s.outputs}
    for b in program.buffers.values():
        if b.role in ("output", "scratch") and b.name not in made_by_library:
            out.append(f"        {b.name} = torch.empty({_shape(b.shape)}, dtype=torch.{b.dtype}, device={device})")
    for step in program.steps:
        if isinstance(step, LibraryCall):
            out.append("        " + _library(step))
            continue
        r = rendered[step.name]
        for name, shape, dtype, zero in r.scratch:
            make = "zeros" if zero else "empty"
            out.append(f"        {name} = torch.{make}({_shape(shape)}, dtype=torch.{dtype}, device={device})")
        out += [f"        {line}" for line in r.launch]
    result = ", ".join(program.outputs)
    if program.structure == "tuple":
        result = f"({result},)" if len(program.outputs) == 1 else f"({result})"
    return [*out, f"        return {result}"]


def _plain(b: Buffer) -> bool:
    return "." not in str(b.source)


def _device_of_params(program: Program) -> str:
    for b in program.buffers.values():
        if b.role == "param":
            return f"{b.name}.device"
    return '"cpu"'


def _shape(shape: Sequence[int]) -> str:
    return f"({', '.join(map(str, shape))}{',' if len(shape) == 1 else ''})"


def _library(call: LibraryCall) -> str:
    def text(value: Any) -> str:
        if isinstance(value, Ref):
            return value.buffer
        if isinstance(value, (list, tuple)):
            return "[" + ", ".join(map(text, value)) + "]"
        return repr(value)

    parts = [text(a) for a in call.args] + [f"{k}={text(v)}" for k, v in call.kwargs]
    packet, _, overload = call.target.removeprefix("aten::").partition(".")
    name = f"torch.ops.aten.{packet}.{overload or 'default'}"
    outputs = ", ".join(call.outputs)
    return f"{outputs} = {name}({', '.join(parts)})"
