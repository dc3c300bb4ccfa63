"""The analysis finds planted effects, and says where it cannot tell."""

from __future__ import annotations

import math

import numpy as np
import pytest

from retrieval.ablation.analysis import Analysis, analyse, tidy, tidy_curves
from retrieval.ablation.plan import Plan, parse
from retrieval.ablation.records import Record

PLANTED = {"structure": 0.5, "moves": 0.2, "diversity": 0.0, "lexical": -0.1}
TOGETHER = 0.3  # structure × moves


def plan(half: bool = False, seeds: int = 1) -> Plan:
    data = {
        "factors": {name: [True, False] for name in PLANTED}, "arms": ["none", "shuffled"], "specs": ["x"], "evaluations": 2,
        "seeds": seeds, "fraction": "half" if half else "full",
    }  # fmt: skip
    return parse(data, "plan.yaml", "plan")


def simulated(plan: Plan, specs: int, noise: float = 0.05, between: float = 0.3, weak: int = -1) -> list[Record]:
    rng = np.random.default_rng(1)
    out = []
    for s in range(specs):
        base = 2 + between * rng.normal()
        for seed in plan.seeds:
            for n, arm in enumerate(plan.arms):
                sign = {f: 0.5 if arm.switches.get(f, True) else -0.5 for f in PLANTED}
                y = base + noise * rng.normal() + TOGETHER * sign["structure"] * sign["moves"]
                y += sum(size * sign[f] for f, size in PLANTED.items()) if arm.levels else -1.0
                best = math.exp(max(y, 0.0))
                out.append(Record(f"s{s}", seed, arm.name, n, "j", best, (1.0, best), 2, 2, 1.0, "r", s == weak))
    return out


def effect(found: Analysis, name: str) -> tuple[float, float, float]:
    e = next(e for e in found.effects if e.name == name)
    assert e.low is not None
    assert e.high is not None
    return e.estimate, e.low, e.high


@pytest.mark.parametrize("seeds", [1, 2])
def test_planted_effects_are_found(seeds: int) -> None:
    chosen = plan(seeds=seeds)
    found = analyse(chosen, simulated(chosen, 10))
    assert {e.method for e in found.effects if e.kind != "control"} == {"model"}
    for name, size in (PLANTED | {"structure × moves": TOGETHER}).items():
        estimate, low, high = effect(found, name)
        assert estimate == pytest.approx(size, abs=0.06)
        assert high - low < 0.2
    assert effect(found, "structure")[1] > 0
    assert effect(found, "product over none")[1] > 0
    assert (found.blocks, found.specs) == (10 * seeds, 10)


def test_half_fraction_finds_main_effects_and_names_what_is_confounded() -> None:
    chosen = plan(half=True)
    found = analyse(chosen, simulated(chosen, 10))
    for name, size in PLANTED.items():
        assert effect(found, name)[0] == pytest.approx(size, abs=0.06)
    assert any("diversity × lexical from structure × moves" in note for note in found.notes)
    assert len([e for e in found.effects if e.kind == "interaction"]) == 3


@pytest.mark.parametrize(
    ("specs", "between", "says"), [(2, 0.3, "at least 3 specs"), (6, 0.0, "singular"), (1, 0.3, "one block")]
)
def test_where_there_is_no_model_it_is_said_and_the_bootstrap_takes_its_place(
    specs: int, between: float, says: str
) -> None:
    found = analyse(plan(), simulated(plan(), specs, between=between))
    assert any(says in note for note in found.notes), found.notes
    assert {e.method for e in found.effects} == {"bootstrap"}
    assert all((e.low is None) == (specs == 1) for e in found.effects)


def test_equal_outcomes_have_no_effect() -> None:
    records = [Record(f"s{s}", 0, a.name, 0, "j") for s in range(4) for a in plan().arms]
    found = analyse(plan(), records)
    assert all(abs(e.estimate) < 1e-12 for e in found.effects)
    assert any("all outcomes are equal" in n for n in found.notes)


def test_incomplete_and_weak_blocks_are_left_out_and_counted() -> None:
    records = simulated(plan(), 5, weak=4)
    found = analyse(plan(), records[1:])
    assert (found.blocks, found.left_out) == (3, 2)
    assert any("2 of 5 blocks" in n for n in found.notes)
    assert analyse(plan(), records[:3]).effects == ()


def test_a_factor_of_three_levels_is_compared_with_its_first() -> None:
    chosen = parse(
        {
            "factors": {"r": {"both": {}, "words": {"dense": False}, "meaning": {"lexical": False}}},
            "specs": ["x"],
            "evaluations": 1,
        },
        "p",
        "p",
    )
    size = dict(zip((a.name for a in chosen.arms), (0.6, 0.4, 0.1), strict=True))
    records = [Record(f"s{s}", 0, a, 0, "j", math.exp(y + s / 10), (1.0,)) for s in range(5) for a, y in size.items()]
    found = {e.name: e.estimate for e in analyse(chosen, records).effects}
    assert found == {"r: both over words": pytest.approx(0.2), "r: both over meaning": pytest.approx(0.5)}


def test_tidy_tables_have_a_row_per_run_and_per_evaluation() -> None:
    records = [*simulated(plan(), 2), Record("s9", 0, "none", 0, "j", error="no luck")]
    runs, steps = tidy(plan(), records), tidy_curves(records)
    assert len(runs) == 2 * len(plan().arms)
    assert set(runs["factor_structure"]) == {"on", "off", ""}
    assert len(steps) == 2 * len(runs)
