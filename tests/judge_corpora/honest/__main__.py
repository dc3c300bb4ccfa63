"""Judge every honest kernel: ``python -m tests.judge_corpora.honest``. Exit code 1 where one is rejected."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.judge_corpora.entry import Entry
from tests.judge_corpora.honest import entries, judge_entry
from tests.judge_corpora.record import SETTINGS, Record, default_path, each, write_summary


def main(arguments: list[str] | None = None) -> int:
    """Judge what is asked for and not yet recorded; print one line each, then the totals."""
    parser = argparse.ArgumentParser(prog="python -m tests.judge_corpora.honest", description=__doc__)
    parser.add_argument("names", nargs="*", help="only these kernels")
    parser.add_argument("--timed", action="store_true", help="time them too, and refuse work that is PyTorch's")
    parser.add_argument("--jobs", type=int, default=1, help="kernels judged at the same time (default 1)")
    parser.add_argument("--record", type=Path, help="where results are kept (default: in the data folder)")
    parser.add_argument("--fresh", action="store_true", help="forget what was recorded")
    parser.add_argument("--json", metavar="FILE", help="write the result as JSON (- for standard output)")
    options = parser.parse_args(arguments)
    known = entries()
    unknown = set(options.names) - {e.name for e in known}
    if unknown:
        parser.error(f"no kernel {', '.join(sorted(unknown))}; there are {', '.join(e.name for e in known)}")
    wanted = [e for e in known if not options.names or e.name in options.names]
    corpus = "honest-timed" if options.timed else "honest"
    record = Record(options.record or default_path(corpus), options.fresh)

    def key(entry: Entry) -> str:
        return f"{entry.name}/{entry.digest}/{'timed' if options.timed else 'untimed'}"

    def work(entry: Entry) -> Iterator[str]:
        found = judge_entry(entry, SETTINGS, options.timed)
        record.add(key(entry), found)
        verdict = "accepted" if found["accepted"] else "REJECTED"
        ratio = f" {found['ratio']:.2f}x" if found["ratio"] else ""
        yield f"{verdict} {entry.name:<28} {found['status']:<12}{ratio} {found['seconds']:.1f} s"
        if not found["accepted"]:
            yield f"         {found['message'][:400]}"

    each(options.jobs, [e for e in wanted if key(e) not in record.results], work)
    results = [record.results[key(e)] for e in wanted]
    rejected = [r["name"] for r in results if not r["accepted"]]
    summary = {
        "corpus": "honest",
        "timed": options.timed,
        "kernels": len(results),
        "cpp": sum(r["language"] == "cpp" for r in results),
        "triton": sum(r["language"] == "triton" for r in results),
        "rejected": rejected,
        "results": results,
    }
    write_summary(options.json, summary)
    print(f"{len(results)} honest kernels, {len(rejected)} rejected{': ' + ', '.join(rejected) if rejected else ''}")
    return 1 if rejected else 0


if __name__ == "__main__":
    sys.exit(main())
