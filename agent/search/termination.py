"""The termination rule τ: whether a search is over, and why, in words for the person who reads the report."""

from __future__ import annotations

from collections.abc import Callable

from agent.figures import count
from agent.proposers.base import Judged
from agent.search.fitness import fitness, undecided
from agent.search.view import SearchGraph
from agent.settings import RunSettings
from evaluators.verdict import Evaluation

LOST = 3
"""Verdicts in a row lost to infrastructure that end a run."""
TRUSTED = 1.05
"""Share of a roofline from which on the bandwidth it assumes must be wrong, so that nothing is concluded from it."""

Confirm = Callable[[Judged], Evaluation]
"""Judge once more in fresh processes; each candidate at most once per run."""


def ended(
    graph: SearchGraph,
    settings: RunSettings,
    seconds: float,
    tokens: int = 0,
    dollars: float = 0.0,
    *,
    confirm: Confirm,
) -> str:
    """Reason text, or empty while the search goes on. ``seconds`` were spent searching; ``tokens`` and ``dollars`` on models.

    The search's own measurements only nominate a kernel that has reached a goal: the run ends there if ``confirm`` says so too.
    """
    judged = graph.judged
    best = graph.best()
    if best and reached(best.evaluation, settings):
        fresh = confirm(best)
        if reason := "" if undecided(fresh) else reached(fresh, settings):
            return reason
    if len(judged) >= settings.evaluations:
        return f"budget of {count(settings.evaluations, 'evaluation')} spent"
    if settings.seconds is not None and seconds >= settings.seconds:
        return f"budget of {settings.seconds:g} seconds spent"
    if settings.tokens is not None and tokens >= settings.tokens:
        return f"budget of {settings.tokens} tokens spent"
    if settings.dollars is not None and dollars >= settings.dollars:
        return f"budget of {settings.dollars:g} dollars spent"
    if settings.stagnation is not None and graph.stale() >= settings.stagnation:
        return f"no new best in {count(graph.stale(), 'evaluation')}"
    lost = [n.evaluation for n in judged[-LOST:]]
    if len(lost) == LOST and all(e.status == "infrastructure" for e in lost):
        return f"the judge could not work {LOST} times in a row: {lost[-1].message}"
    if all(p in graph.hopeless for p in settings.proposers):
        return "; ".join(dict.fromkeys(graph.hopeless[p] for p in settings.proposers))
    if all(graph.failed(p) for p in settings.proposers):
        last = settings.proposers[-1]
        return f"{' and '.join(settings.proposers)} failed again and again, last: {graph.failures[last][-1]}"
    return ""


def reached(evaluation: Evaluation, settings: RunSettings) -> str:
    """Which of the goals a verdict reaches, in words; empty where it reaches none."""
    speed = fitness(evaluation)
    if settings.fitness is not None and speed >= settings.fitness:
        return f"fitness {speed:.2f} reached the goal of {settings.fitness:g}"
    share = evaluation.roofline.fraction if speed and evaluation.roofline else None
    if settings.roofline is not None and share is not None and settings.roofline <= share <= TRUSTED:
        return f"the best kernel is at {share:.0%} of the roofline (goal {settings.roofline:.0%})"
    return ""
