"""Static review of a candidate's Python: what it must define, what it may import, and which PyTorch operators it leans on.

The review is a first filter that gives clear messages early. What a candidate can really do is limited by the worker's isolation.
"""

from __future__ import annotations

import ast
import warnings

from evaluators.errors import SourceRejected
from evaluators.languages.base import Review

LONGEST = 1 << 20
"""Characters of source that are read."""
ALLOWED_IMPORTS = frozenset(
    {"torch", "triton", "numpy", "math", "__future__", "typing", "functools", "itertools", "dataclasses"}
)
FORBIDDEN_NAMES = frozenset(
    {"exec", "eval", "compile", "__import__", "open", "globals", "breakpoint", "input", "vars", "setattr"}
)
FORBIDDEN_ATTRIBUTES = frozenset(
    {
        "__globals__",
        "__builtins__",
        "__subclasses__",
        "__code__",
        "f_globals",
        "f_back",
        "f_locals",
        "__loader__",
        "__spec__",
    }
)
FORBIDDEN_TORCH = (
    "torch.utils.cpp_extension",
    "torch.multiprocessing",
    "torch.distributed",
    "torch.hub",
    "torch.utils.ffi",
)

# Operators that only make, move or reshape tensors; anything else called on torch or F does arithmetic for the candidate.
_PLUMBING = frozenset(
    """empty empty_like zeros zeros_like ones ones_like full full_like tensor as_tensor arange device dtype is_tensor Size Tensor Generator
    empty_strided as_strided reshape view permute transpose contiguous unsqueeze squeeze flatten expand broadcast_shapes broadcast_to
    no_grad inference_mode enable_grad finfo iinfo numel is_floating_point get_device_properties current_device current_stream
    get_device_capability device_count is_available synchronize manual_seed promote_types result_type set_device get_num_threads
    Parameter Module Buffer ParameterList ParameterDict ModuleList ModuleDict Sequential Identity script_if_tracing split chunk unbind
    narrow select movedim ravel clone from_numpy can_cast stream Stream Event""".split()
)


_SCOPES = (
    ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp,
)  # fmt: skip


def parse(source: str) -> ast.Module:
    """Parse candidate text; a syntax error becomes :class:`SourceRejected` with the offending line, and so does text that no parser
    here can take: lone surrogates, expressions nested thousands deep, megabytes."""
    if len(source) > LONGEST:
        raise SourceRejected(f"the source has {len(source)} characters; at most {LONGEST} are read")
    encodable(source, "the source")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # its style is no concern of the judge's terminal
            return ast.parse(source)
    except SyntaxError as error:
        shown = (error.text or "").rstrip()
        raise SourceRejected(f"syntax error, line {error.lineno}: {error.msg}\n    {shown}") from None
    except (RecursionError, MemoryError):
        raise SourceRejected("an expression is nested too deeply to be parsed: split it into statements") from None
    except (ValueError, OverflowError) as error:
        raise SourceRejected(f"the source cannot be parsed: {error}") from None


