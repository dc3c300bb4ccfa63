"""Whole runs of the state machine on a toy problem: routing, fan-out, budgets, confirmation, stopping and resuming."""

from __future__ import annotations

import os
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock

from agent import events
from agent.errors import NothingToPropose, RunBusyError, RunInterrupted, RunStalled
from agent.report import load
from agent.result import RunResult
from agent.run import optimize, resume
from agent.settings import RunSettings
from evaluators.candidate import Candidate
from evaluators.verdict import Evaluation
from knowledge.errors import RunNotFound
from knowledge.runs.store import RunStore
from tests.graph.toy import SPEC, TARGET, ToyJudge, ToyProposer, ToyRetriever, facts


class Prompt:
    """A synthesized prompt."""

    text, chunk_ids, cut, tokens = "Write a kernel.", ("chunk-1",), (), 4


class World:
    """A data folder with the toy parts."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.store = RunStore(f"sqlite:///{folder / 'store.db'}", str(folder / "objects"))
        self.judge = ToyJudge()
        self.proposers: dict[str, Any] = {"builtin": ToyProposer()}
        self.retriever = ToyRetriever()
        self.events: list[events.Event] = []
        self.synthesize: Any = lambda context, budget: Prompt

    def parts(self) -> dict[str, Any]:
        return {
            "proposers": self.proposers,
            "retriever": self.retriever,
            "judge_factory": self.judge.factory,
            "synthesize": self.synthesize,
            "store": self.store,
            "on_event": self.events.append,
        }

    def run(self, **settings: Any) -> RunResult:
        chosen = RunSettings(home=str(self.folder), **settings)
        return optimize(SPEC, TARGET, chosen, facts=facts, run_id="toy-1", **self.parts())

    def resume(self) -> RunResult:
        return resume("toy-1", **self.parts())

    def told(self, kind: type) -> list[Any]:
        return [e for e in self.events if isinstance(e, kind)]


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_a_run_spends_its_budget_once_and_reports_the_confirmed_winner(world: World) -> None:
    result = world.run(evaluations=12, stagnation=None)
    assert (result.recommendation, result.reason) == ("kernel", "budget of 12 evaluations spent")
    assert len(world.judge.judged) == len(set(world.judge.judged)) == len(result.evaluations) == 12
    best = max(result.evaluations, key=lambda e: e.fitness)
    assert result.best is not None
    assert result.confirmed is not None
    assert result.confirmed.timing is not None
    assert result.best.id == best.candidate_id == world.judge.confirmed[0]
    assert result.confirmed.timing.fresh_process
    assert "1.9" in result.message
    assert world.store.candidate(result.best.id).chunk_ids == ("chunk-1",)
    steps = world.store.steps("toy-1")
    assert [s.phase for s in steps[:2]] == ["draft", "improve"]
    assert all(s.overhead_seconds is not None and s.reflection for s in steps)
    order = [type(e).__name__ for e in world.events]
    assert (order[:2], order[-1]) == (["Preparing", "RunStarted"], "RunFinished")
    assert order.count("CandidateJudged") == order.count("CandidateProposed") == 12


def test_equal_settings_give_equal_searches(tmp_path: Path) -> None:
    sources = []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        world = World(tmp_path / name)
        world.run(evaluations=8, seed=3)
        sources.append([c.source for c in world.store.candidates(world.store.candidate_ids("toy-1"))])
    assert sources[0] == sources[1]


def test_the_diagnosis_of_the_last_verdict_drives_the_next_retrieval(world: World) -> None:
    world.proposers["builtin"].broken_drafts = True
    world.run(evaluations=4, drafts=1)
    asked = [(q.phase, q.diagnosis) for q in world.retriever.queries]
    assert asked == [
        ("draft", "unknown"),
        ("debug", "compile_error"),
        ("improve", "memory_bound"),
        ("improve", "memory_bound"),
    ]
    assert "compile_error here" in world.retriever.queries[1].text


def test_drafts_fan_out_over_proposers_and_independent_ones_branch_per_draw(world: World) -> None:
    world.proposers = {"builtin": ToyProposer(), "llm": ToyProposer("llm", independent=True)}
    world.run(evaluations=6, drafts=6, proposers=("builtin", "llm"))
    made = [(p.proposer, p.draw, p.made) for p in world.store.proposals("toy-1") if p.step == 0]
    assert made == [("builtin", 0, 3), ("llm", 1, 1), ("llm", 3, 1), ("llm", 5, 1)]
    assert [c.ids for c in world.proposers["builtin"].calls] == [("toy-1.0.0", "toy-1.0.2", "toy-1.0.4")]


def test_one_branch_may_fail_without_the_others(world: World) -> None:
    class Failing(ToyProposer):
        def propose(self, context: Any, n: int) -> list[Candidate]:
            raise RuntimeError("no endpoint\nat all")

    world.proposers = {"builtin": ToyProposer(), "llm": Failing("llm", independent=True)}
    result = world.run(evaluations=6, proposers=("builtin", "llm"))
    assert len(result.evaluations) == 6
    assert {e.message for e in world.told(events.ProposerFailed)} == {
        "a fault inside (RuntimeError: no endpoint at all); KERNELEVOLVE_DEBUG=1 shows the traceback"
    }
    assert "llm failed: a fault inside (RuntimeError: no endpoint at all)" in str(
        world.store.steps("toy-1")[0].reflection
    )


class Hopeless(ToyProposer):
    """Can do nothing for this spec."""

    def propose(self, context: Any, n: int) -> list[Candidate]:
        self.calls.append(context)
        raise NothingToPropose("sort is left to PyTorch: there is nothing to generate")


def test_a_run_with_nothing_to_generate_ends_at_once_and_says_why(world: World) -> None:
    world.proposers = {"builtin": Hopeless()}
    result = world.run(evaluations=6)
    assert [len(c.ids) for c in world.proposers["builtin"].calls] == [4]
    why = "sort is left to PyTorch: there is nothing to generate"
    assert [e.message for e in world.told(events.ProposerFailed)] == [why]
    assert (result.recommendation, result.reason) == ("baseline", why)
    assert result.message == f"keep the PyTorch baseline: {why}" == world.told(events.RunFinished)[0].message
    assert load("toy-1", world.store).sentence == f"Keep PyTorch: {why}."
    assert world.judge.judged == []


def test_a_proposer_with_nothing_to_do_leaves_the_run_to_the_others(world: World) -> None:
    world.proposers = {"builtin": Hopeless(), "llm": ToyProposer("llm")}
    result = world.run(evaluations=6, proposers=("builtin", "llm"))
    assert len(result.evaluations) == 6
    assert len(world.proposers["builtin"].calls) == 1


def test_a_fault_inside_a_proposer_is_raised_for_who_debugs(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    class Failing(ToyProposer):
        def propose(self, context: Any, n: int) -> list[Candidate]:
            raise KeyError("oops")

    world.proposers = {"builtin": Failing()}
    monkeypatch.setenv("KERNELEVOLVE_DEBUG", "1")
    with pytest.raises(KeyError):
        world.run(evaluations=6)


def test_prompts_are_synthesized_for_proposers_that_read_them(world: World) -> None:
    world.proposers = {"llm": ToyProposer("llm")}
    world.run(evaluations=5, proposers=("llm",))
    assert {c.prompt for c in world.proposers["llm"].calls} == {"Write a kernel."}
    assert world.store.steps("toy-1")[0].prompt == {"tokens": 4, "chunk_ids": ["chunk-1"], "cut": []}


def test_a_proposer_that_runs_dry_ends_the_run(world: World) -> None:
    world.proposers["builtin"].limit = 5
    result = world.run(evaluations=24)
    assert result.reason == "no proposer has anything new to try"
    assert len(result.evaluations) == 5


def test_repeated_sources_are_not_judged_again(world: World) -> None:
    class Stubborn(ToyProposer):
        def propose(self, context: Any, n: int) -> list[Candidate]:
            return [Candidate(i, "cpp", "# x = 3", self.name) for i in context.ids]

    world.proposers["builtin"] = Stubborn()
    result = world.run(evaluations=24, drafts=4)
    assert len(result.evaluations) == 1
    assert world.store.proposals("toy-1")[0].repeats >= 3


def test_a_deterministic_proposer_is_asked_again_where_its_plan_came_to_an_old_source(world: World) -> None:
    class Aliasing(ToyProposer):
        """Enumerates plans, every other of which renders to the same source; skips the plans it has seen."""

        def propose(self, context: Any, n: int) -> list[Candidate]:
            tried = {j.candidate.knobs["plan"] for j in context.seen}
            plans = [p for p in range(12) if p not in tried][:n]
            made = zip(context.ids, plans, strict=False)
            return [Candidate(i, "cpp", f"# x = {p // 2}", self.name, knobs={"plan": p}) for i, p in made]

    world.proposers["builtin"] = Aliasing()
    result = world.run(evaluations=24, drafts=4, stagnation=None)
    made = world.store.candidates(world.store.candidate_ids("toy-1"))
    assert sorted(c.source for c in made) == [f"# x = {i}" for i in range(6)]
    assert result.reason == "no proposer has anything new to try"


def test_luck_does_not_survive_confirmation(world: World) -> None:
    """Where every fast measurement was noise, three candidates are tried again and the run recommends the baseline."""
    world.proposers["builtin"] = ToyProposer()
    world.judge.luck = 5.0
    original = world.judge._verdict
    world.judge._verdict = lambda c, luck: original(  # type: ignore[method-assign]
        Candidate(c.id, c.language, "# x = 9", c.proposer), luck
    )
    result = world.run(evaluations=6)
    assert result.recommendation == "baseline"
    assert len(world.judge.confirmed) == 3
    assert "keep the PyTorch baseline" in result.message
    assert "is no gain" in result.message


def test_an_interval_too_wide_to_tell_recommends_nothing(world: World) -> None:
    """However large the ratio: a figure between 1.1 and 4 is none. The run, its record and its page say the same."""
    original = world.judge.confirm

    def noisy(candidate: Candidate) -> Evaluation:
        found = original(candidate)
        assert found.timing is not None
        return replace(found, timing=replace(found.timing, low=1.1, high=4.0))

    world.judge.confirm = noisy  # type: ignore[method-assign]
    result = world.run(evaluations=6, fitness=1.2)
    assert result.recommendation == "inconclusive"
    assert "the machine was too noisy to tell" in result.message
    assert "run again when it is idle" in result.message
    assert len(result.evaluations) == 6, "a goal is not reached by a figure that says nothing"
    assert result.confirmed is not None
    assert world.store.list_runs()[0].recommendation == "inconclusive"
    page = load("toy-1", world.store)
    assert page.recommendation == "inconclusive"
    assert page.sentence.startswith("Keep PyTorch: the machine was too noisy to tell")


@pytest.mark.parametrize(
    ("status", "words"), [("checked", "nothing was timed"), ("mismatch", "no candidate was correct")]
)
def test_without_a_timed_gain_the_baseline_is_recommended_plainly(world: World, status: Any, words: str) -> None:
    world.judge.status = status
    result = world.run(evaluations=5)
    assert result.recommendation == {"checked": "untimed", "mismatch": "baseline"}[status]
    assert world.store.list_runs()[0].recommendation == result.recommendation
    assert words in result.message
    assert (result.best is not None) == (status == "checked")
    assert world.judge.confirmed == []


def test_a_given_kernel_is_judged_first_and_improved(world: World) -> None:
    result = world.run(evaluations=5, drafts=1, start_from="# x = 2.9", start_language="cpp")
    assert result.evaluations[0].candidate_id == "toy-1.0.0"
    assert world.store.candidate("toy-1.0.0").proposer == "given"
    assert world.store.candidate("toy-1.1.0").parents == ("toy-1.0.0",)


def test_a_given_kernel_may_take_the_whole_budget(world: World) -> None:
    """Nothing is left to draw, but the kernel is judged, confirmed and the run ends."""
    result = world.run(evaluations=1, start_from="# x = 2.9", start_language="cpp")
    assert [e.candidate_id for e in result.evaluations] == ["toy-1.0.0"]
    assert (result.recommendation, result.reason) == ("kernel", "budget of 1 evaluation spent")
    assert world.store.get_run("toy-1").status == "finished"
    assert world.store.proposals("toy-1") == []


def test_a_given_kernel_that_is_refused_ends_a_budget_of_one_with_its_reason(world: World) -> None:
    world.judge.status = "source_rejected"
    result = world.run(evaluations=1, start_from="# x = 2.9", start_language="cpp")
    assert world.store.get_run("toy-1").status == "finished"
    assert result.best is None
    assert "source rejected: source_rejected here" in load("toy-1", world.store).sentence


def test_a_state_machine_that_halts_is_an_error_and_can_be_resumed(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever lets it run dry must not leave a run that is "running" for ever."""
    with monkeypatch.context() as patch:
        patch.setattr("agent.steps.terminate", lambda runtime, reason: {"ended": reason})
        with pytest.raises(RunStalled, match="kernelevolve resume toy-1"):
            world.run(evaluations=2)
    assert world.store.get_run("toy-1").status == "failed"
    assert world.resume().reason == "budget of 2 evaluations spent"


