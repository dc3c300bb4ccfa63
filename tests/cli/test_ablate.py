"""`ablate`: results, report and JSON; going on after a stop; one line for everything that cannot be done."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agent.cli import ablate as module
from retrieval.ablation.records import Outcome
from tests.cli.conftest import Command

PLAN = """\
factors:
  structure: [on, off]
  moves: [on, off]
arms: [none, shuffled]
specs: [softmax, layernorm]
evaluations: 3
"""


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    path = tmp_path / "tiny.yaml"
    path.write_text(PLAN)
    return path


def test_results_report_and_json(command: Command, toy: Any, plan: Path, home: Path) -> None:
    shown = command("ablate", plan, "--json")
    assert shown.code == 0, shown.err
    found = shown.json
    assert found["runs"] == 12
    assert (found["blocks"], found["specs"]) == (2, 2)
    assert {e["kind"] for e in found["effects"]} == {"main", "interaction", "control"}
    assert shown.err.count("\n") == 12, "a line for every run"
    folder = home / "ablations" / "tiny"
    for name in ("runs", "curves", "effects"):
        assert (folder / f"{name}.csv").stat().st_size
        assert (folder / f"{name}.parquet").stat().st_size
    page = (folder / "report.html").read_text()
    assert "product over none" in page
    assert "http" not in page.replace("http://www.w3.org/2000/svg", ""), "the page needs nothing from elsewhere"
    again = command("ablate", plan)
    assert again.code == 0
    assert "12 of 12" not in again.out, "nothing is run again"
    assert command("ablate", "--report", "tiny", "--json").json["effects"] == found["effects"]


def test_arms_of_a_block_share_judge_seed_and_budget(
    command: Command, toy: Any, plan: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[str, int, int, Any]] = []

    def search(arm: Any, spec: Any, _target: Any, seed: int, settings: Any, judge: Any) -> Outcome:
        seen.append((spec.name, seed, settings.evaluations, judge))
        return Outcome(1.5, [1.5], 1)

    monkeypatch.setattr(module, "_search", search)
    assert command("ablate", plan, "--quiet").code == 0
    for name in ("softmax", "layernorm"):
        assert len({(seed, evaluations, id(judge)) for spec, seed, evaluations, judge in seen if spec == name}) == 1


def test_interrupted_then_gone_on_with(command: Command, toy: Any, plan: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []

    def search(arm: Any, *_: Any) -> Outcome:
        calls.append(arm.name)
        if len(calls) == 5:
            raise KeyboardInterrupt
        return Outcome(1.5, [1.5], 1)

    monkeypatch.setattr(module, "_search", search)
    stopped = command("ablate", plan, "--quiet")
    assert stopped.code == 5
    assert "interrupted after 4 of 12 runs" in stopped.error
    assert command("ablate", plan, "--quiet").code == 0
    assert len(calls) == 13


def test_a_failed_run_is_told_and_the_others_count(
    command: Command, toy: Any, plan: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []

    def search(arm: Any, *_: Any) -> Outcome:
        calls.append(arm.name)
        if len(calls) == 2:
            raise RuntimeError("no luck")
        return Outcome(1.5, [1.5], 1)

    monkeypatch.setattr(module, "_search", search)
    shown = command("ablate", plan)
    assert shown.code == 1
    assert "RuntimeError: no luck" in shown.out
    assert "1 run failed" in shown.err
    assert "1 of 2 blocks are left out" in shown.out


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (("evaluations: 3", "evaluations: none"), "tiny.yaml: evaluations: 'none' should be a whole number"),
        (("structure", "structur"), "did you mean 'structure'?"),
        (("[softmax, layernorm]", "[softmx]"), "softmax"),
        (("[softmax, layernorm]", "[softmax"), "tiny.yaml: line"),
        (("evaluations: 3", "evaluations: 3\ntarget: abacus"), "abacus"),
        (("evaluations: 3", "evaluations: 3\ntarget: nvidia-b200"), "is not here"),
        (("evaluations: 3", "evaluations: 3\nseeds: [1, x]"), "tiny.yaml: seeds:"),
    ],
)
def test_a_plan_that_cannot_run_is_one_line(command: Command, plan: Path, change: tuple[str, str], says: str) -> None:
    plan.write_text(PLAN.replace(*change))
    shown = command("ablate", plan)
    assert says in shown.error
    assert shown.code == 2
    assert shown.out == ""


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "--report"),
        (["smoke", "--report", "smoke"], "--report"),
        (["smok"], "did you mean 'smoke'?"),
        (["no/such.yaml"], "no such file"),
        (["--report", "nothing"], "there is none yet"),
        (["--report", "../x"], "cannot name"),
        (["smoke", "--name", "a/b"], "cannot name"),
    ],
)
def test_wrong_usage_is_one_line(command: Command, arguments: list[str], says: str) -> None:
    shown = command("ablate", *arguments)
    assert says in shown.error
    assert shown.code == 2


def test_another_plan_of_the_same_name_is_refused(command: Command, toy: Any, plan: Path, home: Path) -> None:
    assert command("ablate", plan, "--quiet").code == 0
    plan.write_text(PLAN.replace("evaluations: 3", "evaluations: 4"))
    assert "--name" in command("ablate", plan).error
    assert json.loads((home / "ablations" / "tiny" / "plan.json").read_text())["plan"]["evaluations"] == 3


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_smoke_plan_end_to_end(command: Command, home: Path) -> None:
    """The real judge, retrieval and proposer: two searches of two evaluations."""
    shown = command("ablate", "smoke", "--json")
    assert shown.code == 0, shown.err
    assert shown.json["runs"] == 2
    assert [e["name"] for e in shown.json["effects"]] == ["structure"]
    lines = (home / "ablations" / "smoke" / "runs.jsonl").read_text().splitlines()
    assert all(json.loads(line)["judged"] == 2 for line in lines)


def test_a_search_cut_short_goes_on_from_what_it_had_judged(
    command: Command, toy: Any, plan: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    judged: list[str] = []
    real = type(toy).evaluate

    def evaluate(self: Any, candidate: Any, *more: Any) -> Any:
        if len(judged) == 2:
            judged.append("stopped")
            raise KeyboardInterrupt
        judged.append(candidate.id)
        return real(self, candidate, *more)

    monkeypatch.setattr(type(toy), "evaluate", evaluate)
    assert command("ablate", plan, "--quiet").code == 5
    assert len(judged) == 3
    shown = command("ablate", plan, "--quiet", "--json")
    assert shown.code == 0, shown.err
    judged.remove("stopped")
    assert len(judged) == len(set(judged)) == 12 * 3
