"""Parts that keep whole searches short: the real judge with little evidence, a judge that only nods, retrieval without a model."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import ClassVar

from evaluators.candidate import Candidate
from evaluators.judge.judge import Judge
from evaluators.judge.settings import JudgeSettings
from evaluators.spec.kernel_spec import KernelSpec
from evaluators.target import Target
from evaluators.verdict import Evaluation
from knowledge.exemplars import load_all
from retrieval.passage import Passage, Query
from tests.graph.toy import evaluation


def real_judge(spec: KernelSpec, target: Target) -> AbstractContextManager[Judge]:
    """The real judge; eager is its only baseline, and it times little."""
    settings = JudgeSettings(compile_mode="off", seeds=1, pairs=3, min_pairs=3, batch_ms_cpu=2.0, timing_budget_s=0.5)
    return Judge(spec, target, settings)


class Nodding:
    """Calls every kernel right and equally fast, for tests of who is asked for the next one."""

    baselines: ClassVar = {"eager": 1.0}
    baselines_note = ""

    def evaluate(self, candidate: Candidate) -> Evaluation:
        """Right."""
        return evaluation(candidate.id, 1.0, diagnosis="memory_bound")

    confirm = evaluate


def nodding_judge(_spec: KernelSpec, _target: Target) -> AbstractContextManager[Nodding]:
    """A :class:`Nodding` judge."""
    return nullcontext(Nodding())


class Shipped:
    """Gives the packaged exemplars as passages, always the same."""

    def retrieve(self, query: Query, k: int = 12) -> list[Passage]:
        """At most ``k`` exemplars of the asked languages."""
        found = [e for e in load_all() if e.language in query.languages]
        return [
            Passage(
                e.name,
                e.document,
                "kernel",
                e.title,
                "whole",
                e.body,
                1.0,
                metadata={"exemplar": e.name, "language": e.language},
            )
            for e in found[:k]
        ]
