"""RunResult: what a finished run comes to, read from the run store."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast, get_args

from agent.search.verdict import Recommendation, message
from evaluators.candidate import Candidate
from evaluators.home import home
from evaluators.verdict import Evaluation
from knowledge.runs.store import RunStore


@dataclass(frozen=True)
class RunResult:
    """``best`` is the recommended kernel, or with another recommendation the best candidate there was (None if none was correct).

    Only ``kernel`` says to use it: ``baseline`` keeps PyTorch, ``inconclusive`` too, because the machine was too noisy to tell, and
    ``untimed`` because the target is not here.

    ``confirmed`` is its fresh-process verdict, the only one to report; ``evaluations`` are those of the search, in order.
    """

    run_id: str
    recommendation: Recommendation
    best: Candidate | None
    confirmed: Evaluation | None
    evaluations: Sequence[Evaluation]
    reason: str
    message: str
    folder: Path

    @property
    def report(self) -> Path:
        """The run's page, report.html in its folder; best.py and run.json lie beside it. See docs/report.md."""
        return self.folder / "report.html"


def folder_of(run_id: str, root: str | None = None) -> Path:
    """A run's folder of human output under the data folder ``root``."""
    return home(root) / "runs" / run_id


def result_of(store: RunStore, run_id: str) -> RunResult:
    """The result of a run. One that has not finished recommends the baseline, and its message says so."""
    run = store.get_run(run_id)
    best = store.candidate(run.best) if run.best else None
    confirmed = store.evaluation(best.id, "confirm") if best else None
    known = run.recommendation if run.recommendation in get_args(Recommendation) else "baseline"
    evaluations = store.evaluations(run.id)
    text = message(run.recommendation or "baseline", run.best, confirmed, "" if evaluations else run.reason)
    return RunResult(
        run_id=run.id,
        recommendation=cast(Recommendation, known),
        best=best,
        confirmed=confirmed,
        evaluations=evaluations,
        reason=run.reason,
        message=text
        if run.status == "finished"
        else f"the run is {run.status}; `kernelevolve resume {run.id}` continues it",
        folder=folder_of(run.id, run.settings.get("home")),
    )
