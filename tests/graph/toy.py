"""A toy search problem for the search's own logic: kernels are numbers, the judge is a formula, and every call leaves a line in a log.

Nothing here stands in for the real judge or proposer in any claim about kernels.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random

from agent.proposers.base import Context
from evaluators.candidate import Candidate
from evaluators.spec.kernel_spec import KernelSpec
from evaluators.target import Target
from evaluators.verdict import Evaluation, Status, Timing
from retrieval.passage import Passage, Query

SPEC = KernelSpec(name="toy", source="yaml", reference="class Model: ...")
TARGET = Target(
    name="toy-cpu",
    kind="cpu",
    vendor="toy",
    architecture="toy",
    families=("toy-cpu", "cpu"),
    memory_bandwidth_gbs=10.0,
    peak_tflops={"float32": 1.0},
    languages=("cpp",),
    compute_units=1,
    warp_size=1,
    l2_bytes=0,
    shared_memory_bytes=0,
    memory_bytes=0,
    present=True,
)


def facts(_spec: KernelSpec, _target: Target) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Operators and patterns of the toy spec."""
    return ("aten::toy",), ("pointwise",)


def log(path: Path | None, line: str) -> None:
    """Append one line in one write, so that a kill leaves it whole or absent."""
    if path is not None:
        with open(path, "ab", buffering=0) as file:
            file.write(f"{line}\n".encode())


def evaluation(
    candidate_id: str, ratio: float, status: Status = "correct", spread: float = 0.01, **more: object
) -> Evaluation:
    """A verdict with that speedup."""
    if status != "correct":
        return Evaluation(candidate_id, TARGET.name, status, 0.0, message=f"{status} here", **more)  # type: ignore[arg-type]
    timing = Timing(
        candidate_ms=1.0 / ratio,
        baseline="eager",
        baselines={"eager": 1.0},
        ratio=ratio,
        low=ratio - spread,
        high=ratio + spread,
        samples=((1.0, 1.0 / ratio),),
        clock="wall",
    )
    return Evaluation(candidate_id, TARGET.name, status, ratio, timing=timing, **more)  # type: ignore[arg-type]


def value_of(source: str) -> float:
    """The number a toy kernel is."""
    return float(source.rpartition(" ")[2])


@dataclass
class ToyJudge:
    """Speedup of x is 2 - |x - 3| / 4, at least 0.1; x below 0 does not compile. ``luck`` is added while searching, not when confirming."""

    path: Path | None = None
    pause: float = 0.0
    luck: float = 0.0
    status: Status | None = None
    baselines: Mapping[str, float] = field(default_factory=lambda: {"eager": 1.0})
    baselines_note: str = ""
    judged: list[str] = field(default_factory=list)
    confirmed: list[str] = field(default_factory=list)

    def evaluate(self, candidate: Candidate) -> Evaluation:
        log(self.path, f"begin {candidate.id}")
        time.sleep(self.pause)
        self.judged.append(candidate.id)
        return self._verdict(candidate, self.luck)

    def confirm(self, candidate: Candidate) -> Evaluation:
        time.sleep(self.pause)
        self.confirmed.append(candidate.id)
        verdict = self._verdict(candidate, 0.0)
        return replace(verdict, timing=verdict.timing and replace(verdict.timing, fresh_process=True))

    def _verdict(self, candidate: Candidate, luck: float) -> Evaluation:
        x = value_of(candidate.source)
        if self.status is not None or x < 0:
            return evaluation(candidate.id, 0.0, self.status or "compile_error")
        return evaluation(candidate.id, max(0.1, 2 - abs(x - 3) / 4) + luck, diagnosis="memory_bound")

    def factory(self, _spec: KernelSpec, _target: Target) -> AbstractContextManager[ToyJudge]:
        """Itself, as the run opens it."""
        return nullcontext(self)


@dataclass
class ToyProposer:
    """Drafts are random numbers; an improvement moves its parent a little; a repair takes the absolute value."""

    name: str = "builtin"
    path: Path | None = None
    limit: int = 10**9
    broken_drafts: bool = False
    pause: float = 0.0
    independent: bool = False
    calls: list[Context] = field(default_factory=list)

    def propose(self, context: Context, n: int) -> list[Candidate]:
        log(self.path, f"propose {context.ids[0]}")
        time.sleep(self.pause)
        self.calls.append(context)
        out: list[Candidate] = []
        for i in context.ids[: min(n, max(0, self.limit - len(context.seen)))]:
            random = Random(f"{context.seed} {i.partition('.')[2]}")
            if context.phase == "draft":
                x = random.uniform(0, 10) * (-1 if self.broken_drafts else 1)
            elif context.phase == "debug":
                x = abs(value_of(context.parents[0].candidate.source))
            elif context.phase == "crossover":
                x = sum(value_of(p.candidate.source) for p in context.parents) / len(context.parents)
            else:
                x = value_of(context.parents[0].candidate.source) + random.uniform(-1, 1)
            out.append(
                Candidate(
                    id=i,
                    language="cpp",
                    source=f"# x = {x}",
                    proposer=self.name,
                    parents=tuple(p.candidate.id for p in context.parents),
                    phase=context.phase,
                    chunk_ids=tuple(p.chunk_id for p in context.passages),
                    note=f"x = {x:.3f}",
                )
            )
        return out


class ToyRetriever:
    """One passage, and a memory of what was asked."""

    def __init__(self) -> None:
        self.queries: list[Query] = []

    def retrieve(self, query: Query, k: int = 12) -> list[Passage]:
        self.queries.append(query)
        return [Passage("chunk-1", "guide.md", "guidance", "A guide", "guide.md#1", f"about {query.diagnosis}", 1.0)][
            :k
        ]


def work(run_id: str, folder: Path) -> None:
    """A process that starts the run, or resumes it where it exists."""
    from agent.run import optimize, resume
    from agent.settings import RunSettings
    from knowledge.errors import RunNotFound

    os.environ["KERNELEVOLVE_HOME"] = str(folder)
    judge = ToyJudge(path=folder / "calls.log", pause=0.02)
    proposer = ToyProposer(path=folder / "calls.log", pause=0.005)
    parts = {"proposers": {"builtin": proposer}, "retriever": ToyRetriever(), "judge_factory": judge.factory}
    try:
        resume(run_id, **parts)  # type: ignore[arg-type]
    except RunNotFound:
        settings = RunSettings(evaluations=20, stagnation=None)
        optimize(SPEC, TARGET, settings, run_id=run_id, facts=facts, **parts)  # type: ignore[arg-type]
