"""Run a plan: block by block, arms in random order, nothing twice."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass

from evaluators.spec.kernel_spec import KernelSpec
from retrieval.ablation.design import Arm, order
from retrieval.ablation.plan import Plan
from retrieval.ablation.records import Outcome, Record, Records

Run = Callable[[Arm, KernelSpec, int], Outcome]
"""arm, spec, seed → what the search came to."""
Block = Callable[[KernelSpec, int], AbstractContextManager[Run]]
"""spec, seed → the runs of a block, which share what is held open meanwhile (a judge)."""


@dataclass(frozen=True)
class Step:
    """A run that has ended; ``done`` of ``total`` have a result now."""

    done: int
    total: int
    record: Record


def perform(
    plan: Plan,
    specs: Sequence[KernelSpec],
    records: Records,
    block: Block,
    tell: Callable[[Step], None],
    describe: Callable[[Exception], str] = str,
) -> None:
    """Run what has no result yet. A run that fails is recorded with its error in the words of ``describe``, and the others go on; a
    KeyboardInterrupt passes through, with everything that finished kept.
    """
    records.mend()
    done = {r.key for r in records.read() if not r.error}
    total = len(specs) * len(plan.seeds) * len(plan.arms)
    count = len(done)

    def put(record: Record) -> None:
        nonlocal count
        records.append(record)
        count += not record.error
        tell(Step(count, total, record))

    for spec in specs:
        for seed in plan.seeds:
            arms = enumerate(order(plan.arms, plan.seed, spec.name, seed))
            left = [(n, arm) for n, arm in arms if (spec.name, seed, arm.name) not in done]
            if not left:
                continue
            sitting = uuid.uuid4().hex[:8]
            with ExitStack() as held:
                try:
                    run = held.enter_context(block(spec, seed))
                except Exception as error:
                    for position, arm in left:
                        put(Record(spec.name, seed, arm.name, position, sitting, error=describe(error)))
                    continue
                for position, arm in left:
                    begun = time.monotonic()
                    try:
                        outcome = run(arm, spec, seed)
                    except Exception as error:
                        put(Record(spec.name, seed, arm.name, position, sitting, error=describe(error)))
                        continue
                    seconds = time.monotonic() - begun
                    put(_record(plan, spec.name, seed, arm, position, sitting, outcome, seconds))


def _record(
    plan: Plan, spec: str, seed: int, arm: Arm, position: int, sitting: str, outcome: Outcome, seconds: float
) -> Record:
    """A search that ended early keeps its best for the rest of the budget."""
    curve = list(outcome.curve)[: plan.evaluations]
    judged = len(outcome.curve)
    curve += [curve[-1] if curve else 1.0] * (plan.evaluations - len(curve))
    return Record(
        spec, seed, arm.name, position, sitting, max(outcome.best, 1.0), tuple(curve), judged, outcome.correct,
        round(seconds, 3), outcome.run_id, outcome.weak,
    )  # fmt: skip
