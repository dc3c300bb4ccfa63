"""Front matter: the YAML block between two ``---`` lines that opens a knowledge document.

A document that declares ``kind`` is one of ours and is checked field by field, so a misspelt field is an error and
not lost advice. A Markdown file without ``kind`` (somebody's manual, with or without front matter of another tool) is
taken as it is.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import yaml

from knowledge.errors import FrontMatterError

KINDS = ("hardware", "constraints", "guidance", "kernel", "trace", "lesson")
TEXT_FIELDS = ("title", "kind", "exemplar", "language", "summary")
LIST_FIELDS = ("targets", "languages", "operators", "patterns", "diagnoses", "sources", "unverified", "constraints")
OTHER_FIELDS = ("moves", "knobs", "results")

_OPENING = re.compile(r"\A\ufeff?---[ \t]*\r?\n")
_CLOSING = re.compile(r"^---[ \t]*(?:\r?\n|\Z)", re.MULTILINE)
_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # the C parser reads a corpus about eight times faster


@dataclass(frozen=True)
class FrontMatter:
    """Parsed front matter.

    ``lines`` is how many lines it takes, delimiters included, so that locators count from the file's start.
    """

    fields: Mapping[str, Any]
    body: str
    lines: int


def parse(text: str, file: str) -> FrontMatter:
    """Split ``text`` into front matter and body; a text without front matter gives empty fields.

    Raises :class:`knowledge.errors.FrontMatterError` with ``file: field: what``.
    """
    opening = _OPENING.match(text)
    if opening is None:
        return FrontMatter({}, text, 0)
    closing = _CLOSING.search(text, opening.end())
    if closing is None:
        # A lone "---" is a horizontal rule of plain Markdown, unless keys follow it.
        if re.match(r"[A-Za-z_]+\s*:", text[opening.end() :]):
            raise FrontMatterError(file, "front matter", "no closing '---' line")
        return FrontMatter({}, text, 0)
    try:
        fields = yaml.load(text[opening.end() : closing.start()], Loader=_Loader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        at = f"line {mark.line + 2}: " if mark is not None else ""
        problem = str(getattr(error, "problem", None) or error).replace("\n", " ")
        hint = "; quote text that holds ': '" if "mapping values" in problem else ""
        raise FrontMatterError(file, "front matter", f"{at}{problem}{hint}") from None
    if fields is None:
        fields = {}
    if not isinstance(fields, dict):
        raise FrontMatterError(file, "front matter", f"expected 'name: value' lines, got a {type(fields).__name__}")
    if "kind" in fields:
        fields = checked(fields, file)
    return FrontMatter(fields, text[closing.end() :], text.count("\n", 0, closing.end()))


def checked(fields: Mapping[str, Any], file: str) -> dict[str, Any]:
    """The fields of one of our documents, with list fields as lists of strings."""
    known = (*TEXT_FIELDS, *LIST_FIELDS, *OTHER_FIELDS)
    out: dict[str, Any] = {}
    for name, value in fields.items():
        if name not in known:
            raise FrontMatterError(file, str(name), f"unknown field; known fields are {', '.join(known)}")
        if value is None:
            continue
        if name in TEXT_FIELDS:
            out[name] = _text(value, file, name)
        elif name in LIST_FIELDS:
            out[name] = _texts(value, file, name)
        else:
            out[name] = value
    for name in ("title", "kind", "targets"):
        if not out.get(name):
            raise FrontMatterError(file, name, "missing")
    if out["kind"] not in KINDS:
        raise FrontMatterError(file, "kind", f"{out['kind']!r} is not one of {', '.join(KINDS)}")
    return out


def _text(value: Any, file: str, name: str) -> str:
    if not isinstance(value, str) or not value.strip():
        raise FrontMatterError(file, name, f"expected text, got {value!r}")
    return value.strip()


def _texts(value: Any, file: str, name: str) -> list[str]:
    if isinstance(value, str):
        return [value.strip()]
    if not isinstance(value, list):
        raise FrontMatterError(file, name, f"expected a list, got {value!r}")
    for item in value:
        # A source may hold a colon and parse as a mapping; its author must quote it.
        if not isinstance(item, str):
            raise FrontMatterError(file, name, f"expected text, got {item!r} (quote values that hold ': ')")
    return [item.strip() for item in value]
