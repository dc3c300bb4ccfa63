"""From the run store to a RunReport."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

from agent.report.data import Citation, Node, RunReport

if TYPE_CHECKING:
    from evaluators.verdict import Evaluation
    from knowledge.runs.records import Run
    from knowledge.runs.store import RunStore


def load(run_id: str, store: RunStore) -> RunReport:
    """Everything the store knows of a run. ``run_id`` may be an unambiguous beginning. Raises ``knowledge.errors.RunNotFound``."""
    run = store.get_run(run_id)
    cited = _citations(run.id, store)
    verdicts = {e.candidate_id: e for e in store.evaluations(run.id)}
    candidates = store.candidates(store.candidate_ids(run.id))
    nodes = tuple(
        Node(c, verdicts.get(c.id), tuple(cited.get((c.step, i)) or Citation(i) for i in c.chunk_ids))
        for c in candidates
    )
    best = run.best
    if best is None:
        so_far = store.best_so_far(run.id)
        best = so_far.candidate_id if so_far else None
    confirmation = store.evaluation(best, "confirm") if best else None
    costs = store.costs(run.id)
    return RunReport(
        run_id=run.id,
        spec=run.spec,
        target=run.target.name,
        status=run.status,
        nodes=nodes,
        best_id=best,
        confirmation=confirmation,
        recorded=run.recommendation,
        settings=run.settings,
        target_present=run.target.present,
        started=run.created[:19].replace("T", " "),
        seconds=_seconds(run, store),
        stop_reason=run.reason,
        phases=_phases(run.id, store, confirmation),
        tokens=sum(c.prompt_tokens + c.completion_tokens for c in costs),
        dollars=sum((c.dollars or 0.0 for c in costs), 0.0),
    )


def _citations(run_id: str, store: RunStore) -> dict[tuple[int, str], Citation]:
    found: dict[tuple[int, str], Citation] = {}
    for retrieval in store.retrievals(run_id):
        for p in retrieval.passages:
            found[retrieval.step, str(p.get("chunk_id"))] = _citation(p)
    return found


def _citation(passage: Mapping[str, Any]) -> Citation:
    score = passage.get("score")
    return Citation(
        chunk_id=str(passage.get("chunk_id", "")),
        title=str(passage.get("title", "")),
        document=str(passage.get("document", "")),
        locator=str(passage.get("locator", "")),
        kind=str(passage.get("kind", "")),
        score=float(score) if isinstance(score, (int, float)) else None,
    )


def _seconds(run: Run, store: RunStore) -> float:
    """Wall clock from start to finish; of a run that is not finished, the sum of its steps."""
    if run.finished:
        return (datetime.fromisoformat(run.finished) - datetime.fromisoformat(run.created)).total_seconds()
    return sum((s.seconds or 0.0 for s in store.steps(run.id)), 0.0)


def _phases(run_id: str, store: RunStore, confirmation: Evaluation | None) -> dict[str, float]:
    """Seconds by activity, summed over steps; the judge's own phases are listed within judging."""
    steps = store.steps(run_id)
    phases = {
        "propose": sum(s.propose_seconds or 0.0 for s in steps),
        "judge": sum(s.judge_seconds or 0.0 for s in steps),
        "retrieve": sum(r.seconds for r in store.retrievals(run_id)),
    }
    phases["other steps"] = max(0.0, sum(s.overhead_seconds or 0.0 for s in steps) - phases["retrieve"])
    if confirmation is not None:
        phases["confirm"] = sum(confirmation.phases.values())
    inner: dict[str, float] = {}
    for evaluation in store.evaluations(run_id):
        for name, seconds in evaluation.phases.items():
            inner[f"judge: {name}"] = inner.get(f"judge: {name}", 0.0) + seconds
    return {**{k: v for k, v in phases.items() if v > 0}, **inner}
