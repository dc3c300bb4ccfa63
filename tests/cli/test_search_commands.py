"""optimize, resume, batch, list, show and export around a search, with the toy problem in place of judge and proposer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agent.cli import exits
from tests.cli.conftest import Command
from tests.report.synthetic_run import record

KEYS = {
    "run_id": str, "spec": str, "target": str, "dtype": str, "status": str, "recommendation": str, "summary": str,
    "weak_spec": list,
    "best": (str, type(None)),
    "speedup": (dict, type(None)), "ms": (dict, type(None)), "accuracy": (dict, type(None)), "roofline_fraction": (float, type(None)),
    "evaluations": int, "correct": int, "seconds": float, "tokens": int, "dollars": float, "files": dict,
}  # fmt: skip


def _fits(value: dict[str, Any]) -> None:
    assert value.keys() == KEYS.keys()
    for key, kind in KEYS.items():
        assert isinstance(value[key], kind), key


OPTIMIZE = ("optimize", "layernorm", "--target", "cpu-x86-64", "--evaluations", "5")


def test_json_is_one_object_of_the_documented_shape_and_progress_goes_elsewhere(command: Command, toy: Any) -> None:
    shown = command(*OPTIMIZE, "--json")
    assert shown.code == exits.OK
    _fits(shown.json)
    assert shown.json["recommendation"] == "kernel"
    assert shown.json["evaluations"] == 5
    assert set(shown.json["speedup"]) == {"ratio", "low", "high", "baseline", "confirmed"}
    assert shown.json["speedup"]["confirmed"] is True
    assert all(Path(p).is_file() for p in shown.json["files"].values())
    assert set(shown.json["files"]) == {"best.py", "report.html", "run.json"}
    assert "5/5" in shown.err


def test_the_documented_keys_are_the_printed_ones() -> None:
    text = Path("docs/cli.md").read_text()
    section = text.partition("## For scripts")[2].partition("## Environment")[0]
    assert all(f"`{key}`" in section for key in KEYS)


def test_progress_is_plain_lines_and_says_why_the_builtin_proposer_works(command: Command, toy: Any) -> None:
    shown = command(*OPTIMIZE)
    assert shown.code == exits.OK
    assert "\x1b" not in shown.out
    assert "no LLM endpoint" in shown.out.splitlines()[0]
    verdicts = [line for line in shown.out.splitlines() if "/5  cpp" in line]
    assert len(verdicts) == 5
    assert "confirmed in fresh processes" in shown.out
    assert "recommendation" in shown.out


def test_quiet_leaves_the_result_only(command: Command, toy: Any) -> None:
    shown = command(*OPTIMIZE, "--quiet")
    assert "/5  cpp" not in shown.out
    assert "recommendation" in shown.out
    assert shown.err == ""


def test_nothing_correct_is_code_four_and_keeps_the_run(command: Command, toy: Any) -> None:
    toy.status = "mismatch"
    shown = command(*OPTIMIZE, "--json", "--quiet")
    assert shown.code == exits.NONE_CORRECT
    assert shown.json["recommendation"] == "none"
    assert shown.json["best"] is None
    assert "best.py" not in shown.json["files"]
    refused = command("export", "last")
    assert refused.code == exits.NONE_CORRECT
    assert "no correct candidate" in refused.error


def test_an_interruption_names_the_command_that_continues_and_resume_loses_nothing(
    command: Command, toy: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    evaluate = type(toy).evaluate

    def interrupted(self: Any, candidate: Any) -> Any:
        if len(self.judged) == 3:
            raise KeyboardInterrupt
        return evaluate(self, candidate)

    monkeypatch.setattr(type(toy), "evaluate", interrupted)
    shown = command(*OPTIMIZE, "--json", "--quiet")
    assert shown.code == exits.INTERRUPTED
    assert "`kernelevolve resume layernorm-" in shown.error
    before = list(toy.judged)
    monkeypatch.setattr(type(toy), "evaluate", evaluate)
    resumed = command("resume", "last", "--json", "--quiet")
    assert resumed.code == exits.OK
    _fits(resumed.json)
    assert resumed.json["evaluations"] == 5
    assert toy.judged[:3] == before
    assert len(toy.judged) == len(set(toy.judged)) == 5


def test_resuming_a_finished_run_gives_its_result_again(command: Command, toy: Any) -> None:
    first = command(*OPTIMIZE, "--json", "--quiet").json
    again = command("resume", first["run_id"], "--json")
    assert again.json == first
    assert f"run {first['run_id']} was already finished" in again.err
    assert "nothing was done" in again.err
    assert len(toy.judged) == 5


def test_an_endpoint_adds_the_language_model(command: Command, toy: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    shown = command(*OPTIMIZE)
    assert "no LLM endpoint" not in shown.out
    record = command("show", "last", "--json").json
    assert record["settings"]["proposers"] == ["builtin", "llm"]


def test_a_batch_goes_on_where_it_stopped_and_reports_once(command: Command, toy: Any, home: Path) -> None:
    batch = ("batch", "layernorm", "softmax", "--target", "cpu-x86-64", "--evaluations", "3", "--json", "--quiet")
    shown = command(*batch)
    assert shown.code == exits.OK
    assert shown.json["summary"]["specs"] == 2
    assert [r["spec"] for r in shown.json["rows"]] == ["layernorm", "softmax"]
    assert len(toy.judged) == 6
    assert command(*batch).json == shown.json
    assert len(toy.judged) == 6, "finished runs are not repeated"
    page = Path(shown.json["report"])
    assert json.loads((page.parent / "batch.json").read_text())["rows"] == shown.json["rows"]
    assert "../../runs/" in page.read_text()
    assert len(command("list", "--json").json) == 2


def test_a_batch_outlives_a_run_that_fails(
    command: Command, toy: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from agent import assemble
    from evaluators.errors import JudgeError

    whole = assemble.judge

    def judge(spec: Any, target: Any) -> Any:
        if spec.name == "softmax":
            raise JudgeError("softmax: the reference fails")
        return whole(spec, target)

    monkeypatch.setattr(assemble, "judge", judge)
    shown = command("batch", "softmax", "layernorm", "--target", "cpu-x86-64", "--evaluations", "2")
    assert shown.code == exits.FAILURE
    assert "softmax: JudgeError: softmax: the reference fails" in shown.out
    assert "1 of 2 with a correct kernel" in shown.out


def test_list_show_and_export_read_a_recorded_run(command: Command, home: Path) -> None:
    assert "No runs yet" in command("list").out
    home.mkdir(exist_ok=True)
    store = record(home, "fast-1")
    assert "fast-1" in command("list").out
    assert command("list", "--json").json[0]["id"] == "fast-1"
    shown = command("show", "fast")
    assert shown.code == exits.OK
    assert "2.38×" in shown.out
    assert (home / "runs" / "fast-1" / "report.html").is_file()
    best = store.get_run("fast-1").best
    assert command("show", "fast-1", "--source", "best").out.startswith("import torch")
    assert "has no candidate" in command("show", "fast-1", "--source", "x").error
    module = command("export", "last")
    compile(module.out, "kernel.py", "exec")
    assert str(best) in module.out
