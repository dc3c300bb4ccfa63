"""A command line with its own data folder, run in this process so that tests stay quick."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest


@dataclass(frozen=True)
class Shown:
    """What a command left behind."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """Standard output as JSON: fails where anything else was printed there."""
        return json.loads(self.out)

    @property
    def error(self) -> str:
        """The one error line: fails where there is another number of lines, or a traceback."""
        lines = self.err.strip().splitlines()
        assert len(lines) == 1, self.err
        assert lines[0].startswith("error: ")
        return lines[0]


Command = Callable[..., Shown]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty data folder, and no endpoint."""
    monkeypatch.setenv("KERNELEVOLVE_HOME", str(tmp_path / "home"))
    for name in (
        "KERNELEVOLVE_STORE",
        "KERNELEVOLVE_OBJECTS",
        "KERNELEVOLVE_DEBUG",
        "OPENAI_API_KEY",
        "OPENAI_BASE_URL",
    ):
        monkeypatch.delenv(name, raising=False)
    return tmp_path / "home"


@pytest.fixture
def command(home: Path, capsys: pytest.CaptureFixture[str]) -> Command:
    """Runs one command line."""
    from agent.cli import run

    def call(*arguments: str | Path) -> Shown:
        capsys.readouterr()
        code = run([str(a) for a in arguments])
        captured = capsys.readouterr()
        return Shown(code, captured.out, captured.err)

    return call


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The toy search problem in place of judge, proposers and retrieval; returns its judge. Nothing is compiled or embedded."""
    from agent import assemble
    from tests.graph.toy import ToyJudge, ToyProposer, ToyRetriever, facts

    judge = ToyJudge()
    monkeypatch.setattr(assemble, "proposers", lambda settings: {n: ToyProposer(name=n) for n in settings.proposers})
    monkeypatch.setattr(assemble, "retriever", lambda settings, on_event=None: ToyRetriever())
    monkeypatch.setattr(assemble, "synthesizer", lambda settings: None)
    monkeypatch.setattr(assemble, "judge", judge.factory)
    monkeypatch.setattr(assemble, "facts", facts)
    return judge
