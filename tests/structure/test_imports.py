"""No two modules import one another, neither directly nor around others."""

from __future__ import annotations

import ast
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = ("kernelevolve", "agent", "retrieval", "knowledge", "evaluators")


def _name(file: Path) -> str:
    parts = file.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _imported(file: Path, known: set[str]) -> set[str]:
    """Modules that a file imports anywhere: at its top, inside functions, for type checkers alone."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            assert not node.level, f"{file}:{node.lineno}: a relative import"
            whole = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= whole & known
            if not whole <= known:
                found.add(node.module)
    return (found & known) - {_name(file)}


def test_imports_form_no_circle() -> None:
    """Also with the imports inside functions and under TYPE_CHECKING, so that any module can be read and changed below those above it."""
    files = {_name(file): file for package in PACKAGES for file in (ROOT / package).rglob("*.py")}
    graph = {name: _imported(file, set(files)) for name, file in files.items()}
    assert sum(map(len, graph.values())) > len(files)
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        raise AssertionError("modules import one another: " + " ← ".join(error.args[1])) from None
