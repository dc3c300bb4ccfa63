"""What changed from one candidate to another, ready for the page: unified diffs along the lineage, and every source shown once."""

from __future__ import annotations

import ast
import difflib
from collections.abc import Mapping
from dataclasses import dataclass

from agent.report.data import Node, RunReport, lineage

Lines = tuple[tuple[str, str], ...]
"""(class, text) with class one of add, del, hunk, same."""


@dataclass(frozen=True)
class Change:
    """One step of the lineage. ``lines`` are empty for an unchanged text, and for the first, which has no parent."""

    node: Node
    parent: str | None
    lines: Lines
    added: int
    removed: int


@dataclass(frozen=True)
class Source:
    """A candidate's source as the page shows it: ``text`` whole, or the ``lines`` that differ from candidate ``base``; with neither it
    is ``base``'s own text, or (``above``) the page has the difference already, where it tells how the best kernel came about."""

    base: str | None = None
    text: str = ""
    lines: Lines = ()
    above: bool = False


def changes(report: RunReport) -> tuple[Change, ...]:
    """The best candidate's lineage, oldest first, each with its difference from the one before."""
    chain = lineage(report)
    out = []
    for i, node in enumerate(chain):
        before = chain[i - 1].candidate if i else None
        lines = difference(before.source, node.candidate.source) if before else ()
        added, removed = (sum(k == kind for k, _ in lines) for kind in ("add", "del"))
        out.append(Change(node, before.id if before else None, lines, added, removed))
    return tuple(out)


def sources(report: RunReport) -> Mapping[str, Source]:
    """Candidate id → its source.

    Candidates share hundreds of lines of helpers. The first of a language is shown whole; the others are shown by their difference from
    their first parent, or from that first one where they have none, unless that would be longer than the text.
    """
    told = {c.node.candidate.id: c for c in changes(report)}
    known = {n.candidate.id: n.candidate for n in report.nodes}
    first: dict[str, str] = {}
    out: dict[str, Source] = {}
    for node in report.nodes:
        c = node.candidate
        parents = [p for p in c.parents if p in known and p != c.id]
        base = parents[0] if parents else first.get(c.language)
        first.setdefault(c.language, c.id)
        if c.id in told and told[c.id].lines:
            out[c.id] = Source(told[c.id].parent, above=True)
            continue
        text = readable(c.source)
        lines = difference(known[base].source, c.source) if base else ()
        if base is not None and (c.source == known[base].source or 0 < len(lines) < len(text.splitlines())):
            out[c.id] = Source(base, lines=lines)
        else:
            out[c.id] = Source(text=text)
    return out


def difference(before: str, after: str) -> Lines:
    """Unified diff of two sources in readable form; empty where they are equal."""
    old, new = (readable(text).splitlines() for text in (before, after))
    lines = list(difflib.unified_diff(old, new, lineterm="", n=3))[2:]
    return tuple(({"+": "add", "-": "del", "@": "hunk"}.get(line[:1], "same"), line) for line in lines)


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