def test_a_goal_is_confirmed_before_the_search_ends_there(world: World) -> None:
    """Luck while searching reaches the goal at once; only a kernel that reaches it in fresh processes ends the run."""
    world.judge.luck = 5.0
    result = world.run(evaluations=40, stagnation=None, drafts=1, fitness=1.97)
    *missed, last = (world.store.evaluation(i, "confirm") for i in world.judge.confirmed)
    assert last is not None
    assert result.reason == f"fitness {last.fitness:.2f} reached the goal of 1.97"
    assert last.fitness >= 1.97
    assert missed
    assert all(e is not None and e.fitness < 1.97 for e in missed)
    assert len(world.judge.confirmed) == len(set(world.judge.confirmed))
    assert result.confirmed == last


def test_infrastructure_trouble_is_retried_and_ends_the_run_when_it_stays(world: World) -> None:
    world.judge.status = "infrastructure"
    result = world.run(evaluations=24, drafts=3)
    assert "the judge could not work 3 times in a row" in result.reason
    assert len(world.judge.judged) == 6


def test_a_warm_start_shows_drafts_the_winners_of_earlier_runs(world: World) -> None:
    first = world.run(evaluations=4)
    second = optimize(
        SPEC, TARGET, RunSettings(evaluations=4, warm_start=2, seed=9, home=str(world.folder)), facts=facts, run_id="toy-2",
        **world.parts(),
    )  # fmt: skip
    assert first.best is not None
    assert world.store.steps("toy-2")[0].siblings == (first.best.id,)
    assert second.recommendation == "kernel"


