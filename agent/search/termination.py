"""The termination rule τ: whether a search is over, and why, in words for the person who reads the report."""

from __future__ import annotations

from agent.search.fitness import fitness
from agent.search.view import SearchGraph
from agent.settings import RunSettings

LOST = 3
"""Verdicts in a row lost to infrastructure that end a run."""


def ended(graph: SearchGraph, settings: RunSettings, seconds: float, tokens: int = 0, dollars: float = 0.0) -> str:
    """Reason text, or empty while the search goes on. ``seconds`` were spent searching; ``tokens`` and ``dollars`` on models."""
    judged = graph.judged
    best = graph.best()
    best_fitness = fitness(best.evaluation) if best else 0.0
    if settings.fitness is not None and best_fitness >= settings.fitness:
        return f"fitness {best_fitness:.2f} reached the goal of {settings.fitness:g}"
    share = best.evaluation.roofline.fraction if best and best.evaluation.roofline else None
    if settings.roofline is not None and share is not None and share >= settings.roofline:
        return f"the best kernel is at {share:.0%} of the roofline (goal {settings.roofline:.0%})"
    if len(judged) >= settings.evaluations:
        return f"budget of {settings.evaluations} evaluations spent"
    if settings.seconds is not None and seconds >= settings.seconds:
        return f"budget of {settings.seconds:g} seconds spent"
    if settings.tokens is not None and tokens >= settings.tokens:
        return f"budget of {settings.tokens} tokens spent"
    if settings.dollars is not None and dollars >= settings.dollars:
        return f"budget of {settings.dollars:g} dollars spent"
    if settings.stagnation is not None and graph.stale() >= settings.stagnation:
        return f"no new best in {graph.stale()} evaluations"
    lost = [n.evaluation for n in judged[-LOST:]]
    if len(lost) == LOST and all(e.status == "infrastructure" for e in lost):
        return f"the judge could not work {LOST} times in a row: {lost[-1].message}"
    if all(graph.failed(p) for p in settings.proposers):
        last = settings.proposers[-1]
        return f"{' and '.join(settings.proposers)} failed again and again, last: {graph.failures[last][-1]}"
    return ""
