"""The form of a candidate module that people and models write: which language it is in, and the loader that C++ ends with."""

from __future__ import annotations

import ast

from evaluators.errors import SourceRejected
from evaluators.languages.review import dotted, parse

NO_KERNEL = (
    'the module holds no kernel of its own: write C++ in a literal SOURCES = {"kernel.cpp": …}, or functions decorated with @triton.jit. '
    "PyTorch's operators are what a kernel is compared with; docs/candidates.md has complete examples"
)


def guess(source: str) -> str:
    """Language of a candidate module by what it contains: ``SOURCES`` means C++, a ``triton.jit`` function or import Triton.

    Raises :class:`SourceRejected` where it contains neither.
    """
    tree = parse(source)
    if _assigns_sources(tree):
        return "cpp"
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            marks = [dotted(d.func if isinstance(d, ast.Call) else d) for d in node.decorator_list]
            if any(m.rpartition(".")[2] == "jit" for m in marks):
                return "triton"
        names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
        names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        if any(n.partition(".")[0] == "triton" for n in names):
            return "triton"
    raise SourceRejected(NO_KERNEL)


def finished(source: str, language: str) -> str:
    """The module as the judge takes it: C++ closed by the fixed loader, which nobody has to write."""
    return with_loader(source) if language == "cpp" else source


def with_loader(source: str) -> str:
    """A C++ module closed by the fixed loader, whose functions it may have written itself, or copied with changes."""
    from evaluators.languages.cpp import LOADER

    if source.rstrip().endswith(LOADER.strip()):
        return source
    lines = source.split("\n")
    try:
        tree: ast.Module | None = ast.parse(source)
    except (SyntaxError, ValueError):
        tree = None  # the judge says where
    for node in reversed(tree.body if tree else []):
        if isinstance(node, ast.FunctionDef) and node.name in ("_native", "_address"):
            first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
            del lines[first - 1 : node.end_lineno]
    return "\n".join(lines).rstrip() + "\n\n" + LOADER


def _assigns_sources(tree: ast.Module) -> bool:
    targets = [t for n in tree.body if isinstance(n, ast.Assign) for t in n.targets]
    targets += [n.target for n in tree.body if isinstance(n, ast.AnnAssign)]
    return any(isinstance(t, ast.Name) and t.id == "SOURCES" for t in targets)
