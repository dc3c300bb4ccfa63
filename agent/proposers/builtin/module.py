"""Assemble a candidate module: the language-independent shell around rendered kernels.

The result is self-contained Python that defines ``ModelNew`` with the reference's parameters by name and its forward signature. An
argument keeps its name unless the text of ``forward`` uses that word for something else (a buffer, ``torch``, a kernel's name).
"""

from __future__ import annotations

import ast
import keyword
import math
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
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
    placeholders = [f"_argument{i}" for i in range(len(signature))]
    taken = _words(_forward(program, placeholders, rendered)) - {*placeholders}
    names = argument_names(signature, {"self", *program.buffers, *taken})
    lines += ["", f"    def forward({', '.join(['self', *names])}):", *_forward(program, names, rendered)]
    if closing:
        lines += ["", "", closing.rstrip()]
    return "\n".join(lines) + "\n"


def argument_names(wanted: Sequence[str], taken: Iterable[str]) -> tuple[str, ...]:
    """Distinct Python identifiers for arguments of these names, none of them ``taken``; a name is changed only where it must be."""
    used = set(taken)
    kept = {n for n in wanted if _speakable(n)} - used
    out: list[str] = []
    for given in wanted:
        name = given
        if not _speakable(name) or name in used:
            name = re.sub(r"[^0-9A-Za-z_]", "_", unicodedata.normalize("NFKC", given)).lstrip("_")
            name = name if name.isidentifier() else f"argument_{name}"
            while keyword.iskeyword(name) or name in used or name in kept:
                name += "_"
        used.add(name)
        out.append(name)
    return tuple(out)


def _words(lines: Sequence[str]) -> set[str]:
    """The names that these lines of a function's body use or bind; attributes and keyword arguments are none."""
    words: set[str] = set()
    for node in ast.walk(ast.parse("\n".join(["def forward(self):", *lines]))):
        if isinstance(node, ast.Name):
            words.add(node.id)
        elif isinstance(node, (ast.arg, ast.alias)):
            words.add(node.arg if isinstance(node, ast.arg) else node.asname or node.name)
    return words


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
                    out.append(
                        f"        {_owner(path[: depth - 1])}.add_module({path[depth - 1]!r}, torch.nn.Module())"
                    )
            owner_text = _owner(path[:-1])
            value = f"torch.empty({list(b.shape)}, dtype=torch.{b.dtype})"
            if _floating(b):
                out.append(
                    f"        {owner_text}.register_parameter({path[-1]!r}, torch.nn.Parameter({value}, requires_grad=False))"
                )
            else:
                out.append(f"        {owner_text}.register_buffer({path[-1]!r}, {value})")
        elif b.role == "constant":
            out.append(
                f"        self.register_buffer({_held(program, b)!r}, torch.tensor({_literal(b.source)}, dtype=torch.{b.dtype})"
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
            get = "get_parameter" if _floating(b) else "get_buffer"
            out.append(f"        {b.name} = self.{b.source if _speakable(str(b.source)) else f'{get}({b.source!r})'}")
        elif b.role == "constant":
            out.append(f"        {b.name} = self.{_held(program, b)}")
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


def _owner(path: Sequence[str]) -> str:
    """The module at a path: names in it may be numbers, as in nested ``Sequential``."""
    return f"self.get_submodule({'.'.join(path)!r})" if path else "self"


def _held(program: Program, constant: Buffer) -> str:
    """The attribute that holds a constant: none of the reference's own."""
    parameters = {str(b.source).partition(".")[0] for b in program.buffers.values() if b.role == "param"}
    name = "_" + constant.name
    while name in parameters:
        name += "_"
    return name


def _literal(value: Any) -> str:
    """Python text of plain values, in lists or alone; infinities and NaN have none of their own."""
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(_literal, value)) + "]"
    if isinstance(value, float) and not math.isfinite(value):
        return f"float({str(value)!r})"
    return repr(value)


def _floating(b: Buffer) -> bool:
    return b.dtype.startswith(("float", "bfloat"))


def _speakable(name: str) -> bool:
    """Whether a name can stand in a class's text as it is: Python compares identifiers in their NFKC form, and changes those of a class
    that begin with two underscores."""
    normal = unicodedata.normalize("NFKC", name) == name and not name.startswith("__")
    return normal and name.isidentifier() and not keyword.iskeyword(name)


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
        return _literal(value)

    parts = [text(a) for a in call.args] + [f"{k}={text(v)}" for k, v in call.kwargs]
    packet, _, overload = call.target.removeprefix("aten::").partition(".")
    name = f"torch.ops.aten.{packet}.{overload or 'default'}"
    outputs = ", ".join(call.outputs)
    return f"{outputs} = {name}({', '.join(parts)})"
