"""Selection policies π: which candidate to expand next. A policy is a function; adding one is a function and a line in POLICIES."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

from agent.proposers.base import Judged
from agent.search.view import SearchGraph

Policy = Callable[[SearchGraph, Sequence[Judged], int, Random], Judged]
"""(graph, correct candidates that are not spent, best first and never empty; beam width; random numbers) → the one to expand."""


def greedy(_graph: SearchGraph, open_nodes: Sequence[Judged], _width: int, _random: Random) -> Judged:
    """The best one."""
    return open_nodes[0]


def beam(graph: SearchGraph, open_nodes: Sequence[Judged], width: int, _random: Random) -> Judged:
    """Of the ``width`` best, the one expanded least, so that the beam's candidates advance in turn."""
    return min(open_nodes[:width], key=lambda n: len(graph.children(n.candidate.id)))


POLICIES: dict[str, Policy] = {
    "greedy": greedy,
    "beam": beam,
}
