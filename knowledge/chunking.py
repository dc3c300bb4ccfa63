"""Chunking: pack a document's units into passages that fit the embedding window.

Units of one place (heading, function) are packed together; different places are never mixed, except that a heading
without text of its own leads the section below it. A unit that is too long is cut where it hurts least: between
definitions, at blank lines, at the outermost indentation, between lines, and only then inside a line.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import pairwise

from knowledge.documents import Chunk, Document, Unit, chunk_id, heading

Count = Callable[[str], int]
"""Tokens of a text, without the special tokens; additive over pieces joined by white space."""

SPECIAL_TOKENS = 2
LETTERS = 16
"""Characters per token, at most, of a passage: longer words mean nothing to the model, which counts them as one token."""
_DEFINITION = re.compile(
    r"\s*(?:@|def |class |async def |template\s*<|static |inline |extern |struct |__global__|__device__|#pragma omp)"
)


def chunk(document: Document, count: Count, window: int) -> list[Chunk]:
    """Passages of ``document`` of at most ``window`` tokens, title line and special tokens included.

    No text is lost or reordered.
    """
    chunks: list[Chunk] = []
    seen: dict[tuple[str, str], int] = {}
    for units in _groups(document, count, window):
        text = _joined(units)
        locator = next((u.locator for u in units if u.form != "heading"), units[-1].locator)
        repeat = seen.get((locator, text), 0)
        seen[locator, text] = repeat + 1
        chunks.append(
            Chunk(
                id=chunk_id(document.name, document.fields, locator, text, repeat),
                document=document.name,
                kind=document.kind,
                title=document.title,
                locator=locator,
                lines=(units[0].first, units[-1].last),
                text=text,
                targets=document.targets,
                languages=document.languages,
                operators=document.operators,
                patterns=document.patterns,
                diagnoses=document.diagnoses,
                fields=document.fields,
            )
        )
    return chunks


def _groups(document: Document, count: Count, window: int) -> Iterator[list[Unit]]:
    held: list[Unit] = []
    used = 0

    def budget(locator: str) -> int:
        above = heading(document.title, locator, document.languages, document.patterns, document.operators)
        return max(window - SPECIAL_TOKENS - count(above), window // 3)

    for unit in document.units:
        if not unit.text.strip():
            continue
        room = budget(unit.locator)
        for piece in _fit(unit, count, room):
            size = _size(piece.text, count, room)
            leads = bool(held) and all(u.form == "heading" for u in held)
            same = bool(held) and (held[-1].locator == piece.locator or leads) and piece.form != "heading"
            nested = leads and piece.form == "heading" and piece.locator.startswith(held[-1].locator)
            if held and ((same or nested) and used + size <= room):
                held.append(piece)
                used += size
                continue
            if held:
                yield held
            held, used = [piece], size
    if held:
        yield held


def _joined(units: list[Unit]) -> str:
    text = units[0].text
    for before, after in pairwise(units):
        # Pieces cut inside one line share its number; a space keeps their words apart.
        text += ("\n" * max(after.first - before.last, 0) or " ") + after.text
    return text


def _size(text: str, count: Count, room: int) -> int:
    """Tokens of a text, at least one for so many characters. What is too long by its characters alone is not counted through."""
    least = -(-len(text) // LETTERS)
    return least if least > room else max(count(text), least)


def _fit(unit: Unit, count: Count, room: int) -> list[Unit]:
    return _cut(unit, count, room, 0)


def _cut(unit: Unit, count: Count, room: int, level: int) -> list[Unit]:
    if _size(unit.text, count, room) <= room:
        return [unit]
    if level == len(_LEVELS):
        return _cut_line(unit, count, room)
    lines = unit.text.split("\n")
    starts = [0, *(i for i in range(1, len(lines)) if _LEVELS[level](lines, i)), len(lines)]
    out: list[Unit] = []
    pending: Unit | None = None
    for begin, end in pairwise(starts):
        part = replace(unit, first=unit.first + begin, text="\n".join(lines[begin:end]))
        if pending is not None:
            both = replace(pending, text=pending.text + "\n" + part.text)
            if _size(both.text, count, room) <= room:
                pending = both
                continue
            out += _cut(pending, count, room, level + 1)
        pending = part
    if pending is not None:
        out += _cut(pending, count, room, level + 1)
    return [u for u in out if u.text.strip()]


def _cut_line(unit: Unit, count: Count, room: int) -> list[Unit]:
    """One line too long for the window: between words, then in halves of a word."""
    words = unit.text.split()
    if len(words) == 1 and len(words[0]) > 1 and _size(words[0], count, room) > room:
        half = len(words[0]) // 2
        return [p for w in (words[0][:half], words[0][half:]) for p in _cut_line(replace(unit, text=w), count, room)]
    out: list[Unit] = []
    line: list[str] = []
    used = 0
    for word in words:
        size = _size(word, count, room)
        if size > room and len(words) > 1:
            if line:
                out.append(replace(unit, text=" ".join(line)))
            out += _cut_line(replace(unit, text=word), count, room)
            line, used = [], 0
            continue
        if line and used + size > room:
            out.append(replace(unit, text=" ".join(line)))
            line, used = [], 0
        line.append(word)
        used += size
    if line:
        out.append(replace(unit, text=" ".join(line)))
    return out


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _at_definition(lines: list[str], i: int) -> bool:
    """Before an outermost definition (its comment, decorator or attribute included)."""
    if not lines[i].strip() or lines[i - 1].strip():
        return False
    base = min(_indent(x) for x in lines if x.strip() and not x.startswith("```"))
    return _indent(lines[i]) == base or (_DEFINITION.match(lines[i]) is not None and _indent(lines[i]) <= base + 4)


def _at_blank(lines: list[str], i: int) -> bool:
    return bool(lines[i].strip()) and not lines[i - 1].strip()


def _at_outermost(lines: list[str], i: int) -> bool:
    inner = [_indent(x) for x in lines[1:] if x.strip() and not x.startswith("```")]
    return bool(inner) and bool(lines[i].strip()) and _indent(lines[i]) <= min(inner)


def _at_line(lines: list[str], i: int) -> bool:
    return True


_LEVELS: tuple[Callable[[list[str], int], bool], ...] = (_at_definition, _at_blank, _at_outermost, _at_line)
