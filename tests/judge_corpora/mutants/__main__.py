"""Judge mutants of correct kernels: ``python -m tests.judge_corpora.mutants``. Exit code 1 where one that is no equivalent survives."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.judge_corpora.entry import Entry
from tests.judge_corpora.mutants import equivalent
from tests.judge_corpora.mutants.make import originals
from tests.judge_corpora.mutants.run import OriginalRejected, judge_mutants
from tests.judge_corpora.record import SETTINGS, Record, default_path, each, write_summary


def main(arguments: list[str] | None = None) -> int:
    """Judge what is asked for and not yet recorded; print survivors as they are found, then the totals."""
    parser = argparse.ArgumentParser(prog="python -m tests.judge_corpora.mutants", description=__doc__)
    parser.add_argument("names", nargs="*", help="only mutants of these kernels")
    parser.add_argument(
        "--each", type=int, default=12, help="mutants of each kernel, kinds in turn (0: all; default 12)"
    )
    parser.add_argument("--jobs", type=int, default=1, help="kernels worked on at the same time (default 1)")
    parser.add_argument("--record", type=Path, default=default_path("mutants"), help="where results are kept")
    parser.add_argument("--fresh", action="store_true", help="forget what was recorded")
    parser.add_argument("--json", metavar="FILE", help="write the result as JSON (- for standard output)")
    parser.add_argument(
        "--equivalents", action="store_true", help="check the listed equivalents on random inputs instead"
    )
    parser.add_argument(
        "--inputs", type=int, default=100_000, help="random inputs for each equivalent (default 100000)"
    )
    options = parser.parse_args(arguments)
    known = originals()
    unknown = set(options.names) - {e.name for e in known}
    if unknown:
        parser.error(f"no kernel {', '.join(sorted(unknown))}; there are {', '.join(e.name for e in known)}")
    wanted = [e for e in known if not options.names or e.name in options.names]
    if options.equivalents:
        from tests.judge_corpora.mutants.agreement import check_all

        return check_all(wanted, options.inputs)
    record = Record(options.record, options.fresh)
    settings = replace(SETTINGS, run_s=10.0, interpreter_s=30.0)
    found: list[dict[str, Any]] = []
    rejected: list[str] = []

    def work(entry: Entry) -> Iterator[str]:
        try:
            results = judge_mutants(entry, options.each, settings, record)
        except OriginalRejected as error:
            rejected.append(entry.name)
            yield f"NO MUTANTS, the original is rejected: {error}"
            return
        found.extend(results)
        killed = sum(r["verdict"] == "killed" for r in results)
        yield f"{entry.name}: {killed} of {sum(r['verdict'] != 'does not compile' for r in results)} killed"
        for r in results:
            if r["verdict"] == "survived":
                yield f"  SURVIVED {r['mutant']} ({r['kind']}) {r['diff']!r}"
            elif r["verdict"] not in ("killed", "does not compile"):
                yield f"  {r['verdict']} {r['mutant']} ({r['kind']}) {r['message'][:160]}"

    each(options.jobs, wanted, work)
    summary = {**totals(found), "originals_rejected": rejected}
    write_summary(options.json, {**summary, "results": found})
    print(
        f"{summary['mutants']} mutants of {summary['kernels']} kernels: {summary['killed']} killed, {summary['equivalent']} equivalent, "
        f"{summary['survived']} survived ({summary['killed_share']:.2%} of those that are bugs are killed)"
    )
    print("by status: " + ", ".join(f"{k} {v}" for k, v in summary["by_status"].items()))
    return 1 if summary["survived"] or summary["undecided"] or rejected else 0


def totals(found: list[dict[str, Any]]) -> dict[str, Any]:
    """Counts over results; equivalents count neither way."""
    verdicts = Counter(r["verdict"] for r in found)
    killed, survived = verdicts["killed"], verdicts["survived"]
    statuses = Counter(r["status"] for r in found if r["verdict"] == "killed")
    return {
        "corpus": "mutants",
        "kernels": len({r["kernel"] for r in found}),
        "mutants": killed + survived + verdicts["equivalent"],
        "killed": killed,
        "survived": survived,
        "equivalent": verdicts["equivalent"],
        "undecided": verdicts["undecided"],
        "killed_share": killed / max(killed + survived, 1),
        "by_status": dict(statuses.most_common()),
        "equivalents_listed": len(equivalent.known()),
    }


if __name__ == "__main__":
    sys.exit(main())
