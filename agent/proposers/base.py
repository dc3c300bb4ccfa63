"""The universal operator's interface: context in, candidates out. Draft, debug, improve and crossover are only contexts."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from evaluators.candidate import Candidate
from evaluators.spec.kernel_spec import KernelSpec
from evaluators.target import Target
from evaluators.verdict import Evaluation
from retrieval.passage import Passage


@dataclass(frozen=True)
class Judged:
    """A candidate with its verdict."""

    candidate: Candidate
    evaluation: Evaluation


@dataclass(frozen=True)
class Context:
    """Everything a proposer may use. ``parents`` and ``siblings`` are what the node-memory mode lets it see; ``seen`` holds every
    judged candidate of the run, for avoiding repeats; ``prompt`` is the synthesized prompt; ``ids`` are the ids its candidates take, in
    order."""

    spec: KernelSpec
    target: Target
    languages: tuple[str, ...]
    phase: str
    step: int
    ids: tuple[str, ...]
    seed: int
    passages: tuple[Passage, ...]
    parents: tuple[Judged, ...] = ()
    siblings: tuple[Judged, ...] = ()
    seen: tuple[Judged, ...] = ()
    prompt: str = ""
    options: dict[str, object] = field(default_factory=dict)


class Proposer(Protocol):
    """``propose`` returns at most ``n`` candidates; fewer (or none) when it has nothing new to try."""

    name: str

    def propose(self, context: Context, n: int) -> list[Candidate]:
        """Raises ``agent.errors.ProposerError`` with a message that says what to do."""
        ...
