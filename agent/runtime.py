"""What the nodes of one run work with: the injected parts, the run's graph, and the clock of the current step."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Event as Flag
from typing import Any, Protocol

from agent.errors import RunInterrupted
from agent.events import Confirmed, Confirming, JudgeReady, Judging, OnEvent, Preparing, silent
from agent.proposers.base import Context, Judged, Proposer
from agent.search.fitness import is_correct
from agent.search.view import SearchGraph
from agent.settings import RunSettings
from evaluators.candidate import Candidate
from evaluators.spec.kernel_spec import KernelSpec
from evaluators.target import Target
from evaluators.targets import witness
from evaluators.verdict import Evaluation
from knowledge.runs.records import Run
from knowledge.runs.store import RunStore
from retrieval.passage import Passage, Query


class Judge(Protocol):
    """What a search needs of a judge; ``evaluators.judge.judge.Judge`` is the real one. It tells ``on_wait``, in words, where it waits for
    other judges on the machine."""

    on_wait: Callable[[str], None] | None

    @property
    def baselines(self) -> Mapping[str, float]:
        """Baseline name → milliseconds per call, of those measured by this judge."""
        ...

    @property
    def baselines_note(self) -> str:
        """Why a baseline was left out, if one was."""
        ...

    def evaluate(self, candidate: Candidate) -> Evaluation:
        """The verdict on one candidate."""
        ...

    def confirm(self, candidate: Candidate) -> Evaluation:
        """The verdict from fresh processes."""
        ...


class Retriever(Protocol):
    """What a search needs of retrieval; ``retrieval.retrieve.Retriever`` is the real one."""

    def retrieve(self, query: Query, k: int = 12) -> list[Passage]:
        """At most ``k`` passages, best first."""
        ...


class Prompt(Protocol):
    """A synthesized prompt: its text, the chunks it cites, what the budget cut, and its length in tokens."""

    @property
    def text(self) -> str: ...
    @property
    def chunk_ids(self) -> tuple[str, ...]: ...
    @property
    def cut(self) -> Any: ...
    @property
    def tokens(self) -> int: ...


JudgeFactory = Callable[[KernelSpec, Target], AbstractContextManager[Judge]]
Synthesize = Callable[[Context, int], Prompt]
"""(context, token budget) → prompt."""


@dataclass
class Clock:
    """Seconds of the current step: since when it runs, how long was spent judging, and the span of proposing (shares may overlap)."""

    started: float = field(default_factory=time.perf_counter)
    judging: float = 0.0
    first_proposal: float | None = None
    last_proposal: float = 0.0

    def proposed(self, begin: float, end: float) -> None:
        """Note one share's span."""
        self.first_proposal = begin if self.first_proposal is None else min(self.first_proposal, begin)
        self.last_proposal = max(self.last_proposal, end)

    @property
    def proposing(self) -> float:
        """Seconds from the first share's start to the last share's end."""
        return 0.0 if self.first_proposal is None else self.last_proposal - self.first_proposal

    @property
    def seconds(self) -> float:
        """Seconds since the step began."""
        return time.perf_counter() - self.started


@dataclass
class Runtime:
    """One run in one process. The judge is opened on first use and closed with the runtime."""

    run: Run
    settings: RunSettings
    store: RunStore
    proposers: Mapping[str, Proposer]
    retriever: Retriever
    judge_factory: JudgeFactory
    folder: Path
    synthesize: Synthesize | None = None
    on_event: OnEvent = silent
    stop: Flag = field(default_factory=Flag)
    clock: Clock = field(default_factory=Clock)

    def __post_init__(self) -> None:
        self.graph = SearchGraph(self.store, self.run.id)
        self._open = ExitStack()
        self._judge: Judge | None = None
        self.aliases: list[Judged] = []  # candidates that came out with the source of a judged one
        self._told = False

    @property
    def judge(self) -> Judge:
        """The judge, opened on first use."""
        if self._judge is None:
            self._judge = self._open.enter_context(self.judge_factory(self.run.spec, self.run.target))
            self._judge.on_wait = lambda text: self.on_event(Preparing(text))
        return self._judge

    def evaluate(self, candidate: Candidate) -> Evaluation:
        """Judge one candidate on the step's clock. The first one also measures the baselines, which is told."""
        begin = time.perf_counter()
        self.on_event(Judging(self.run.id, candidate, self._judge is None, self.run.target.present))
        verdict = self.judge.evaluate(candidate)
        if verdict.status == "infrastructure":  # never the candidate's failure: once more, then on the record as such
            verdict = self.judge.evaluate(candidate)
        self.clock.judging += time.perf_counter() - begin
        if not self._told and (self.judge.baselines or not self.run.target.present):
            self._told = True
            seconds = time.perf_counter() - begin
            self.on_event(JudgeReady(self.run.id, dict(self.judge.baselines), seconds, self.judge.baselines_note))
        return verdict

    def confirm(self, node: Judged) -> Evaluation:
        """The verdict on a candidate from fresh processes, recorded; taken at most once."""
        found = self.store.evaluation(node.candidate.id, "confirm")
        if found is not None:
            return found
        self.check_stop()
        self.on_event(Confirming(self.run.id, node.candidate.id))
        begin = time.perf_counter()
        fresh = replace(self.judge.confirm(node.candidate), candidate_id=node.candidate.id)
        self.clock.judging += time.perf_counter() - begin
        if not is_correct(fresh):
            self.check_stop()  # Ctrl-C reaches the judge's workers too
        found = self.store.add_evaluation(self.run.id, fresh, "confirm")
        witness(self.run.target, found)
        self.on_event(Confirmed(self.run.id, node.candidate.id, found))
        return found

    @property
    def languages(self) -> tuple[str, ...]:
        """Languages a candidate may use."""
        return self.settings.languages or self.run.target.languages

    @property
    def independent(self) -> frozenset[str]:
        """Proposers whose draws need not know of each other, and so may be made at the same time."""
        return frozenset(n for n, p in self.proposers.items() if getattr(p, "independent", False))

    def judged(self, candidate_id: str) -> Judged:
        """A candidate with its verdict; also one from an earlier run."""
        if candidate_id in self.graph.nodes:
            return self.graph.nodes[candidate_id]
        evaluation = self.store.evaluation(candidate_id, "confirm") or self.store.evaluation(candidate_id)
        assert evaluation is not None, candidate_id
        return Judged(self.store.candidate(candidate_id), evaluation)

    def check_stop(self) -> None:
        """Raise :class:`RunInterrupted` where the user asked to stop."""
        if self.stop.is_set():
            raise RunInterrupted(self.run.id)

    def close(self) -> None:
        """End the judge's processes."""
        self._open.close()
        self._judge = None
