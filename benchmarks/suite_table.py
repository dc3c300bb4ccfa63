"""Turn the results of ``kernelevolve batch`` into a Markdown table with its totals.

    kernelevolve batch starter
    python benchmarks/suite_table.py $KERNELEVOLVE_HOME/batches/NAME/batch.json [MORE.json …] [--copy-gbs 4300]

Only confirmed figures are shown: those of the fresh-process re-run. Where PyTorch is recommended, also for want of a correct candidate,
the shipped ratio counts as 1; runs that failed count nowhere. With
``--copy-gbs`` (a device-to-device copy, measured by device events) a column gives the share of that bandwidth instead of the target's
nominal one, by device events too where there are any: the judge's wall clock also holds the gap between an L2 flush and the launch.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
from pathlib import Path
from typing import Any

from agent.figures import interval, times
from evaluators import targets


def main() -> None:
    """Entry point."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--copy-gbs", type=float)
    options = parser.parse_args()
    rows = [row for file in options.files for row in json.loads(file.read_text())["rows"]]
    share = "of copy bandwidth" if options.copy_gbs else "of roofline"
    print(f"| spec | dtype | eager ms | compile ms | kernel ms | speed-up (95% interval) | {share} | recommended |")
    print("|---|---|---|---|---|---|---|---|")
    for row in rows:
        print(_line(row, options.copy_gbs))
    judged = [r for r in rows if r["ratio"] is not None]
    counted = [r for r in rows if not r.get("error") and r.get("timeable", True)]
    shipped = [r["ratio"] if r["recommendation"] == "kernel" else 1.0 for r in counted]
    print()
    print(f"{len(judged)} of {len(rows)} correct; {sum(r['low'] > 1 for r in judged)} intervals above 1; geometric mean of the kernels "
          f"{_geomean([r['ratio'] for r in judged]):.2f}×, of what is recommended {_geomean(shipped):.2f}×")  # fmt: skip


def _geomean(values: list[float]) -> float:
    return math.exp(statistics.fmean(map(math.log, values))) if values else math.nan


def _line(row: dict[str, Any], copy_gbs: float | None) -> str:
    if row["ratio"] is None:
        reason = row.get("error") or "no correct candidate"
        return f"| {row['spec']} | {row['dtype']} | | | | {reason} | | PyTorch |"
    fraction = row["roofline"]
    if fraction is not None and copy_gbs:
        fraction *= targets.load(row["target"]).memory_bandwidth_gbs / copy_gbs
        if row.get("event_ms"):
            fraction *= row["kernel_ms"] / row["event_ms"]
    compiled = f"{row['compile_ms']:.3g}" if row["compile_ms"] else "–"
    return (
        f"| {row['spec']} | {row['dtype']} | {row['eager_ms']:.3g} | {compiled} | {row['kernel_ms']:.3g} | "
        f"{times(row['ratio'])} ({interval(row['low'], row['high'], '–')}) | {'–' if fraction is None else f'{fraction:.2f}'} | "
        f"{'kernel' if row['recommendation'] == 'kernel' else 'PyTorch'} |"
    )


if __name__ == "__main__":
    main()
