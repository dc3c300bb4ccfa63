"""The search's parts, each on graphs small enough to see: π, node memory, τ, the plan, and the dealing of draws."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.errors import SettingsError
from agent.proposers.base import Judged
from agent.search.fitness import may_win, rank, wins
from agent.search.ids import candidate_id, new_run_id, seed_of
from agent.search.memory import MEMORIES, partner
from agent.search.plan import choose, deal, plan
from agent.search.policies import POLICIES
from agent.search.reflection import reflect
from agent.search.termination import ended
from agent.search.verdict import message
from agent.search.view import SearchGraph
from agent.settings import RunSettings
from evaluators.candidate import Candidate
from evaluators.verdict import Evaluation, Roofline
from knowledge.runs.records import Proposal, Share, Step
from knowledge.runs.store import RunStore
from tests.graph.toy import SPEC, TARGET, evaluation

SETTINGS = RunSettings()
NEAR = Roofline(1, 1, 1.0, "memory", 0.97, 1.0, 1.0)


def agrees(node: Judged) -> Evaluation:
    """A fresh measurement that comes out as the first one did."""
    return node.evaluation


class Grown:
    """A graph grown by hand: one candidate per step."""

    def __init__(self, folder: Path) -> None:
        self.store = RunStore(f"sqlite:///{folder / 'store.db'}", str(folder / "objects"))
        self.store.create_run("r", SPEC, TARGET, {})
        self.step = 0

    def add(self, speed: float, *parents: str, status: str = "correct", phase: str = "draft", **more: object) -> str:
        i = candidate_id("r", self.step, 0)
        self.store.add_step(Step("r", self.step, phase, parents, (), "unknown", (Share("builtin", (0,)),), "why"))
        self.store.add_proposal(
            Proposal("r", self.step, 0, "builtin", 1, 1, 0, "", 0.0),
            [Candidate(i, "cpp", f"# {i}", "builtin", parents, self.step, phase, note="BLOCK 64 to 128")],
        )
        self.store.add_evaluation("r", evaluation(i, speed, status, **more))  # type: ignore[arg-type]
        self.step += 1
        return i

    def dry(self, phase: str, *parents: str, error: str = "") -> None:
        self.store.add_step(Step("r", self.step, phase, parents, (), "unknown", (Share("builtin", (0,)),), "why"))
        self.store.add_proposal(Proposal("r", self.step, 0, "builtin", 1, 0, 0, error, 0.0), [])
        self.step += 1

    @property
    def graph(self) -> SearchGraph:
        return SearchGraph(self.store, "r")

    def next(self, settings: RunSettings = SETTINGS) -> tuple[str, tuple[str, ...]] | None:
        step = plan(self.graph, settings, "r", self.step)
        return (step.phase, step.parents) if step else None


@pytest.fixture
def grown(tmp_path: Path) -> Grown:
    return Grown(tmp_path)


def test_greedy_takes_the_best_and_beam_advances_its_best_in_turn(grown: Grown) -> None:
    a, b, c = grown.add(1.0), grown.add(1.2), grown.add(1.1)
    ranked = grown.graph.ranked()
    assert POLICIES["greedy"](grown.graph, ranked, 2, Random(0)).candidate.id == b
    picked = []
    for speed in (0.5, 0.4, 0.3, 0.2):
        node = POLICIES["beam"](grown.graph, grown.graph.ranked(), 2, Random(0))
        picked.append(node.candidate.id)
        grown.add(speed, node.candidate.id)
    assert picked == [b, c, b, c]
    assert a not in picked


def test_memory_modes_show_what_they_say(grown: Grown) -> None:
    a, b = grown.add(1.0), grown.add(1.5)
    child = grown.add(0.9, a)
    better = grown.add(1.2, a)
    graph = grown.graph
    seen = {mode: see(graph, graph.nodes[a]) for mode, see in MEMORIES.items()}
    assert seen == {
        "inherit": ((a,), ()),
        "siblings": ((a,), (better, child)),
        "combine": ((a, b), (better, child)),
        "clean": ((), ()),
    }
    found = partner(graph, graph.nodes[better])
    assert found is not None
    assert found.candidate.id == b  # neither its ancestor a nor itself


def test_a_broken_step_leads_to_bounded_repairs_then_back_to_the_best(grown: Grown) -> None:
    good = grown.add(1.3)
    broken = grown.add(0, good, status="compile_error", phase="improve")
    assert grown.next() == ("debug", (broken,))
    again = grown.add(0, broken, status="mismatch", phase="debug")
    assert grown.next() == ("debug", (again,))
    grown.add(0, again, status="crash", phase="debug")
    assert grown.next() == ("improve", (good,))


@pytest.mark.parametrize("status", ["tampering", "infrastructure"])
def test_what_a_repair_cannot_cure_is_not_repaired(grown: Grown, status: str) -> None:
    grown.add(0, status=status)
    assert grown.next() == ("draft", ())


def test_a_stalled_search_crosses_over_and_drafts_afresh(grown: Grown) -> None:
    best, other = grown.add(1.5), grown.add(1.2)
    phases = []
    for _ in range(8):
        planned = grown.next(RunSettings(patience=3))
        assert planned is not None
        phases.append(planned[0])
        grown.add(0.8, *planned[1], phase=planned[0])
    assert phases == ["improve", "improve", "crossover", "improve", "draft", "improve", "crossover", "improve"]
    assert ("crossover", (best, other)) in [(s.phase, s.parents) for s in grown.graph.steps]


def test_spent_moves_are_not_made_again_until_nothing_is_left(grown: Grown) -> None:
    best, other = grown.add(1.5), grown.add(1.2)
    grown.dry("improve", best)
    assert grown.next() == ("improve", (other,))
    grown.dry("improve", other)
    assert grown.next() == ("draft", ())
    grown.dry("draft")
    assert grown.next() is None


def test_a_failed_proposal_is_no_proof_that_there_is_nothing_new(grown: Grown) -> None:
    best = grown.add(1.5)
    grown.dry("improve", best, error="TimeoutError: endpoint")
    assert grown.next() == ("improve", (best,))
    grown.dry("improve", best, error="TimeoutError: endpoint")
    grown.dry("improve", best, error="TimeoutError: endpoint")
    assert "TimeoutError: endpoint" in ended(grown.graph, SETTINGS, 0.0, confirm=agrees)


def test_clean_memory_only_drafts(grown: Grown) -> None:
    grown.add(1.5)
    assert choose(grown.graph, RunSettings(memory="clean"), 1, "builtin") is not None
    assert grown.next(RunSettings(memory="clean")) == ("draft", ())


def test_each_end_has_its_reason(grown: Grown) -> None:
    assert ended(grown.graph, SETTINGS, 0.0, confirm=agrees) == ""
    grown.add(1.5, roofline=NEAR)
    grown.add(1.4)
    grown.add(1.3)
    cases = {
        "budget of 3 evaluations": RunSettings(evaluations=3, roofline=None),
        "budget of 5 seconds": RunSettings(seconds=5, roofline=None),
        "budget of 10 tokens": RunSettings(tokens=10, roofline=None),
        "budget of 0.5 dollars": RunSettings(dollars=0.5, roofline=None),
        "no new best in 2": RunSettings(stagnation=2, roofline=None),
        "reached the goal of 1.5": RunSettings(fitness=1.5),
        "97% of the roofline": RunSettings(),
    }
    for reason, settings in cases.items():
        assert reason in ended(grown.graph, settings, 6.0, tokens=10, dollars=0.5, confirm=agrees)
    assert ended(grown.graph, RunSettings(roofline=None), 6.0, 10, 0.5, confirm=agrees) == ""
    for _ in range(3):
        grown.add(0, status="infrastructure")
    assert "the judge could not work 3 times" in ended(grown.graph, RunSettings(roofline=None), 0.0, confirm=agrees)


def test_a_goal_is_reached_only_where_a_fresh_measurement_agrees(grown: Grown) -> None:
    """A first measurement at 99% of the roofline, or at the wanted speedup, may be luck."""
    asked: list[str] = []

    def confirms(speed: float, share: float) -> Callable[[Judged], Evaluation]:
        def confirm(node: Judged) -> Evaluation:
            asked.append(node.candidate.id)
            return evaluation(node.candidate.id, speed, roofline=replace(NEAR, fraction=share))

        return confirm

    lucky = grown.add(2.0, roofline=replace(NEAR, fraction=0.99))
    settings = RunSettings(fitness=2.0)
    assert ended(grown.graph, settings, 0.0, confirm=confirms(1.01, 0.27)) == ""
    assert "at 96% of the roofline" in ended(grown.graph, settings, 0.0, confirm=confirms(1.9, 0.96))
    assert "fitness 2.10" in ended(grown.graph, settings, 0.0, confirm=confirms(2.1, 0.5))
    assert asked == [lucky] * 3


def test_more_than_the_roofline_ends_no_search(grown: Grown) -> None:
    """It says that the bandwidth was measured too low, not that the kernel is as fast as can be."""
    grown.add(1.5, roofline=replace(NEAR, fraction=1.4))
    assert ended(grown.graph, SETTINGS, 0.0, confirm=agrees) == ""


def test_a_search_far_from_its_goals_confirms_nothing(grown: Grown) -> None:
    grown.add(1.5, roofline=replace(NEAR, fraction=0.5))

    def never(node: Judged) -> Evaluation:
        raise AssertionError(node)

    assert ended(grown.graph, SETTINGS, 0.0, confirm=never) == ""


def test_where_nothing_is_timed_fewer_spilled_registers_rank_higher() -> None:
    lean, spilling = (
        replace(evaluation("c", 1.0, "checked"), resources={"kernels": [{"spills": 0}, {"spills": n}]}) for n in (0, 4)
    )
    assert rank(spilling) < rank(lean)


def test_on_a_weak_spec_no_speed_counts_and_the_faster_one_still_ranks_higher() -> None:
    """The search goes on towards the faster one; whether it is a gain is not asked."""
    slow, fast = (
        replace(evaluation("c", ratio), fitness=0.0, resources={"weak_spec": ["zeros pass"]}) for ratio in (2.0, 3.0)
    )
    assert rank(slow) < rank(fast) < rank(evaluation("c", 1.1))
    assert not may_win(fast)
    assert not wins(fast)
    assert message("baseline", "c", replace(fast, message="no credit: weak spec (zeros pass); more")).endswith(
        "but no credit: weak spec (zeros pass)"
    )
    slower = replace(evaluation("c", 0.5), fitness=0.0, resources={"weak_spec": ["zeros pass"]})
    assert "no speed-up would count: weak spec (zeros pass)" in message("baseline", "c", slower)


def test_a_reflection_states_change_and_cause(grown: Grown) -> None:
    a = grown.add(1.0)
    grown.add(1.25, a, phase="improve", diagnosis="memory_bound")
    grown.add(0, a, phase="improve", status="mismatch")
    texts = [reflect(grown.graph, s, []) for s in grown.graph.steps]
    assert texts[1] == "r.1.0 BLOCK 64 to 128: 1.25x, +25.0% against r.0.0 at 1.00x; memory_bound"
    assert texts[2] == "r.2.0 BLOCK 64 to 128: mismatch: mismatch here"


names = st.lists(st.sampled_from(["builtin", "llm", "manual"]), min_size=1, unique=True)


@given(names, st.integers(0, 12), st.sets(st.sampled_from(["llm", "manual"])), st.integers(0, 3))
def test_every_draw_is_dealt_once(proposers: list[str], count: int, independent: set[str], first: int) -> None:
    shares = deal(proposers, count, independent, first)
    assert sorted(d for s in shares for d in s.draws) == list(range(first, first + count))
    assert all(s.draws for s in shares)
    assert all(len(s.draws) == 1 for s in shares if s.proposer in independent)


@given(st.text(max_size=60))
def test_run_ids_are_safe_names_and_seeds_repeat(name: str) -> None:
    run_id = new_run_id(name)
    assert run_id.replace("-", "").isalnum()
    assert run_id.isascii()
    assert seed_of(7, 3, 1) == seed_of(7, 3, 1) != seed_of(7, 3, 2)
    assert 0 <= seed_of(7, 3, 1) < 2**31


@pytest.mark.parametrize(
    ("values", "field"),
    [
        ({"evaluations": 0}, "evaluations"),
        ({"seconds": -1}, "seconds"),
        ({"roofline": 1.5}, "roofline"),
        ({"policy": "hope"}, "policy"),
        ({"memory": "total"}, "memory"),
        ({"proposers": []}, "proposers"),
        ({"proposers": ["llm", "llm"]}, "proposers"),
        ({"start_from": "x"}, "start_language"),
        ({"budget": 3}, "budget"),
        ({"evaluations": "many"}, "settings"),
    ],
)
def test_a_wrong_setting_is_named(values: dict[str, object], field: str) -> None:
    with pytest.raises(SettingsError, match=f"setting {field}: .* should be|unknown setting '{field}'"):
        RunSettings.from_dict(values)


def test_settings_survive_their_dict() -> None:
    settings = RunSettings(evaluations=5, languages=("cpp",), arms={"dense": False}, proposers=("builtin", "llm"))
    assert RunSettings.from_dict(settings.to_dict()) == settings
