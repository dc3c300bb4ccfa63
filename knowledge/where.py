"""Chroma ``where`` filters from plain conditions.

Chroma 1.5 raises on a dict of several keys, on ``{}``, on ``$and`` or ``$or`` of one element and on an empty ``$in``;
these builders never make them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

Where = dict[str, Any]
NOTHING: Where = {"$and": [{"kind": {"$eq": ""}}, {"kind": {"$ne": ""}}]}
"""Matches no row."""


def any_of(field: str, values: Iterable[str]) -> Where:
    """Rows whose ``field`` is one of ``values``; no values match nothing."""
    items = sorted(set(values))
    return {field: {"$in": items}} if items else NOTHING


def tagged(name: str, values: Iterable[str]) -> Where:
    """Rows whose list field ``name`` holds one of ``values`` (list fields are stored as flags, see :func:`flag`)."""
    return either(*({flag(name, v): {"$eq": True}} for v in sorted(set(values))))


def flag(name: str, value: str) -> str:
    """Metadata key that is true where list field ``name`` holds ``value``; an empty list is the value ``*``."""
    return f"{name}:{value}"


def both(*conditions: Where | None) -> Where | None:
    """All of ``conditions``; ``None`` conditions say nothing, and nothing but those gives ``None`` (no filter)."""
    given = [c for c in conditions if c is not None]
    return {"$and": given} if len(given) > 1 else given[0] if given else None


def either(*conditions: Where) -> Where:
    """One of ``conditions``; of none, nothing."""
    return {"$or": list(conditions)} if len(conditions) > 1 else conditions[0] if conditions else NOTHING
