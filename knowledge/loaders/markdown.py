"""Markdown with front matter: units are headings, paragraphs, lists, tables and fenced blocks under their heading
path.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Any

from knowledge.documents import Document, Unit
from knowledge.errors import FrontMatterError
from knowledge.exemplars import parse_exemplar
from knowledge.frontmatter import parse
from knowledge.moves import parse_moves

_HEADING = re.compile(r"(#{1,6})[ \t]+(.*?)[ \t]*#*[ \t]*$")
_FENCE = re.compile(r"[ \t]*(`{3,}|~{3,})")


def load(text: str, name: str) -> Document:
    """Raises ``FrontMatterError`` for a malformed field; moves and exemplars are checked here, so bad advice never
    enters the store.
    """
    front = parse(text, name)
    fields = front.fields
    if "kind" not in fields and _advises(fields.get("moves")):
        raise FrontMatterError(name, "kind", "missing; moves are acted on only where the document says its kind")
    if "kind" in fields:
        parse_moves(fields.get("moves"), name)
    if "exemplar" in fields:
        parse_exemplar(text, name)
    units = tuple(units_of(front.body, front.lines + 1))
    if not units:
        raise FrontMatterError(name, "body", "empty; there is nothing to find")
    title = fields.get("title") or next((u.locator for u in units if u.form == "heading"), PurePosixPath(name).stem)
    languages = listed(fields, "languages") or (
        (fields["language"],) if isinstance(fields.get("language"), str) else ()
    )
    return Document(
        name=name,
        kind=str(fields.get("kind", "")),
        title=str(title),
        units=units,
        targets=listed(fields, "targets"),
        languages=languages,
        operators=listed(fields, "operators"),
        patterns=listed(fields, "patterns"),
        diagnoses=listed(fields, "diagnoses"),
        fields=fields if "kind" in fields else {},
    )


def _advises(moves: Any) -> bool:
    """Whether moves are meant as ours; another tool may call something else so."""
    return isinstance(moves, list) and any(isinstance(m, dict) and "do" in m for m in moves)


def listed(fields: Any, name: str) -> tuple[str, ...]:
    """A list field of one of our documents as a tuple; nothing for documents without ``kind``."""
    return tuple(fields.get(name, ())) if "kind" in fields else ()


def units_of(body: str, first: int) -> Iterator[Unit]:
    """Blocks of Markdown text whose first line has number ``first``.

    Every line that is not blank is in exactly one unit.
    """
    path: list[str] = []
    lines = body.split("\n")
    i = 0
    while i < len(lines):
        line = lines[i]
        if not line.strip():
            i += 1
            continue
        start = i
        fence = _FENCE.match(line)
        title = _HEADING.match(line)
        if fence is not None:
            closing = re.compile(rf"[ \t]*{re.escape(fence[1][0])}{{{len(fence[1])},}}[ \t]*$")
            i += 1
            while i < len(lines) and not closing.match(lines[i]):
                i += 1
            i = min(i + 1, len(lines))
            yield Unit(" > ".join(path), first + start, "\n".join(lines[start:i]).rstrip("\n"), "code")
        elif title is not None:
            i += 1
            del path[len(title[1]) - 1 :]
            path += [""] * (len(title[1]) - 1 - len(path)) + [title[2]]
            path = [p for p in path if p] if not title[2] else path
            yield Unit(" > ".join(p for p in path if p), first + start, line, "heading")
        else:
            while i < len(lines) and lines[i].strip() and not _FENCE.match(lines[i]) and not _HEADING.match(lines[i]):
                i += 1
            yield Unit(" > ".join(p for p in path if p), first + start, "\n".join(lines[start:i]), "prose")
