"""A plan: for every kernel of a program, the exemplar that schedules it and the knob values that fill it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
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

SCHEDULE = "exemplar"
"""The reserved knob name under which a kernel's exemplar is recorded."""


def flatten(plan: Plan) -> dict[str, Knob]:
    """A plan as flat knobs, ``k0.exemplar`` and ``k0.BLOCK`` style: what a candidate records and a report shows."""
    out: dict[str, Knob] = {}
    for kernel, choice in plan.items():
        out[f"{kernel}.{SCHEDULE}"] = choice.exemplar.name
        out |= {f"{kernel}.{name}": value for name, value in choice.knobs.items()}
    return out


def unflatten(knobs: Mapping[str, Knob], exemplars: Iterable[Exemplar]) -> dict[str, Choice] | None:
    """Inverse of :func:`flatten`; ``None`` where the knobs are not a plan over these exemplars."""
    by_name = {e.name: e for e in exemplars}
    split: dict[str, dict[str, Knob]] = {}
    for key, value in knobs.items():
        kernel, dot, name = key.partition(".")
        if not dot:
            return None
        split.setdefault(kernel, {})[name] = value
    plan: dict[str, Choice] = {}
    for kernel, values in split.items():
        exemplar = by_name.get(str(values.pop(SCHEDULE, "")))
        if exemplar is None or set(values) != set(exemplar.knobs):
            return None
        plan[kernel] = Choice(exemplar, values)
    return plan or None


def fingerprint(plan: Plan) -> tuple[tuple[str, Knob], ...]:
    """Equal for equal plans: what has been tried is not tried again."""
    return tuple(sorted(flatten(plan).items()))
