"""Python and Triton source: units are functions, methods and the module code between them, found with ``ast``."""

from __future__ import annotations

import ast
import re
from pathlib import PurePosixPath

from knowledge.documents import Document, Unit
from knowledge.errors import UnreadableDocumentError

_TRITON = re.compile(r"^\s*(?:import|from)\s+triton\b", re.MULTILINE)
_Definition = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def load(text: str, name: str) -> Document:
    """Kind ``kernel``; language ``triton`` where triton is imported.

    Raises ``UnreadableDocumentError`` on a syntax error.
    """
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError) as error:
        line = getattr(error, "lineno", None)
        raise UnreadableDocumentError(
            name, f"not Python 3 source{f' (line {line})' if line else ''}: {getattr(error, 'msg', error)}"
        ) from None
    lines = text.split("\n")
    units: list[Unit] = []
    _walk(tree.body, "", 0, len(lines), lines, units)
    summary = (ast.get_docstring(tree) or "").split("\n", 1)[0].strip()
    stem = PurePosixPath(name).name
    return Document(
        name=name,
        kind="kernel",
        title=f"{stem}: {summary}" if summary else stem,
        units=tuple(units),
        languages=("triton",) if _TRITON.search(text) else (),
    )


def _walk(body: list[ast.stmt], prefix: str, begin: int, end: int, lines: list[str], units: list[Unit]) -> None:
    """Units of lines ``begin`` to ``end`` (0-based, end excluded), which hold the statements ``body``."""
    at = begin
    for node in body:
        if not isinstance(node, _Definition) or node.end_lineno is None or node.lineno - 1 < at:
            continue
        first = min([node.lineno, *(d.lineno for d in node.decorator_list)]) - 1
        # A comment that touches a definition belongs to it.
        while first > at and lines[first - 1].lstrip().startswith("#"):
            first -= 1
        _add(prefix, at, first, lines, units)
        name = f"{prefix}{node.name}"
        if isinstance(node, ast.ClassDef):
            _walk(node.body, f"{name}.", first, node.end_lineno, lines, units)
        else:
            _add(name, first, node.end_lineno, lines, units)
        at = node.end_lineno
    _add(prefix, at, end, lines, units)


def _add(locator: str, begin: int, end: int, lines: list[str], units: list[Unit]) -> None:
    while begin < end and not lines[begin].strip():
        begin += 1
    while end > begin and not lines[end - 1].strip():
        end -= 1
    if begin < end:
        units.append(Unit(locator.rstrip(".") or "module", begin + 1, "\n".join(lines[begin:end]), "code"))
