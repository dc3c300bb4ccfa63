"""A plan: for every kernel of a program, the exemplar that schedules it and the knob values that fill it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from knowledge.exemplars import Exemplar

Knob = int | str | bool


@dataclass(frozen=True)
class Choice:
    """How one kernel is scheduled."""

    exemplar: Exemplar
    knobs: Mapping[str, Knob]


Plan = Mapping[str, Choice]
"""Kernel name → choice."""
