"""Knobs: the dimensions of a schedule's space, as an exemplar's front matter declares them.

knobs:
  num_warps: {values: [1, 2, 4, 8], default: 4}
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from knowledge.errors import FrontMatterError

Value = int | str | bool


@dataclass(frozen=True)
class Knob:
    """One dimension of a schedule's space: the values it may take, in order, and where a search starts."""

    values: tuple[Value, ...]
    default: Value


def parse_knobs(value: Any, document: str) -> dict[str, Knob]:
    """Knobs of one front matter. Raises :class:`knowledge.errors.FrontMatterError` naming document and field."""
    if not isinstance(value, Mapping):
        raise FrontMatterError(document, "knobs", f"expected NAME: {{values: […], default: V}}, got {value!r}")
    out: dict[str, Knob] = {}
    for name, knob in value.items():
        where = f"knobs.{name}"
        if not isinstance(knob, Mapping) or set(knob) != {"values", "default"}:
            raise FrontMatterError(document, where, f"expected {{values: […], default: V}}, got {knob!r}")
        values = knob["values"]
        if not isinstance(values, list) or not values or not all(isinstance(v, (int, str, bool)) for v in values):
            raise FrontMatterError(
                document, f"{where}.values", f"expected a list of numbers, texts or truth values, got {values!r}"
            )
        if not any(v == knob["default"] and type(v) is type(knob["default"]) for v in values):
            raise FrontMatterError(document, f"{where}.default", f"{knob['default']!r} is not one of {values!r}")
        out[str(name)] = Knob(tuple(values), knob["default"])
    return out
