"""Do documents act? The same search with retrieved passages and with shuffled ones (right count, wrong content), side by side.

    python benchmarks/documents_act.py [--specs a,b] [--evaluations 6] [--seeds 1] [--out results.json]

Both arms of a spec share one judge, one baseline, one seed and one budget; the built-in proposer may use only what retrieval brings.
Outcome per run: log(max(F, 1)) of the best fitness found. Reported: the mean paired difference with a 95% bootstrap interval over specs.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import statistics
import tempfile
from pathlib import Path
from typing import Any

from agent import assemble
from agent.run import optimize
from agent.settings import RunSettings
from evaluators import targets
from evaluators.candidate import Candidate
from evaluators.judge.judge import Judge
from evaluators.spec import load_suite
from evaluators.verdict import Evaluation

ARMS: dict[str, dict[str, Any]] = {"retrieval": {}, "shuffled": {"shuffle": True}}


class Shared:
    """One judge for both arms of a spec; the search's own figures are the outcome here, so nothing is confirmed afresh."""

    def __init__(self, judge: Judge) -> None:
        self.judge = judge

    def __enter__(self) -> Shared:
        return self

    def __exit__(self, *exc: object) -> None:
        return None

    def evaluate(self, candidate: Candidate, timed: bool = True) -> Evaluation:
        return self.judge.evaluate(candidate, timed)

    def confirm(self, candidate: Candidate) -> Evaluation:
        return self.judge.evaluate(candidate, True)

    @property
    def baselines(self) -> Any:
        return self.judge.baselines

    @property
    def baselines_note(self) -> str:
        return self.judge.baselines_note

    @property
    def environment(self) -> Any:
        return self.judge.environment


def best(evaluations: Any) -> float:
    """Best fitness of a run, at least 1 (the baseline is always available)."""
    return max([1.0, *(e.fitness for e in evaluations)])


def interval(values: list[float]) -> tuple[float, float]:
    """95% percentile bootstrap interval of the mean, 10,000 resamples."""
    rng = random.Random(0)
    means = sorted(statistics.fmean(rng.choices(values, k=len(values))) for _ in range(10_000))
    return means[249], means[9749]


def main() -> None:
    """Entry point."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--specs", default="")
    parser.add_argument("--evaluations", type=int, default=6)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    target = targets.load("auto")
    wanted = [s for s in options.specs.split(",") if s]
    specs = [s for s in load_suite("starter", profile=target.kind) if not wanted or s.name in wanted]
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as home:
        for spec in specs:
            with Judge(spec, target) as judge:
                for seed in range(options.seeds):
                    row: dict[str, Any] = {"spec": spec.name, "seed": seed}
                    for arm, switches in ARMS.items():
                        arms = {**switches, "seed": seed}
                        settings = RunSettings(
                            evaluations=options.evaluations,
                            stagnation=None,
                            roofline=None,
                            seed=seed,
                            arms=arms,
                            home=home,
                        )
                        result = optimize(
                            spec,
                            target,
                            settings,
                            judge_factory=lambda *_, j=judge: Shared(j),
                            store=assemble.open_store(settings),
                        )
                        row[arm] = best(result.evaluations)
                        row[f"{arm}_correct"] = sum(e.status == "correct" for e in result.evaluations)
                        row[f"{arm}_judged"] = len(result.evaluations)
                    rows.append(row)
                    print(
                        f"{spec.name:26} retrieval {row['retrieval']:.2f}× ({row['retrieval_correct']}/{row['retrieval_judged']})  "
                        f"shuffled {row['shuffled']:.2f}× ({row['shuffled_correct']}/{row['shuffled_judged']})",
                        flush=True,
                    )
    gains = [math.log(r["retrieval"]) - math.log(r["shuffled"]) for r in rows]
    low, high = interval(gains)
    for arm in ARMS:
        print(f"geometric mean of max(F, 1), {arm}: {math.exp(statistics.fmean(math.log(r[arm]) for r in rows)):.2f}×")
    print(
        f"retrieval over shuffled: {math.exp(statistics.fmean(gains)):.2f}× (95% interval {math.exp(low):.2f} to {math.exp(high):.2f})"
    )
    if options.out:
        options.out.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
