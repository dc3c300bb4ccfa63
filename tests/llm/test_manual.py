"""Ask and tell: the prompt is on disk for whoever answers, and an answer counts once it is written completely."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import pytest

from agent import events
from agent.errors import ProposerError, RunInterrupted
from agent.proposers import manual
from agent.proposers.base import Context
from agent.proposers.manual import ManualProposer
from agent.settings import RunSettings
from tests.graph.toy import SPEC, TARGET
from tests.llm.test_extract import MODULE


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manual, "POLL", 0.02)


def context(folder: Path, draws: int = 1, **options: Any) -> Context:
    ids = tuple(f"r.0.{d}" for d in range(draws))
    return Context(
        SPEC, TARGET, ("cpp",), "draft", 0, ids, 0, (), prompt="Write a kernel.", options={"folder": folder, **options}
    )


def proposer(seconds: float | None = 30.0) -> ManualProposer:
    return ManualProposer(RunSettings(answer_seconds=seconds))


def test_the_prompt_is_written_and_the_answer_awaited(tmp_path: Path) -> None:
    told: list[Any] = []

    def answer(event: Any) -> None:
        told.append(event)
        asked = Path(event.question).read_text()
        assert "Write a kernel." in asked
        assert event.answer in asked

        def write() -> None:
            path = Path(event.answer)
            with path.open("w") as file:  # in two parts, as an editor may
                file.write(f"Idea: by hand\n```python\n{MODULE[:50]}")
                file.flush()
                time.sleep(0.01)
                file.write(f"{MODULE[50:]}```\n")

        threading.Thread(target=write).start()

    (made,) = proposer().propose(context(tmp_path, on_event=answer), 1)
    assert isinstance(told[0], events.AnswerAwaited)
    assert made.source.startswith(MODULE.rstrip())
    assert (made.proposer, made.note) == ("manual", "by hand")


def test_answers_already_there_are_taken_without_asking_again(tmp_path: Path) -> None:
    told: list[Any] = []
    (tmp_path / "tell").mkdir()
    for draw in range(2):
        (tmp_path / "tell" / f"r.0.{draw}.py").write_text(MODULE + f"# {draw}\n")
    made = proposer().propose(context(tmp_path, 2, on_event=told.append), 2)
    assert [c.id for c in made] == ["r.0.0", "r.0.1"]
    assert not told


def test_when_the_time_is_up_what_is_there_is_taken_and_nothing_is_an_error_with_the_path(tmp_path: Path) -> None:
    with pytest.raises(ProposerError, match=r"tell/r\.0\.0\.py"):
        proposer(0.1).propose(context(tmp_path), 1)
    (tmp_path / "tell" / "r.0.1.py").write_text(MODULE)
    assert [c.id for c in proposer(0.2).propose(context(tmp_path, 2), 2)] == ["r.0.1"]


def test_stopping_the_run_ends_the_wait(tmp_path: Path) -> None:
    stop = threading.Event()
    stop.set()
    with pytest.raises(RunInterrupted):
        proposer(None).propose(context(tmp_path, stop=stop), 1)


def test_questions_asked_at_once_differ(tmp_path: Path) -> None:
    """Answers to one and the same prompt would tend to be one and the same kernel."""
    (tmp_path / "tell").mkdir()
    for draw in range(2):
        (tmp_path / "tell" / f"r.0.{draw}.py").write_text(MODULE + f"# {draw}\n")
    proposer().propose(context(tmp_path, 2), 2)
    first, second = ((tmp_path / "ask" / f"r.0.{d}.md").read_text().partition("Write a kernel.")[2] for d in range(2))
    assert first != second
    assert "number 2" in second


def test_an_open_question_is_told_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manual, "REMIND", 0.05)
    told: list[Any] = []
    with pytest.raises(ProposerError):
        proposer(0.5).propose(context(tmp_path, on_event=told.append), 1)
    assert [e.again for e in told][:2] == [False, True]