def test_seconds_are_counted_between_candidates(world: World) -> None:
    world.judge.pause = 0.05
    result = world.run(evaluations=1000, stagnation=None, seconds=0.3)
    assert result.reason == "budget of 0.3 seconds spent"
    assert 0 < len(result.evaluations) < 30


class Raising(ToyJudge):
    """Raises at the n-th evaluation, once."""

    def __init__(self, at: int, error: BaseException | None) -> None:
        super().__init__()
        self.at, self.error = at, error

    def evaluate(self, candidate: Candidate) -> Evaluation:
        if len(self.judged) == self.at:
            self.at = -1
            if self.error is None:
                os.kill(os.getpid(), signal.SIGINT)
            else:
                raise self.error
        return super().evaluate(candidate)


@pytest.mark.parametrize("error", [None, KeyboardInterrupt(), ValueError("a bug")])
@pytest.mark.parametrize("at", [0, 2, 6])
def test_a_run_that_was_stopped_goes_on_as_if_it_had_not(tmp_path: Path, at: int, error: BaseException | None) -> None:
    results = []
    for name, judge in (("whole", ToyJudge()), ("stopped", Raising(at, error))):
        (tmp_path / name).mkdir()
        world = World(tmp_path / name)
        world.judge = judge
        if name == "whole":
            result = world.run(evaluations=9)
        else:
            with pytest.raises((RunInterrupted, ValueError), match=r"a bug|kernelevolve resume toy-1"):
                world.run(evaluations=9)
            assert world.store.get_run("toy-1").status == ("failed" if isinstance(error, ValueError) else "interrupted")
            result = world.resume()
        assert len(world.judge.judged) == len(set(world.judge.judged)) == 9
        results.append([(e.candidate_id, e.fitness) for e in result.evaluations])
    assert results[0] == results[1]


