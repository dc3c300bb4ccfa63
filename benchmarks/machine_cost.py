"""What the machine itself costs, proposing and judging apart.

    python benchmarks/machine_cost.py

Prints: seconds of ``--help`` and of re-ingesting an unchanged corpus (whole processes), the median overhead of a step, and the median
seconds to judge a C++ candidate (compile, load, check, time), from the runs in the run store.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time

from knowledge.runs.journal import steps
from knowledge.runs.queries import summaries
from knowledge.runs.store import RunStore


def seconds(*arguments: str) -> float:
    """Median wall seconds of three runs of the command line."""
    taken = []
    for _ in range(3):
        start = time.perf_counter()
        subprocess.run([sys.executable, "-m", "agent.cli", *arguments], check=True, capture_output=True)
        taken.append(time.perf_counter() - start)
    return statistics.median(taken)


def main() -> None:
    """Entry point."""
    print(f"--help                          {seconds('--help'):.2f} s")
    subprocess.run([sys.executable, "-m", "agent.cli", "ingest"], check=True, capture_output=True)
    print(f"ingest, unchanged corpus        {seconds('ingest'):.2f} s")
    store = RunStore()
    overheads: list[float] = []
    judged: list[float] = []
    for run in summaries(store):
        overheads += [s.overhead_seconds for s in steps(store, run.id) if s.overhead_seconds is not None]
        for e in store.evaluations(run.id):
            # The first candidate of a run also waits for the reference and the baselines, which are not its own.
            if (
                e.status == "correct"
                and e.timing is not None
                and "baselines" in e.phases
                and e.phases["baselines"] < 0.5
            ):
                judged.append(sum(e.phases.values()))
    if not overheads:
        print("no runs in the store yet: run `kernelevolve batch starter` first")
        return
    print(f"step overhead, median of {len(overheads):<6} {1000 * statistics.median(overheads):.0f} ms")
    print(f"candidate judged, median of {len(judged):<4}{statistics.median(judged):.2f} s")


if __name__ == "__main__":
    main()
