"""Node memory: what a new candidate sees of the graph. A mode is a function; adding one is a function and a line in MEMORIES."""

from __future__ import annotations

from collections.abc import Callable

from agent.proposers.base import Judged
from agent.search.fitness import rank
from agent.search.view import SearchGraph

SIBLINGS = 4
"""Siblings shown at most: the best ones, then the latest failures."""

Seen = tuple[tuple[str, ...], tuple[str, ...]]
"""(parents, siblings) by id."""


def inherit(_graph: SearchGraph, parent: Judged) -> Seen:
    """The parent alone."""
    return (parent.candidate.id,), ()


def siblings(graph: SearchGraph, parent: Judged) -> Seen:
    """The parent, and what was already made from it."""
    made = graph.children(parent.candidate.id)
    tried = sorted(made, key=lambda n: (rank(n.evaluation), n.candidate.step), reverse=True)
    return (parent.candidate.id,), tuple(n.candidate.id for n in tried[:SIBLINGS])


def combine(graph: SearchGraph, parent: Judged) -> Seen:
    """The parent, the best candidate of another line, and what was already made from the parent."""
    (own,), tried = siblings(graph, parent)
    other = partner(graph, parent)
    return ((own, other.candidate.id) if other else (own,)), tried


def clean(_graph: SearchGraph, _parent: Judged) -> Seen:
    """Nothing: every candidate is an independent draft."""
    return (), ()


MEMORIES: dict[str, Callable[[SearchGraph, Judged], Seen]] = {
    "inherit": inherit,
    "siblings": siblings,
    "combine": combine,
    "clean": clean,
}


def partner(graph: SearchGraph, node: Judged) -> Judged | None:
    """The best correct candidate that is neither above nor below this one; None where there is none."""
    own = graph.line(node.candidate.id)
    for other in graph.ranked():
        if other.candidate.id not in own and node.candidate.id not in graph.line(other.candidate.id):
            return other
    return None
