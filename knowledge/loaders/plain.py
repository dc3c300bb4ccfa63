"""Plain text: units are paragraphs."""

from __future__ import annotations

from pathlib import PurePosixPath

from knowledge.documents import Document, Unit


def load(text: str, name: str) -> Document:
    """One unit per paragraph (lines between blank lines)."""
    units: list[Unit] = []
    start: int | None = None
    lines = text.split("\n")
    for i, line in enumerate([*lines, ""]):
        if line.strip():
            start = i if start is None else start
        elif start is not None:
            units.append(Unit("", start + 1, "\n".join(lines[start:i])))
            start = None
    return Document(name=name, kind="guidance", title=PurePosixPath(name).stem, units=tuple(units))
