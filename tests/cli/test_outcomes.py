"""A run without a kernel says why by its exit code, and by a last line where no candidate was really judged; the machine's refusals too."""

from __future__ import annotations

import errno
import os
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy.exc import OperationalError

from agent import assemble
from agent.cli import exits
from agent.cli.world import refusal
from agent.errors import NothingToPropose, ReplyError
from tests.cli.conftest import Command


class Broken:
    """A proposer that fails however often it is asked."""

    reads_prompt = False

    def __init__(self, name: str, error: Exception) -> None:
        self.name = name
        self.error = error

    def propose(self, context: object, n: int) -> list[Any]:
        raise self.error


def _run(command: Command, monkeypatch: pytest.MonkeyPatch, name: str, error: Exception) -> Any:
    monkeypatch.setattr(assemble, "proposers", lambda settings: {n: Broken(name, error) for n in settings.proposers})
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    monkeypatch.setenv("KERNELEVOLVE_MODEL", "m")
    return command("optimize", "layernorm", "--target", "cpu-x86-64", "--proposer", name, "-q")


def test_an_endpoint_that_never_answers_is_something_missing(
    command: Command, toy: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = _run(command, monkeypatch, "llm", ReplyError("http://127.0.0.1:9/v1: HTTP 401: no; check OPENAI_API_KEY"))
    assert shown.code == exits.MISSING
    assert shown.error == "error: no candidate: http://127.0.0.1:9/v1: HTTP 401: no; check OPENAI_API_KEY"


def test_proposers_that_all_fail_have_a_code_of_their_own(
    command: Command, toy: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = _run(command, monkeypatch, "builtin", RuntimeError("a bug"))
    assert shown.code == exits.NOBODY
    assert "no candidate: builtin: " in shown.error
    assert "a bug" in shown.error


def test_nothing_to_generate_is_a_result_not_a_failure(
    command: Command, toy: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = _run(command, monkeypatch, "builtin", NothingToPropose("PyTorch does all of it"))
    assert shown.code == exits.NONE_CORRECT
    assert shown.err == ""


def test_a_judge_that_never_works_is_no_verdict_on_the_candidates(command: Command, toy: Any) -> None:
    toy.status = "infrastructure"
    shown = command("optimize", "layernorm", "--target", "cpu-x86-64", "-q")
    assert shown.code == exits.FAILURE
    assert shown.error == "error: the judge could not work: infrastructure here"


def test_a_batch_counts_it_as_failed(command: Command, toy: Any) -> None:
    toy.status = "infrastructure"
    shown = command("batch", "layernorm", "--target", "cpu-x86-64", "--json", "-q")
    assert shown.code == exits.FAILURE
    assert "the judge could not work" in shown.json["rows"][0]["error"]


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.ENOSPC, "No space left on device", "/data/x"),
        OSError(errno.EROFS, "Read-only file system", "/data/x"),
        PermissionError(errno.EACCES, "Permission denied", "/data/x"),
        OSError(errno.ENOSPC, "No space left on device"),
        OperationalError("INSERT", {}, sqlite3.OperationalError("database or disk is full")),
        sqlite3.OperationalError("attempt to write a readonly database"),
        sqlite3.DatabaseError("database disk image is malformed"),
    ],
    ids=repr,
)
def test_what_the_machine_refuses_is_no_bug(error: Exception, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert exits.report(error) == exits.MISSING
    line = capsys.readouterr().err
    assert "unexpected" not in line
    assert ";" in line, "it says what to do"
    assert line.count("\n") == 1


def test_a_file_that_a_bug_looks_for_is_still_a_bug(home: Path) -> None:
    assert refusal(FileNotFoundError(errno.ENOENT, "No such file or directory", "/elsewhere/x")) is None
    assert refusal(sqlite3.OperationalError("no such column: x")) is None


@pytest.mark.parametrize("place", ["/proc/nope", "/dev/null", "/dev/null/below"])
@pytest.mark.parametrize(
    "arguments",
    [["optimize", "layernorm", "--target", "cpu-x86-64"], ["ingest"], ["search", "spills"], ["list"], ["batch", "layernorm"]],
    ids=" ".join,
)  # fmt: skip
def test_a_place_that_can_hold_no_data_is_one_line(
    command: Command, monkeypatch: pytest.MonkeyPatch, place: str, arguments: list[str]
) -> None:
    monkeypatch.setenv("KERNELEVOLVE_HOME", place)
    shown = command(*arguments)
    assert shown.code == exits.MISSING
    assert place in shown.error
    assert "unexpected" not in shown.error


def test_an_object_store_that_does_not_exist_is_one_line(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KERNELEVOLVE_OBJECTS", "foo://bar")
    shown = command("list")
    assert shown.code == exits.MISSING
    assert "KERNELEVOLVE_OBJECTS" in shown.error


def test_a_long_error_line_keeps_both_ends(capsys: pytest.CaptureFixture[str]) -> None:
    exits.report(exits.CommandError("begins " + "x" * 100_000 + " ends"))
    line = capsys.readouterr().err
    assert len(line) < exits.LONGEST + 20
    assert line.startswith("error: begins")
    assert line.endswith("ends\n")


def test_doctor_writes_to_know_that_it_can(command: Command, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    shown = command("doctor", "--json")
    assert shown.code == exits.MISSING
    (check,) = [c for c in shown.json["checks"] if (c["group"], c["name"]) == ("store", "home")]
    assert check["state"] == "missing"
    assert "No space left" in check["detail"]


def test_doctor_finds_damaged_stores(command: Command, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (home / "knowledge" / "chroma").mkdir(parents=True)
    (home / "knowledge" / "manifest.json").write_text('{"model": "m", "documents": {"a.md": ["hash", ["id"]]}}')
    (home / "knowledge" / "chroma" / "chroma.sqlite3").write_bytes(b"garbage" * 1000)
    (home / "store.db").write_bytes(b"garbage" * 1000)
    monkeypatch.setenv("KERNELEVOLVE_OBJECTS", "foo://bar")
    shown = command("doctor", "--json")
    assert shown.code == exits.MISSING
    broken = {c["name"]: c for c in shown.json["checks"] if c["group"] == "store" and c["state"] == "missing"}
    assert set(broken) == {"runs", "objects", "knowledge"}
    assert all(c["fix"] for c in broken.values())
    assert "kernelevolve ingest" in broken["knowledge"]["fix"]
