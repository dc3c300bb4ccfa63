"""Factors, arms, and which arms an experiment runs: all combinations, or half of them chosen so that little is confounded."""

from __future__ import annotations

import itertools
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from retrieval.arms import Arms


@dataclass(frozen=True)
class Factor:
    """A part of retrieval that is varied: level → switches of :class:`retrieval.arms.Arms`. The first level is the product's own."""

    name: str
    levels: Mapping[str, Mapping[str, bool]]


@dataclass(frozen=True)
class Arm:
    """One way to retrieve. ``levels`` maps factors to levels; empty for an arm outside the factorial, such as a control."""

    name: str
    levels: Mapping[str, str]
    switches: Mapping[str, bool]


CONTROLS: Mapping[str, Mapping[str, bool]] = {
    "none": {"uniform": True, "moves": False},
    "shuffled": {"shuffle": True},
}
"""Arms known by name: no retrieval at all, and the right number of wrong passages."""


def combinations(factors: Sequence[Factor], half: bool = False) -> list[Arm]:
    """Every combination of levels once, the product's own first; with ``half`` the half of them whose defining contrast is the
    product of all factors.

    That is the half with the highest resolution there is: the number of factors. Needs two levels of every factor. Raises
    :class:`retrieval.errors.ArmsError` for a combination that leaves nothing to rank by.
    """
    cells = list(itertools.product(*(list(f.levels) for f in factors)))
    if half:
        first = [next(iter(f.levels)) for f in factors]
        cells = [c for c in cells if sum(level != top for level, top in zip(c, first, strict=True)) % 2 == 0]
    out = []
    for cell in cells:
        levels = {f.name: level for f, level in zip(factors, cell, strict=True)}
        switches: dict[str, bool] = {}
        for f in factors:
            switches |= f.levels[levels[f.name]]
        Arms(**switches)
        out.append(Arm(",".join(f"{k}={v}" for k, v in levels.items()), levels, switches))
    return out


def order(arms: Sequence[Arm], seed: int, spec: str, block_seed: int) -> list[Arm]:
    """The arms in the order in which a block runs them: random, and the same for the same seed and block, so that a resumed block goes on
    as it began."""
    shuffled = list(arms)
    random.Random(f"{seed}/{spec}/{block_seed}").shuffle(shuffled)
    return shuffled
