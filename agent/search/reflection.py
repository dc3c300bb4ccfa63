"""Reflection: what a step established, stated from the verdicts alone."""

from __future__ import annotations

from collections.abc import Sequence

from agent.proposers.base import Judged
from agent.search.fitness import diagnosis_of, fitness, is_correct, weak_spec
from agent.search.view import SearchGraph
from knowledge.runs.records import Proposal, Step


def reflect(graph: SearchGraph, step: Step, proposals: Sequence[Proposal]) -> str:
    """A line per candidate: what changed against its parent, what that did to speed, and what limits it now."""
    lines = [_line(graph, node) for node in graph.of_step(step.step)]
    for p in proposals:
        if p.error:
            lines.append(f"{p.proposer} failed: {p.error}")
        elif not p.made:
            repeats = f" ({p.repeats} repeated an earlier source)" if p.repeats else ""
            lines.append(f"{p.proposer} had nothing new for {step.phase}{repeats}")
    return "\n".join(lines)


def _line(graph: SearchGraph, node: Judged) -> str:
    candidate, evaluation = node.candidate, node.evaluation
    what = candidate.note or f"{candidate.phase} by {candidate.proposer}"
    if not is_correct(evaluation):
        detail = f": {evaluation.message.splitlines()[0]}" if evaluation.message else ""
        return f"{candidate.id} {what}: {evaluation.status}{detail}"
    if evaluation.status == "checked":
        return f"{candidate.id} {what}: checked, not timed"
    if weak_spec(evaluation) and evaluation.timing is not None:
        ratio = evaluation.timing.ratio
        return f"{candidate.id} {what}: {ratio:.2f}x, without credit (weak spec); {diagnosis_of(evaluation)}"
    speed = fitness(evaluation)
    parent = graph.nodes.get(candidate.parents[0]) if candidate.parents else None
    against = ""
    if parent is not None and fitness(parent.evaluation) > 0:
        before = fitness(parent.evaluation)
        against = f", {speed / before - 1:+.1%} against {parent.candidate.id} at {before:.2f}x"
    return f"{candidate.id} {what}: {speed:.2f}x{against}; {diagnosis_of(evaluation)}"
