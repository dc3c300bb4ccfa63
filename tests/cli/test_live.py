"""Progress on a plain log: what each event says."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from agent import events
from agent.cli.console import Activity
from agent.cli.live import Live
from evaluators.candidate import Candidate

ASKED = events.AnswerAwaited("r", "r.0.0", "ask.md", "tell.py", None)
JUDGED = Candidate(id="r.0.0", language="cpp", source="", proposer="builtin", note="defaults")


def said(*told: events.Event) -> str:
    out = io.StringIO()
    with Live(Console(file=out, width=200)) as live:
        for event in told:
            live(event)
    return out.getvalue()


@pytest.mark.parametrize(
    ("event", "line"),
    [
        (
            events.FewerProposed("r", 0, "draft", "builtin", 4, 2, 0),
            "builtin: 2 of 4 for first drafts: no other retrieved schedule fits",
        ),
        (
            events.FewerProposed("r", 0, "draft", "manual", 2, 1, 1),
            "manual: 1 of 2 for first drafts: 1 had the text of a kernel this run already has, so nothing to judge",
        ),
        (
            events.FewerProposed("r", 5, "crossover", "builtin", 1, 0, 0),
            "builtin: nothing new for crossover: no other move or knob is left",
        ),
    ],
)
def test_fewer_candidates_than_asked_for_are_explained(event: events.FewerProposed, line: str) -> None:
    assert said(event).strip() == line


def test_the_wait_for_the_judge_is_announced_once() -> None:
    first, later = (events.Judging("r", JUDGED, first, True) for first in (True, False))
    assert "PyTorch's times (eager and torch.compile)" in said(first)
    assert said(later) == ""
    assert "PyTorch's times" not in said(events.Judging("r", JUDGED, True, False)), (
        "nothing is timed on an absent device"
    )


def test_slow_preparations_say_how_far_they_are() -> None:
    steps = [
        events.Preparing("tracing the reference"),
        *(events.Preparing(f"taking in {i}", i, 100) for i in range(1, 101)),
    ]
    lines = said(*steps).splitlines()
    assert lines[0] == "tracing the reference"
    assert lines[1].startswith("loading the knowledge base: 100 documents")
    assert lines[2:] == [f"{n} of 100 documents" for n in (25, 50, 75, 100)]


def test_stopping_speaks_of_a_candidate_only_while_one_is_judged() -> None:
    assert "after this candidate" in said(events.Judging("r", JUDGED, False, True), events.Stopping("r"))
    assert said(ASKED, events.Stopping("r")).splitlines()[-1] == "stopping"


def test_a_question_that_stays_open_is_repeated_as_such() -> None:
    again = events.AnswerAwaited("r", "r.0.0", "ask.md", "tell.py", None, again=True)
    assert [line.partition(":")[0] for line in said(ASKED, again).splitlines()] == [
        "a kernel is wanted",
        "still waiting",
    ]


def test_a_long_ingestion_says_how_far_it_is_on_a_plain_log_and_a_short_one_does_not() -> None:
    out = io.StringIO()
    with Activity(Console(file=out, width=200), "reading") as activity:
        for total in (10, 60):
            for done in range(1, total + 1):
                activity.progress(done, total, "a.md")
    assert out.getvalue().splitlines() == ["15 of 60", "30 of 60", "45 of 60", "60 of 60"]