def encodable(text: str, what: str) -> None:
    """Raise :class:`SourceRejected` where ``text`` cannot be written to a file as UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise SourceRejected(f"{what} holds a lone surrogate at character {error.start}: it is no valid text") from None


def review(source: str) -> Review:
    """Check ``source`` (without any fixed loader); raises :class:`SourceRejected` with line and reason."""
    tree = parse(source)
    classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
    if "ModelNew" not in classes:
        raise SourceRejected("the module defines no class ModelNew(torch.nn.Module)")
    if not any(isinstance(n, ast.FunctionDef) and n.name == "forward" for n in classes["ModelNew"].body):
        raise SourceRejected("ModelNew defines no forward method")
    for node in ast.walk(tree):
        _check(node)
    _check_names(tree, frozenset())
    calls = sorted(_library_calls(tree))
    return Review(uses_library=bool(calls), library_calls=tuple(calls))


def _check(node: ast.AST) -> None:
    line = getattr(node, "lineno", 0)
    if isinstance(node, ast.Import):
        for alias in node.names:
            _check_import(alias.name, line)
    elif isinstance(node, ast.ImportFrom):
        if node.level:
            raise SourceRejected(f"line {line}: relative imports are not possible in a self-contained module")
        _check_import(node.module or "", line)
        for alias in node.names:
            _check_torch(f"{node.module}.{alias.name}", line)
    elif isinstance(node, ast.Attribute):
        if node.attr in FORBIDDEN_ATTRIBUTES:
            raise SourceRejected(f"line {line}: .{node.attr} is not allowed in a candidate")
        _check_torch(dotted(node), line)


def _check_names(node: ast.AST, bound: frozenset[str]) -> None:
    """Refuse the forbidden builtins, but not a function's own argument or local variable that has such a name (``input``)."""
    if isinstance(node, ast.Name):
        if node.id in FORBIDDEN_NAMES - bound:
            raise SourceRejected(f"line {node.lineno}: {node.id}() is not allowed in a candidate")
    elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
        body: list[ast.AST] = list(node.body) if isinstance(node.body, list) else [node.body]
        # Defaults, decorators and annotations are evaluated outside the function.
        for child in ast.iter_child_nodes(node):
            if child not in body:
                _check_names(child, bound)
        own = bound | _locals(node, body)
        for child in body:
            _check_names(child, own)
    else:
        for child in ast.iter_child_nodes(node):
            _check_names(child, bound)


def _locals(function: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda, body: list[ast.AST]) -> set[str]:
    """Names that mean something of the function's own inside it: arguments, and what its statements assign."""
    a = function.args
    names = {x.arg for x in (*a.posonlyargs, *a.args, *a.kwonlyargs, *filter(None, (a.vararg, a.kwarg)))}
    outer: set[str] = set()
    todo = list(body)
    while todo:
        node = todo.pop()
        if isinstance(node, (ast.Global, ast.Nonlocal)):
            outer |= set(node.names)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        if not isinstance(node, _SCOPES):
            todo += ast.iter_child_nodes(node)
    return names - outer


def _check_import(name: str, line: int) -> None:
    root = name.partition(".")[0]
    if root not in ALLOWED_IMPORTS:
        raise SourceRejected(
            f"line {line}: import of {name!r} is not allowed; a candidate may import torch, triton, numpy and math"
        )
    _check_torch(name, line)


def _check_torch(name: str, line: int) -> None:
    for banned in FORBIDDEN_TORCH:
        if name == banned or name.startswith(banned + "."):
            raise SourceRejected(f"line {line}: {banned} is not allowed in a candidate")


def dotted(node: ast.AST) -> str:
    """``a.b.c`` for a chain of attributes on a name; empty where the chain starts at something else."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return ""
    return ".".join([node.id, *reversed(parts)])


def imported(tree: ast.Module) -> dict[str, str]:
    """Local name → full name of what is imported."""
    names: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                names[alias.asname or alias.name.partition(".")[0]] = (
                    alias.name if alias.asname else alias.name.partition(".")[0]
                )
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                names[alias.asname or alias.name] = f"{node.module}.{alias.name}"
    return names


def _library_calls(tree: ast.Module) -> set[str]:
    """PyTorch calls that do a kernel's work: ``torch.matmul``, ``F.softmax``, ``torch.compile``, ``torch.ops.aten…``, ``nn.Conv2d``, ``@``
    outside Triton functions."""
    aliases = {"torch": "torch", **{k: v for k, v in imported(tree).items() if v.startswith("torch")}}
    found: set[str] = set()
    for top in tree.body:
        if isinstance(top, ast.FunctionDef) and top.decorator_list:
            continue  # a device function: its tl.* calls are the kernel itself
        for node in ast.walk(top):
            if isinstance(node, ast.Call):
                name = dotted(node.func)
                root, _, rest = name.partition(".")
                full = aliases[root] + ("." + rest if rest else "") if root in aliases else ""
                if full.startswith("torch") and full.rpartition(".")[2] not in _PLUMBING and not _is_dtype(full):
                    found.add(full)
            elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult):
                found.add("@")
    return found


def _is_dtype(full: str) -> bool:
    return full.removeprefix("torch.") in {"float32", "float16", "bfloat16", "float64", "int32", "int64", "bool"}
