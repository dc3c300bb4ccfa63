"""SearchGraph: the judged candidates of a run as the search sees them, read from the run store and kept up to date."""

from __future__ import annotations

from agent.proposers.base import Judged
from agent.search.fitness import is_correct, rank
from knowledge.runs.records import Step
from knowledge.runs.store import RunStore

FAILURES = 3
"""Failures of a proposer in a row after which it is no longer asked."""

Move = tuple[str, tuple[str, ...], str]
"""A phase, the parents it starts from, and the proposer asked."""


class SearchGraph:
    """G=(V, E). ``nodes`` maps ids to judged candidates in order of step and draw; ``steps`` are the run's steps.

    ``spent`` are the moves that brought nothing new, ``failures`` each proposer's errors since it last succeeded, ``hopeless`` what
    those say that can do nothing for the spec.
    """

    def __init__(self, store: RunStore, run_id: str) -> None:
        self._store, self._run_id = store, run_id
        self.nodes: dict[str, Judged] = {}
        self.steps: list[Step] = []
        self.failures: dict[str, list[str]] = {}
        self.hopeless: dict[str, str] = {}
        self.spent: set[Move] = set()
        self.refresh()
        self.learn()

    def refresh(self) -> None:
        """Read the verdicts that are new. Candidates and verdicts never change, so only unknown ones are loaded."""
        fresh = [
            e for e in self._store.evaluations(self._run_id, skip=len(self.nodes)) if e.candidate_id not in self.nodes
        ]
        candidates = self._store.candidates([e.candidate_id for e in fresh])
        self.nodes.update({c.id: Judged(c, e) for c, e in zip(candidates, fresh, strict=True)})

    def learn(self) -> None:
        """Read what the steps so far came to: reflections, what is spent, and proposers' failures in a row."""
        self.steps = self._store.steps(self._run_id)
        proposals = self._store.proposals(self._run_id)
        by_step = {s.step: s for s in self.steps}
        self.spent = {
            (by_step[p.step].phase, by_step[p.step].parents, p.proposer) for p in proposals if not (p.made or p.error)
        }
        self.failures = {}
        for p in proposals:
            self.failures[p.proposer] = [*self.failures.get(p.proposer, []), p.error] if p.error else []
        self.hopeless = {p.proposer: p.error for p in proposals if p.final}

    @property
    def judged(self) -> list[Judged]:
        """All judged candidates, oldest first."""
        return list(self.nodes.values())

    def failed(self, proposer: str) -> bool:
        """Whether a proposer is given up."""
        return proposer in self.hopeless or len(self.failures.get(proposer, ())) >= FAILURES

    def ranked(self) -> list[Judged]:
        """Correct candidates, best first; of equals the older one first."""
        return sorted(
            (n for n in self.judged if is_correct(n.evaluation)), key=lambda n: rank(n.evaluation), reverse=True
        )

    def best(self) -> Judged | None:
        """The best correct candidate."""
        return next(iter(self.ranked()), None)

    def children(self, candidate_id: str) -> list[Judged]:
        """Judged candidates made from this one, oldest first."""
        return [n for n in self.judged if candidate_id in n.candidate.parents]

    def of_step(self, step: int) -> list[Judged]:
        """A step's judged candidates."""
        return [n for n in self.judged if n.candidate.step == step]

    def line(self, candidate_id: str) -> set[str]:
        """A candidate with all its ancestors (a parent from another run ends the line)."""
        seen: set[str] = set()
        todo = [candidate_id]
        while todo:
            current = todo.pop()
            if current not in seen:
                seen.add(current)
                todo += self.nodes[current].candidate.parents if current in self.nodes else ()
        return seen

    def stale(self) -> int:
        """Evaluations since the best so far last changed."""
        since, best = 0, (0.0, False, 0.0, 0.0)
        for node in self.judged:
            since += 1
            if is_correct(node.evaluation) and rank(node.evaluation) > best:
                since, best = 0, rank(node.evaluation)
        return since
