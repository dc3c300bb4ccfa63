"""Judge every cheat: ``python -m tests.judge_corpora.cheats``. Exit code 1 where one is accepted that is not a known gap."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from itertools import groupby
from pathlib import Path
from typing import Any

from evaluators import targets
from evaluators.judge.judge import Judge
from tests.judge_corpora.cheats import SETTINGS, Cheat, cheats, judge_cheat, judge_sibling
from tests.judge_corpora.record import Record, default_path, write_summary


def main(arguments: list[str] | None = None) -> int:
    """Judge what is asked for and not yet recorded, spec by spec; print a table."""
    parser = argparse.ArgumentParser(prog="python -m tests.judge_corpora.cheats", description=__doc__)
    parser.add_argument("names", nargs="*", help="only these cheats")
    parser.add_argument("--gpu", action="store_true", help="the cheats for a GPU; skipped where there is none")
    parser.add_argument("--absent", action="store_true", help="with --gpu: compile and interpret where there is no GPU")
    parser.add_argument("--record", type=Path, help="where results are kept (default: in the data folder)")
    parser.add_argument("--fresh", action="store_true", help="forget what was recorded")
    parser.add_argument("--json", metavar="FILE", help="write the result as JSON (- for standard output)")
    options = parser.parse_args(arguments)
    known = cheats(options.gpu)
    unknown = set(options.names) - {c.name for c in known}
    if unknown:
        parser.error(f"no cheat {', '.join(sorted(unknown))}; there are {', '.join(c.name for c in known)}")
    if options.gpu and not options.absent and targets.load("auto").kind != "gpu":
        print(f"{len(known)} cheats skipped: they need a GPU, and this machine has none")
        return 0
    record = Record(options.record or default_path("cheats-gpu" if options.gpu else "cheats"), options.fresh)
    wanted = [c for c in known if not options.names or c.name in options.names]
    todo = [c for c in wanted if _key(c) not in record.results]
    todo.sort(key=_group)
    with tempfile.TemporaryDirectory(prefix="home-") as folder:
        os.environ["KERNELEVOLVE_HOME"] = folder  # cheats look for what others left there, and leave things themselves
        for _, members in groupby(todo, key=_group):
            _judge(list(members), record)
    results = [{**record.results[_key(c)], "kinds": c.kinds, "gap": c.gap} for c in wanted]
    specs = {c.problem.name for c in wanted}
    refused = [
        f"{r['name']} {r['place']}"
        for r in record.results.values()
        if not r["accepted"] and r["name"] in specs and "place" in r
    ]
    return _report(results, sorted(refused), options.json)


def _group(cheat: Cheat) -> str:
    return cheat.problem.name


def _key(cheat: Cheat) -> str:
    return f"{cheat.name}/{cheat.entry.digest}"


def _judge(group: list[Cheat], record: Record) -> None:
    """One judge for all cheats on a spec, with the honest sibling before and after them: what they leave behind must not touch it."""
    first = group[0]
    with Judge(first.problem.spec, first.entry.target(), SETTINGS) as judge:
        honest = _sibling(judge, first, "before", record)
        for cheat in group:
            found = {"name": cheat.name, **judge_cheat(judge, cheat, honest)}
            record.add(_key(cheat), found)
            _print(cheat.name, ", ".join(map(str, cheat.kinds)), found)
        _sibling(judge, first, "after", record)


def _sibling(judge: Judge, cheat: Cheat, place: str, record: Record) -> dict[str, Any]:
    found = judge_sibling(judge, cheat.problem)
    record.add(f"honest/{cheat.problem.name}/{place}", {"name": cheat.problem.name, "place": place, **found})
    _print(f"({cheat.problem.name})", "", found)
    return found


def _print(name: str, kinds: str, found: dict[str, Any]) -> None:
    honest = not kinds
    taken = found["accepted"]
    word = (
        ("ok" if taken else "REFUSED") if honest else (("gap" if found["gap"] else "ACCEPTED") if taken else "caught")
    )
    interval = "[{:.2f}, {:.2f}]".format(*found["interval"]) if found["interval"] else ""
    first = found["message"].splitlines()[0] if found["message"] else ""
    print(
        f"{word:<9}{name:<32}{kinds:<8}{found['status']:<16}{found['fitness']:>6.2f} {interval:<15} {first[:150]}",
        flush=True,
    )


def _report(results: list[dict[str, Any]], refused: list[str], file: str | None) -> int:
    taken = [r for r in results if r["accepted"]]
    gaps = [r["name"] for r in taken if r["gap"]]
    failed = [r["name"] for r in taken if not r["gap"]]
    blamed = [r["name"] for r in results if r["status"] == "infrastructure"]
    closed = [r["name"] for r in results if r["gap"] and not r["accepted"]]
    kinds = sorted({k for r in results for k in r["kinds"]})
    summary = {
        "cheats": len(results),
        "kinds": kinds,
        "gaps": gaps,
        "accepted": failed,
        "refused": refused,
        "results": results,
    }
    write_summary(file, summary)
    print(
        f"{len(results)} cheats of {len(kinds)} kinds: {len(results) - len(taken)} caught, {len(gaps)} accepted and known"
    )
    if closed:
        print(f"known gaps that were not accepted this time: {', '.join(closed)}")
    if failed:
        print(f"ACCEPTED: {', '.join(failed)}")
    if blamed:
        print(f"put down to the judge's own trouble: {', '.join(blamed)}")
    if refused:
        print(f"honest siblings that were refused: {', '.join(refused)}")
    return 1 if failed or refused or blamed else 0


if __name__ == "__main__":
    sys.exit(main())
