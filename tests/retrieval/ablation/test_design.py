"""The factorial design: balanced, every combination once, and main effects of the half fraction orthogonal."""

from __future__ import annotations

import itertools
import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrieval.ablation.design import Factor, combinations, order
from retrieval.ablation.plan import load as load_plan
from retrieval.ablation.plan import shipped
from retrieval.errors import ArmsError


def factors(sizes: list[int]) -> list[Factor]:
    return [Factor(f"f{n}", {f"l{k}": {} for k in range(size)}) for n, size in enumerate(sizes)]


@given(st.lists(st.integers(2, 4), min_size=1, max_size=5))
def test_full_factorial_has_every_combination_once_and_is_balanced(sizes: list[int]) -> None:
    arms = combinations(factors(sizes))
    cells = [tuple(a.levels.values()) for a in arms]
    assert len(set(cells)) == len(cells) == math.prod(sizes)
    assert set(cells[0]) == {"l0"}
    assert len({a.name for a in arms}) == len(arms)
    for n, size in enumerate(sizes):
        assert set(Counter(c[n] for c in cells).values()) == {len(cells) // size}


@given(st.integers(3, 8))
def test_half_fraction_has_the_resolution_of_the_number_of_factors(count: int) -> None:
    """The product of any fewer than all columns sums to zero: no effect of few factors is confounded with the mean, hence main
    effects are orthogonal to each other and to interactions of fewer than count − 1 factors."""
    arms = combinations(factors([2] * count), half=True)
    assert len(arms) == 2 ** (count - 1)
    assert set(arms[0].levels.values()) == {"l0"}
    signs = np.array([[1 if level == "l0" else -1 for level in a.levels.values()] for a in arms])
    for size in range(1, count):
        for chosen in itertools.combinations(range(count), size):
            assert signs[:, chosen].prod(axis=1).sum() == 0
    assert set(signs.prod(axis=1)) == {1}


def test_switches_of_a_cell_are_those_of_its_levels() -> None:
    pair = [
        Factor("structure", {"on": {"structure": True}, "off": {"structure": False}}),
        Factor("x", {"a": {}, "b": {"fusion": False}}),
    ]
    assert combinations(pair)[3].switches == {"structure": False, "fusion": False}


def test_a_cell_that_cannot_retrieve_is_refused() -> None:
    with pytest.raises(ArmsError, match="leave one on"):
        combinations([Factor(n, {"on": {n: True}, "off": {n: False}}) for n in ("dense", "lexical", "structure")])


def test_order_is_random_between_blocks_and_fixed_within_one() -> None:
    arms = combinations(factors([2, 2, 2]))
    one = order(arms, 0, "spec", 0)
    assert sorted(a.name for a in one) == sorted(a.name for a in arms)
    assert one == order(arms, 0, "spec", 0)
    assert len({tuple(a.name for a in order(arms, 0, "spec", s)) for s in range(8)}) > 4
    assert one != order(arms, 1, "spec", 0)


@pytest.mark.parametrize("name", sorted(shipped()))
def test_shipped_plans_are_sound(name: str) -> None:
    assert len(load_plan(name).arms) > 1
