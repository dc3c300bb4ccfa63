"""One judge through many hostile candidates: ``python -m tests.judge_corpora.hostile --count 1000``. Exit code 1 where it fails."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

from tests.judge_corpora.hostile.candidates import candidates
from tests.judge_corpora.hostile.run import judge_all, order
from tests.judge_corpora.record import Record, default_path, write_summary


def main(arguments: list[str] | None = None) -> int:
    """Go on where the record ends; print a table of verdicts, the rate, and what was left."""
    parser = argparse.ArgumentParser(prog="python -m tests.judge_corpora.hostile", description=__doc__)
    parser.add_argument(
        "--count", type=int, default=100, help="candidates in all, those recorded already among them (default 100)"
    )
    parser.add_argument("--seconds", type=float, default=1e9, help="stop after so many seconds; the next run goes on")
    parser.add_argument("--record", type=Path, help="where results are kept (default: in the data folder)")
    parser.add_argument("--fresh", action="store_true", help="forget what was recorded")
    parser.add_argument("--json", metavar="FILE", help="write the result as JSON (- for standard output)")
    options = parser.parse_args(arguments)
    record = Record(options.record or default_path("hostile"), options.fresh)
    wanted = [(i, h) for i, h in enumerate(order(options.count)) if str(i) not in record.results]
    begin = time.monotonic()
    if wanted:
        stop = begin + options.seconds
        runs = sum(key.startswith("left") for key in record.results)
        folder = tempfile.mkdtemp(prefix="hostile-")
        os.environ["KERNELEVOLVE_HOME"] = f"{folder}/home"  # nothing of a person's is within reach of what runs here
        os.mkdir(f"{folder}/temporary")
        try:
            for found in judge_all(((i, h) for i, h in wanted if time.monotonic() < stop), Path(folder, "temporary")):
                key = found.pop("key")
                record.add(key if key.isdigit() else f"{key} of run {runs + 1}", found)
                if found.get("fair") is False:
                    print(f"UNFAIR {found['name']}: {found['status']}: {found['message'][:200]}", flush=True)
        finally:
            subprocess.run(["rm", "-rf", folder], check=False)  # deeper than Python's own removal goes
    return _report(record.results, options.json)


def _report(results: dict[str, dict[str, Any]], file: str | None) -> int:
    hostile = [r for k, r in results.items() if k.isdigit()]
    right = [r for k, r in results.items() if k.startswith("right")]
    left = [line for k, r in results.items() if k.startswith("left") for line in r["left"]]
    by_name: dict[str, Counter[str]] = defaultdict(Counter)
    seconds: dict[str, float] = defaultdict(float)
    for r in hostile:
        by_name[r["name"]][r["status"]] += 1
        seconds[r["name"]] += r["seconds"]
    for name, statuses in sorted(by_name.items()):
        count = statuses.total()
        print(
            f"{name:<40}{count:>5} {seconds[name] / count:>7.2f} s  {', '.join(f'{s} {n}' for s, n in statuses.most_common())}"
        )
    total = sum(seconds.values())
    wrong = [r for r in right if r["status"] != "correct"]
    fair = {h.name: h.fair for h in candidates()}
    unfair = [r for r in hostile if r["status"] not in fair[r["name"]]]
    print(f"{len(hostile)} hostile candidates of {len(by_name)} kinds in {total:.0f} s ({total / max(len(hostile), 1):.2f} s each); "
          f"{len(unfair)} with a verdict that is not fair; {len(right)} right kernels among them, {len(right) - len(wrong)} found correct; "
          f"left behind: {', '.join(left) or 'nothing'}")  # fmt: skip
    write_summary(
        file,
        {
            "hostile": len(hostile),
            "seconds": total,
            "unfair": unfair,
            "right": len(right),
            "wrong": wrong,
            "left": left,
        },
    )
    return 1 if wrong or unfair or left else 0


if __name__ == "__main__":
    sys.exit(main())
