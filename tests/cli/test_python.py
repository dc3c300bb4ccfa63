"""The Python API around a search: it shows what the command line shows, and leaves the same folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import kernelevolve
from agent import events


def test_a_search_from_python_prints_a_line_per_candidate_on_stderr_and_writes_its_report(
    home: Path, toy: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    result = kernelevolve.optimize("layernorm", target="cpu-x86-64", evaluations=3)
    shown = capsys.readouterr()
    assert shown.out == "", "stdout belongs to the caller"
    assert [n for n in (1, 2, 3) if f"{n}/3  cpp" in shown.err] == [1, 2, 3]
    assert "starting the judge" in shown.err.partition("1/3")[0], "the longest wait is announced before it"
    assert "tracing the reference" in shown.err.partition("1/3")[0]
    assert f"report: {result.report}" in shown.err
    assert result.report.is_file()
    assert {"best.py", "report.html", "run.json"} <= {p.name for p in result.folder.iterdir()}


@pytest.mark.parametrize(("progress", "lines"), [(None, False), (False, False), (True, True)])
def test_a_listener_takes_the_place_of_the_lines_unless_both_are_wanted(
    home: Path, toy: Any, capsys: pytest.CaptureFixture[str], progress: bool | None, lines: bool
) -> None:
    told: list[events.Event] = []
    kernelevolve.optimize("layernorm", target="cpu-x86-64", evaluations=2, progress=progress, on_event=told.append)
    assert sum(isinstance(e, events.CandidateJudged) for e in told) == 2
    assert ("2/2  cpp" in capsys.readouterr().err) == lines


def test_a_run_can_be_silent(home: Path, toy: Any, capsys: pytest.CaptureFixture[str]) -> None:
    result = kernelevolve.optimize("layernorm", target="cpu-x86-64", evaluations=2, progress=False)
    shown = capsys.readouterr()
    assert shown.out + shown.err == ""
    assert result.report.is_file()


def test_the_data_folder_of_the_call_holds_run_and_report_and_resume_finds_them(
    home: Path, toy: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = tmp_path / "other"
    result = kernelevolve.optimize("layernorm", target="cpu-x86-64", evaluations=2, home=str(other), progress=False)
    assert result.report.is_relative_to(other)
    assert not (home / "store.db").exists()
    result.report.unlink()
    again = kernelevolve.resume(result.run_id, home=str(other), progress=False)
    assert again.report == result.report
    assert again.report.is_file()
    assert again.message == result.message
