"""The knob space of one kernel under one exemplar: admissible points, neighbours, samples."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from agent.proposers.builtin.plan import Knob

if TYPE_CHECKING:
    from knowledge.exemplars import Exemplar

SAMPLES = 400
"""Random points tried before a space counts as having no admissible one."""


def repaired(exemplar: Exemplar, knobs: Mapping[str, Knob], facts: Mapping[str, Any]) -> dict[str, Knob] | None:
    """The given knobs if admissible, else the nearest admissible point found; ``None`` where there is none.

    Distance counts steps along each knob's list of values.
    """
    if exemplar.admits(knobs, facts):
        return dict(knobs)
    near: list[tuple[int, dict[str, Knob]]] = []
    for point in _walk(exemplar, knobs):
        if exemplar.admits(point, facts):
            near.append((_distance(exemplar, knobs, point), point))
    return min(near, key=lambda dp: dp[0])[1] if near else None


def _walk(exemplar: Exemplar, knobs: Mapping[str, Knob]) -> Iterator[dict[str, Knob]]:
    """One knob changed, then two, then random points."""
    names = list(exemplar.knobs)
    for a in names:
        for va in exemplar.knobs[a].values:
            yield {**knobs, a: va}
    for i, a in enumerate(names):
        for b in names[i + 1 :]:
            for va in exemplar.knobs[a].values:
                for vb in exemplar.knobs[b].values:
                    yield {**knobs, a: va, b: vb}
    rng = random.Random(0)
    for _ in range(SAMPLES):
        yield {n: rng.choice(exemplar.knobs[n].values) for n in names}


def _distance(exemplar: Exemplar, a: Mapping[str, Knob], b: Mapping[str, Knob]) -> int:
    return sum(abs(_at(exemplar, n, a[n]) - _at(exemplar, n, b[n])) for n in exemplar.knobs)


def _at(exemplar: Exemplar, name: str, value: Knob) -> int:
    values = exemplar.knobs[name].values
    return values.index(value) if value in values else 0


def neighbours(
    exemplar: Exemplar, knobs: Mapping[str, Knob], facts: Mapping[str, Any]
) -> list[tuple[str, Knob, dict[str, Knob]]]:
    """Admissible points one step away along one knob: (knob, new value, point)."""
    out = []
    for name, knob in exemplar.knobs.items():
        at = _at(exemplar, name, knobs[name])
        for step in (1, -1):
            if 0 <= at + step < len(knob.values):
                point = {**knobs, name: knob.values[at + step]}
                if exemplar.admits(point, facts):
                    out.append((name, knob.values[at + step], point))
    return out


def sample(exemplar: Exemplar, facts: Mapping[str, Any], rng: random.Random) -> dict[str, Knob] | None:
    """A uniformly drawn admissible point; ``None`` after many misses."""
    for _ in range(SAMPLES):
        point = {n: rng.choice(k.values) for n, k in exemplar.knobs.items()}
        if exemplar.admits(point, facts):
            return point
    return None