@pytest.mark.parametrize("hard", [False, True])
def test_stopping_while_branches_propose_keeps_what_they_made(world: World, hard: bool) -> None:
    class Stopped(ToyProposer):
        def propose(self, context: Any, n: int) -> list[Candidate]:
            if context.ids[0] == "toy-1.0.1" and not self.calls:
                self.calls.append(context)
                if hard:
                    raise KeyboardInterrupt
                os.kill(os.getpid(), signal.SIGINT)
            return super().propose(context, n)

    world.proposers = {"builtin": ToyProposer(), "llm": Stopped("llm", independent=True)}
    try:
        result = world.run(evaluations=6, drafts=6, proposers=("builtin", "llm"))
    except RunInterrupted:
        result = world.resume()
    assert sorted(p.draw for p in world.store.proposals("toy-1") if p.step == 0) == [0, 1, 3, 5]
    assert len(world.judge.judged) == len(set(world.judge.judged)) == len(result.evaluations) == 6
    assert len(world.proposers["builtin"].calls) == 1


def test_a_lost_checkpoint_costs_nothing_because_the_store_knows(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.judge = Raising(6, KeyboardInterrupt())
    with pytest.raises(RunInterrupted):
        world.run(evaluations=9)
    for file in (tmp_path / "runs" / "toy-1").glob("checkpoint.db*"):
        file.unlink()
    result = world.resume()
    assert len(world.judge.judged) == len(set(world.judge.judged)) == len(result.evaluations) == 9
    assert len({c.ids for c in world.proposers["builtin"].calls}) == len(world.proposers["builtin"].calls)


def test_resuming_a_finished_run_gives_its_result_and_does_nothing(world: World) -> None:
    first = world.run(evaluations=4)
    judged = list(world.judge.judged)
    assert world.resume() == first
    assert world.judge.judged == judged
    with pytest.raises(RunNotFound):
        resume("nothing", **world.parts())


def test_two_processes_never_work_on_one_run(world: World) -> None:
    world.judge = Raising(2, KeyboardInterrupt())
    with pytest.raises(RunInterrupted):
        world.run(evaluations=4)
    with FileLock(world.folder / "runs" / "toy-1" / "run.lock"), pytest.raises(RunBusyError, match="another process"):
        world.resume()
