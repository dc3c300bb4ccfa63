"""Reference code: a class ``Model`` as it stands, or a function with a generated ``Model`` around it."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from evaluators.errors import SpecError
from evaluators.spec import shapes
from evaluators.spec.kernel_spec import InputSpec

HEADER = "import torch\nimport torch.nn as nn\nimport torch.nn.functional as F\n"
_ATTRIBUTE = re.compile(r"^(?P<module>[A-Za-z_][\w.]*):(?P<attr>[A-Za-z_]\w*)$")


@dataclass(frozen=True)
class Argument:
    """An argument of the reference function or of ``Model.forward``."""

    name: str
    required: bool
    keyword_only: bool


@dataclass(frozen=True)
class Reference:
    """Reference source with its entry point: a class or a function of that name, taking ``arguments``."""

    text: str
    entry: str
    is_class: bool
    arguments: tuple[Argument, ...]


def read_reference(written: str, file: str, folder: Path) -> Reference:
    """Parse inline code, or find ``module:attr`` beside the spec file and then on the import path.

    Raises SpecError where the code has a syntax error, the module or attribute is not found, or the entry point is ambiguous.
    """
    named = _ATTRIBUTE.match(written.strip())
    text = _module_text(named["module"], file, folder) if named else written
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError) as e:
        line = f"line {e.lineno}: {e.msg}" if isinstance(e, SyntaxError) else str(e)
        raise SpecError(f"{file}: reference: {line}; fix the Python there") from e
    if named:
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.level:
                raise SpecError(
                    f"{file}: reference: {named['module']} line {node.lineno} has a relative import; a reference must be "
                    "self-contained, so import the package by its full name"
                )
    entry = _entry(tree, named["attr"] if named else None, file)
    if isinstance(entry, ast.ClassDef):
        forward = next((n for n in entry.body if isinstance(n, ast.FunctionDef) and n.name == "forward"), None)
        if forward is None:
            raise SpecError(f"{file}: reference: class {entry.name} has no method forward; define forward(self, …)")
        return Reference(text, entry.name, True, _arguments(forward, file)[1:])
    return Reference(text, entry.name, False, _arguments(entry, file))


def _module_text(module: str, file: str, folder: Path) -> str:
    beside = folder / (module.replace(".", "/") + ".py")
    if beside.is_file():
        return _text(beside, file)
    found = _found(module)
    if found is None:
        raise SpecError(
            f"{file}: reference: no Python module {module!r}; put {beside.name} beside the spec or install it"
        )
    return _text(found, file)


def _text(path: Path, file: str) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as e:
        reason = e.strerror if isinstance(e, OSError) else "it is not UTF-8 text"
        raise SpecError(f"{file}: reference: {path} cannot be read: {reason}") from e


def _found(module: str) -> Path | None:
    """File of a module on the import path. Nothing is imported, not even the packages above it: that would run their code here."""
    places: Sequence[str] | None = None
    name = ""
    origin = ""
    for part in module.split("."):
        name = f"{name}.{part}" if name else part
        try:
            found = next(
                filter(None, (f.find_spec(name, places, None) for f in sys.meta_path if hasattr(f, "find_spec"))), None
            )
        except (ImportError, ValueError):
            return None
        if found is None:
            return None
        origin, places = found.origin or "", found.submodule_search_locations or []
    return Path(origin) if origin.endswith(".py") else None


def _entry(tree: ast.Module, wanted: str | None, file: str) -> ast.ClassDef | ast.FunctionDef:
    defined = {n.name: n for n in tree.body if isinstance(n, ast.ClassDef | ast.FunctionDef)}
    if wanted is not None:
        if wanted not in defined:
            raise SpecError(f"{file}: reference: no function or class {wanted!r} there; it defines {_list(defined)}")
        return defined[wanted]
    for name in ("Model", "reference"):
        if name in defined:
            return defined[name]
    functions = {k: n for k, n in defined.items() if isinstance(n, ast.FunctionDef)}
    if len(functions) == 1:
        return next(iter(functions.values()))
    if not functions:
        raise SpecError(
            f"{file}: reference: defines no function; write 'def reference(…): …' or 'class Model(nn.Module)'"
        )
    raise SpecError(f"{file}: reference: defines {_list(functions)}; name the one to compute 'reference'")


def _list(names: Mapping[str, object]) -> str:
    return ", ".join(names) or "nothing"


def _arguments(function: ast.FunctionDef, file: str) -> tuple[Argument, ...]:
    a = function.args
    if a.vararg or a.kwarg:
        raise SpecError(f"{file}: reference: {function.name} takes *args or **kwargs; name its arguments")
    plain = [*a.posonlyargs, *a.args]
    optional = len(a.defaults)
    out = [Argument(p.arg, i < len(plain) - optional, False) for i, p in enumerate(plain)]
    return (*out, *(Argument(p.arg, d is None, True) for p, d in zip(a.kwonlyargs, a.kw_defaults, strict=True)))


def check_arguments(ref: Reference, inputs: Sequence[str], parameters: Sequence[str], file: str) -> None:
    """Every argument has an input or parameter and the other way round. Raises SpecError naming the first that has none."""
    # Parameters of a class are its own attributes, they are not passed to forward.
    given = {*inputs} if ref.is_class else {*inputs, *parameters}
    accepted = [a.name for a in ref.arguments]
    for a in ref.arguments:
        if a.required and a.name not in given:
            raise SpecError(
                f"{file}: inputs.{a.name}: {ref.entry} needs {a.name!r}; describe it under inputs or parameters"
            )
    for part, names in (("inputs", inputs), ("parameters", () if ref.is_class else parameters)):
        for name in names:
            if name not in accepted:
                takes = ", ".join(accepted) or "nothing"
                raise SpecError(f"{file}: {part}.{name}: {ref.entry} takes no {name!r}; it takes {takes}")
    for name in inputs:
        if name in parameters:
            raise SpecError(f"{file}: parameters.{name}: is an input too; keep one")


def model_source(
    ref: Reference, inputs: Sequence[InputSpec], parameters: Sequence[InputSpec], dims: Mapping[str, int]
) -> str:
    """Self-contained source that defines ``Model``.

    Dims that shape a parameter become constructor arguments, so the same model can be built for other sizes; their defaults are the
    profile's own.
    """
    text = ref.text if "import torch.nn.functional as F" in ref.text else _with_header(ref.text)
    if ref.is_class:
        return text if ref.entry == "Model" else f"{text.rstrip()}\n\n\nModel = {ref.entry}\n"
    used = dict.fromkeys(n for p in parameters for s in p.shape if isinstance(s, str) for n in shapes.names(s))
    constructor = ", ".join(["self", *(f"{name}={dims[name]}" for name in used)])
    lines = ["class Model(nn.Module):"]
    if parameters:
        lines += [f"    def __init__({constructor}):", "        super().__init__()"]
        for p in parameters:
            extents = ", ".join(str(s) for s in p.shape)
            kind = "" if p.dtype == "float" else f", dtype=torch.{p.dtype}"
            # requires_grad=False also admits integer parameters.
            lines.append(f"        self.{p.name} = nn.Parameter(torch.empty(({extents},){kind}), requires_grad=False)")
        lines.append("")
    own = {p.name for p in parameters}
    passed = [a for a in ref.arguments if a.name in own or any(i.name == a.name for i in inputs)]
    # An optional argument that is left out moves what follows it, which then goes by name.
    gap = next((i for i, a in enumerate(ref.arguments) if a not in passed), len(ref.arguments))
    call = []
    for a in passed:
        value = f"self.{a.name}" if a.name in own else a.name
        call.append(f"{a.name}={value}" if a.keyword_only or ref.arguments.index(a) > gap else value)
    lines += [
        f"    def forward({', '.join(['self', *(i.name for i in inputs)])}):",
        f"        return {ref.entry}({', '.join(call)})",
    ]
    return f"{text.rstrip()}\n\n\n" + "\n".join(lines) + "\n"


def _with_header(text: str) -> str:
    # ``from __future__`` must stay first, and a repeated plain import is harmless.
    future = re.match(r"\s*((?:from __future__ import .*\n)+)", text)
    if future:
        return future[1] + HEADER + "\n\n" + text[future.end() :].lstrip("\n")
    return HEADER + "\n\n" + text.lstrip("\n")
