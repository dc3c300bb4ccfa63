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

from evaluators.suggest import suggest
from knowledge.errors import FrontMatterError

KINDS = ("hardware", "constraints", "guidance", "kernel", "trace", "lesson")
TEXT_FIELDS = ("title", "kind", "exemplar", "language", "summary")
LIST_FIELDS = ("targets", "languages", "operators", "patterns", "diagnoses", "sources", "unverified", "constraints")
OTHER_FIELDS = ("moves", "knobs", "results")

VALUES = 10_000
"""Values that one front matter may hold."""

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
    if not _bounded(fields):
        raise FrontMatterError(file, "front matter", f"more than {VALUES} values, aliases counted wherever they stand")
    if fields is None:
        fields = {}
    if not isinstance(fields, dict):
        raise FrontMatterError(file, "front matter", f"expected 'name: value' lines, got a {type(fields).__name__}")
    if "kind" in fields:
        fields = checked(fields, file)
    return FrontMatter(fields, text[closing.end() :], text.count("\n", 0, closing.end()))


def _bounded(value: Any) -> bool:
    """Whether there are few enough values: a few lines of aliases of aliases can stand for more than memory holds."""
    waiting, count = [value], 0
    while waiting and count <= VALUES:
        item = waiting.pop()
        count += 1
        waiting += item.values() if isinstance(item, dict) else item if isinstance(item, list) else ()
    return count <= VALUES


def checked(fields: Mapping[str, Any], file: str) -> dict[str, Any]:
    """The fields of one of our documents, with list fields as lists of strings.

    Raises :class:`knowledge.errors.FrontMatterError` that names every field at fault.
    """
    known = (*TEXT_FIELDS, *LIST_FIELDS, *OTHER_FIELDS)
    out: dict[str, Any] = {}
    faults: list[tuple[str, str]] = []
    for name, value in fields.items():
        if name not in known:
            faults.append((str(name), f"unknown field; {suggest(str(name), known)}"))
            continue
        if value is None:
            continue
        fault = _text_fault(value) if name in TEXT_FIELDS else _list_fault(value) if name in LIST_FIELDS else None
        if fault:
            faults.append((name, fault))
        else:
            out[name] = value if name in OTHER_FIELDS else _stripped(value, listed=name in LIST_FIELDS)
    wrong = {name for name, _ in faults}
    faults += [(name, "missing") for name in ("title", "kind", "targets") if not out.get(name) and name not in wrong]
    if "kind" in out and out["kind"] not in KINDS:
        near = suggest(out["kind"], KINDS)
        hint = f"; {near}" if near.startswith("did") else ""
        faults.append(("kind", f"{out['kind']!r} is not one of {', '.join(KINDS)}{hint}"))
    if faults:
        (field, what), *rest = faults
        raise FrontMatterError(file, field, "; ".join((what, *(f"{f}: {w}" for f, w in rest))))
    return out


def _stripped(value: Any, *, listed: bool) -> str | list[str]:
    texts = [v.strip() for v in ([value] if isinstance(value, str) else value)]
    return texts if listed else texts[0]


def _text_fault(value: Any) -> str | None:
    return None if isinstance(value, str) and value.strip() else f"expected text, got {value!r}"


def _list_fault(value: Any) -> str | None:
    if isinstance(value, str):
        return None
    if not isinstance(value, list):
        return f"expected a list, got {value!r}"
    # A source may hold a colon and parse as a mapping; its author must quote it.
    odd = [item for item in value if not isinstance(item, str)]
    return f"expected text, got {odd[0]!r} (quote values that hold ': ')" if odd else None
