"""The end of a run: the winner is timed again in fresh processes, and only those samples count."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from agent.events import RunFinished
from agent.figures import interval, times
from agent.search.fitness import may_win, undecided, weak_spec, wins
from evaluators.verdict import Evaluation

if TYPE_CHECKING:
    from agent.runtime import Runtime

TRIES = 3
"""Candidates confirmed at most. Choosing the best of many noisy measurements favours luck; a re-run does not share that luck."""

Recommendation = Literal["kernel", "baseline", "inconclusive", "untimed"]
"""``inconclusive``: measured, but too unsteadily to tell; ``untimed``: checked for a target that is not here. Both keep PyTorch."""


def conclude(runtime: Runtime, reason: str) -> tuple[Recommendation, str | None]:
    """Confirm the best candidates in turn until one holds; record and return (recommendation, candidate it is about)."""
    graph, store, run = runtime.graph, runtime.store, runtime.run
    graph.refresh()
    ranked = graph.ranked()
    timed = [n for n in ranked if n.evaluation.timing is not None]
    hopeful = [n for n in timed if may_win(n.evaluation)][:TRIES]
    confirmed: list[Evaluation] = []
    for node in hopeful or timed[:1]:  # with no hope of a gain, the best one still gets an honest figure
        confirmed.append(runtime.confirm(node))
        if wins(confirmed[-1]):
            break
    held = bool(confirmed) and wins(confirmed[-1])
    fallback = [e.candidate_id for e in confirmed] + [n.candidate.id for n in ranked]
    best = (confirmed[-1].candidate_id if held else _strongest(confirmed)) or next(iter(fallback), None)
    recommendation: Recommendation = "kernel" if held else "baseline"
    if not held and any(e.candidate_id == best and undecided(e) for e in confirmed):
        recommendation = "inconclusive"
    if best in graph.nodes and graph.nodes[best].evaluation.status == "checked":
        recommendation = "untimed"
    store.finish_run(run.id, reason, recommendation, best)
    about = next((e for e in confirmed if e.candidate_id == best), None)
    text = message(recommendation, best, about, "" if graph.judged else reason)
    runtime.on_event(RunFinished(run.id, recommendation, best, reason, text))
    return recommendation, best


def _strongest(confirmed: list[Evaluation]) -> str | None:
    right = [e for e in confirmed if e.status == "correct" and e.timing]
    return max(right, key=lambda e: e.timing.ratio if e.timing else 0.0).candidate_id if right else None


def message(recommendation: str, best: str | None, confirmed: Evaluation | None, unjudged: str = "") -> str:
    """What a run recommends, in one line. ``unjudged``: why it ended, where it came to judge no candidate at all."""
    timing = confirmed.timing if confirmed else None
    if recommendation == "kernel" and timing:
        return (
            f"use kernel {best}: {times(timing.ratio)} over {timing.baseline} "
            f"(95% interval {interval(timing.low, timing.high)}, fresh processes)"
        )
    if best is None:
        return f"keep the PyTorch baseline: {unjudged or 'no candidate was correct'}"
    if confirmed is None:
        return f"keep the PyTorch baseline: nothing was timed on this machine; {best} is the best candidate that passed the checks"
    if recommendation == "inconclusive" and timing:
        return (
            f"keep the PyTorch baseline: the machine was too noisy to tell ({best} is {timing.ratio:.2f}x of {timing.baseline}, "
            f"95% interval {interval(timing.low, timing.high)}); run again when it is idle"
        )
    if timing is None or confirmed.status != "correct":
        return f"keep the PyTorch baseline: {best} did not hold up in fresh processes ({confirmed.status})"
    if timing.low > 1.0:
        why = confirmed.message.partition(";")[0]
        return f"keep the PyTorch baseline: {best} is {times(timing.ratio)} of {timing.baseline}, but {why}"
    if weak_spec(confirmed):
        return (
            f"keep the PyTorch baseline: {best} is {times(timing.ratio)} of {timing.baseline}, and no speed-up would count: "
            f"weak spec ({'; '.join(weak_spec(confirmed))})"
        )
    return (
        f"keep the PyTorch baseline: the best candidate, {best}, is {times(timing.ratio)} of {timing.baseline} "
        f"(95% interval {interval(timing.low, timing.high)}, fresh processes), which is no gain"
    )
