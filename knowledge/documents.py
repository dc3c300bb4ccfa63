"""Documents and chunks: what a file becomes on its way into the store."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal


@dataclass(frozen=True)
class Unit:
    """A stretch of a document that should stay together: a paragraph, a fenced block, a function.

    ``locator`` says where it stands (heading path, function name); ``first`` is its first line, counted from 1 in the
    file.
    """

    locator: str
    first: int
    text: str
    form: Literal["heading", "prose", "code"] = "prose"

    @property
    def last(self) -> int:
        """Number of its last line."""
        return self.first + self.text.count("\n")


@dataclass(frozen=True)
class Document:
    """A loaded file.

    ``fields`` is its front matter; list fields that it lacks are empty tuples here. Ingestion settles empty targets.
    """

    name: str
    kind: str
    title: str
    units: tuple[Unit, ...]
    targets: tuple[str, ...] = ()
    languages: tuple[str, ...] = ()
    operators: tuple[str, ...] = ()
    patterns: tuple[str, ...] = ()
    diagnoses: tuple[str, ...] = ()
    fields: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Chunk:
    """A passage of a document, short enough for the embedding window.

    ``text`` is the file's own text; ``lines`` its first and last line; ``id`` hashes document, front matter, place
    and text, so the same passage has the same id in every store. Empty ``languages`` means all languages, a target
    ``any`` all targets.
    """

    id: str
    document: str
    kind: str
    title: str
    locator: str
    lines: tuple[int, int]
    text: str
    targets: tuple[str, ...]
    languages: tuple[str, ...]
    operators: tuple[str, ...]
    patterns: tuple[str, ...]
    diagnoses: tuple[str, ...]
    fields: Mapping[str, Any] = field(default_factory=dict)

    @property
    def searched(self) -> str:
        """The text that is embedded and indexed: the passage under its title, place and tags, which it rarely repeats
        itself.
        """
        return f"{heading(self.title, self.locator, self.languages, self.patterns, self.operators)}\n{self.text}"


def heading(
    title: str, locator: str, languages: tuple[str, ...], patterns: tuple[str, ...], operators: tuple[str, ...]
) -> str:
    """One line that stands above a passage when it is embedded; at most 240 characters."""
    place = f"{title} — {locator}" if locator and locator != title else title
    tags = " ".join((*languages, *patterns, *operators))
    return f"{place} [{tags}]"[:240] if tags else place[:240]


def chunk_id(document: str, fields: Mapping[str, Any], locator: str, text: str, repeat: int) -> str:
    """Content hash, 20 hex digits. ``repeat`` counts equal passages of one document; line numbers do not enter, so an
    edit above a passage leaves its id alone."""
    content = json.dumps([document, fields, locator, text, repeat], sort_keys=True, ensure_ascii=False, default=str)
    return hashlib.sha256(content.encode("utf-8", "surrogatepass")).hexdigest()[:20]
