"""What the state machine itself costs: seconds of each recorded step other than proposing and judging.

    python benchmarks/step_overhead.py [RUN…]      (default: the latest run)

Step 0 also loads LangGraph and the retrieval index; the median is over all steps.
"""

from __future__ import annotations

import statistics
import sys

from knowledge.runs.store import RunStore


def main() -> None:
    """Print a line per run: steps, median and largest overhead, and the median spent in retrieval, in milliseconds."""
    store = RunStore()
    for run_id in sys.argv[1:] or [r.id for r in store.list_runs(limit=1)]:
        run = store.get_run(run_id)
        overhead = [1e3 * s.overhead_seconds for s in store.steps(run.id) if s.overhead_seconds is not None]
        retrieval = [1e3 * r.seconds for r in store.retrievals(run.id)]
        if overhead:
            print(
                f"{run.id}: {len(overhead)} steps, overhead median {statistics.median(overhead):.0f} ms, "
                f"largest {max(overhead):.0f} ms, retrieval median {statistics.median(retrieval):.0f} ms"
            )


if __name__ == "__main__":
    main()
