"""What changed from one candidate to the next: unified diffs between ancestors, ready for the page."""

from __future__ import annotations

import ast
import difflib
from dataclasses import dataclass

from agent.report.data import Node, RunReport, lineage


@dataclass(frozen=True)
class Change:
    """One step of the lineage. ``lines`` are (class, text) with class one of add, del, hunk, same; empty for an unchanged text."""

    node: Node
    parent: str | None
    lines: tuple[tuple[str, str], ...]
    added: int
    removed: int


def changes(report: RunReport) -> tuple[Change, ...]:
    """The best candidate's lineage, oldest first, each with its difference from the one before."""
    chain = lineage(report)
    out = []
    for i, node in enumerate(chain):
        if i == 0:
            out.append(Change(node, None, (), 0, 0))
            continue
        before, after = (readable(n.candidate.source).splitlines() for n in (chain[i - 1], node))
        lines = []
        for line in list(difflib.unified_diff(before, after, lineterm="", n=3))[2:]:
            kind = {"+": "add", "-": "del", "@": "hunk"}.get(line[:1], "same")
            lines.append((kind, line))
        added, removed = (sum(k == kind for k, _ in lines) for kind in ("add", "del"))
        out.append(Change(node, chain[i - 1].candidate.id, tuple(lines), added, removed))
    return tuple(out)


def readable(source: str) -> str:
    """Candidate source with the native code of ``SOURCES`` written out line by line after it.

    Native code is one string literal, which a line-by-line comparison would show as a single changed line.
    """
    try:
        module = ast.parse(source)
    except (SyntaxError, ValueError):
        return source
    for statement in module.body:
        if not isinstance(statement, ast.Assign) or not isinstance(statement.value, ast.Dict):
            continue
        if not any(isinstance(t, ast.Name) and t.id == "SOURCES" for t in statement.targets):
            continue
        try:
            files = ast.literal_eval(statement.value)
        except ValueError:
            return source
        lines = source.splitlines()
        assert statement.end_lineno is not None
        outside = [
            *lines[: statement.lineno - 1],
            f"SOURCES = {{…}}  # {', '.join(files)}: below",
            *lines[statement.end_lineno :],
        ]
        native = [f"\n─── {name} ───\n{text}" for name, text in files.items() if isinstance(text, str)]
        return "\n".join([*outside, *native])
    return source
