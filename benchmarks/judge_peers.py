"""The same cheats and honest kernels through KernelBench's, robust-kbench's and BackendBench's evaluators and through this project's judge.

    python benchmarks/judge_peers.py --kernelbench PATH --robust-kbench PATH --backendbench PATH --jobs 8     # on a GPU; minutes
    python benchmarks/judge_peers.py --backendbench PATH --target nvidia-h200                                 # without: what can run there
    python benchmarks/judge_peers.py --table peers.jsonl > table.md

Each path is a checkout; an evaluator without one is left out. The candidates are in ``benchmarks/peers/``, and how each evaluator is
called is in ``benchmarks/peers/run_*.py``. Every candidate gets a process of its own in each evaluator, with a time limit; on a GPU they
start side by side and take turns where time is measured. A line of the results file is one candidate in one evaluator, and what is there
already is not run again.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent / "peers"
sys.path.insert(0, str(HERE))

from entry import Entry, corpus  # noqa: E402

NAMES = {
    "kernelbench": "KernelBench",
    "robust_kbench": "robust-kbench",
    "backendbench": "BackendBench",
    "ours": "this judge",
}


def main() -> None:
    """Entry point."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("kernelbench", "robust-kbench", "backendbench"):
        parser.add_argument(f"--{name}", type=Path, metavar="PATH", help="its checkout")
    parser.add_argument("--no-ours", action="store_true", help="leave this project's judge out")
    parser.add_argument(
        "--target", default="auto", help="of this project's judge; an absent GPU is compiled for and interpreted"
    )
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME", help="these candidates")
    parser.add_argument("--results", type=Path, default=Path("peers.jsonl"))
    parser.add_argument("--jobs", type=int, default=1, help="processes at a time")
    parser.add_argument(
        "--limit",
        type=float,
        default=180.0,
        help="seconds of one candidate in one evaluator, waiting for its turn included",
    )
    parser.add_argument("--table", type=Path, metavar="RESULTS", help="print the tables of a results file")
    options = parser.parse_args()
    if options.table:
        print(tables(_read(options.table)))
        return
    places = {
        "kernelbench": options.kernelbench,
        "robust_kbench": options.robust_kbench,
        "backendbench": options.backendbench,
        "ours": None if options.no_ours else options.target,
    }
    run({k: str(v) if k == "ours" else str(v.resolve()) for k, v in places.items() if v}, options)
    print(tables(_read(options.results)))


def run(places: dict[str, str], options: argparse.Namespace) -> None:
    """Run what the results file does not hold yet; a line is appended as soon as it is known."""
    done = {(r["evaluator"], r["candidate"]) for r in _read(options.results)} if options.results.exists() else set()
    entries = [e for e in corpus() if not options.only or e.name in options.only]
    todo = [(name, place, e) for name, place in places.items() for e in entries if (name, e.name) not in done]
    gpu = os.path.exists("/dev/nvidiactl")
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(options.jobs) as pool:

        def one(job: tuple[str, str, Entry]) -> dict[str, Any]:
            name, place, entry = job
            base = {
                "evaluator": name,
                "candidate": entry.name,
                "kind": entry.kind,
                "problem": entry.problem.stem,
                "gpu": gpu,
            }
            if entry.needs == "gpu" and not gpu and name != "kernelbench":
                return base | {"verdict": "not run", "reason": "means nothing without a GPU"}
            return base | judged(name, place, entry, Path(folder), options.limit)

        for at, future in enumerate(as_completed([pool.submit(one, job) for job in todo]), 1):
            row = future.result()
            with options.results.open("a") as file:
                file.write(json.dumps(row) + "\n")
            print(
                f"{at}/{len(todo)} {row['evaluator']} {row['candidate']}: {row['verdict']}", file=sys.stderr, flush=True
            )


def judged(name: str, place: str, entry: Entry, folder: Path, limit: float) -> dict[str, Any]:
    """What one evaluator says of one candidate."""
    result = folder / f"{name}-{entry.name}.json"
    command = [sys.executable, str(HERE / f"run_{name}.py"), place, str(entry.path), str(result), str(folder / "lock")]
    begin = time.monotonic()
    with (folder / f"{name}-{entry.name}.log").open("w+") as log:
        process = subprocess.Popen(command, cwd=folder, stdout=log, stderr=log, start_new_session=True)
        try:
            process.wait(limit)
            ended = f"the evaluator's process ended with {process.returncode}"
        except subprocess.TimeoutExpired:
            ended = f"no result after {limit:.0f} s"
        for number in (signal.SIGTERM, signal.SIGKILL):  # whatever it left running
            try:
                os.killpg(process.pid, number)
            except ProcessLookupError:
                break
            time.sleep(0.1)
        process.wait()
        seconds = {"seconds": round(time.monotonic() - begin, 1)}
        if result.exists():
            row: dict[str, Any] = json.loads(result.read_text())
            return row | seconds
        log.seek(0)
        last = (log.read().strip().splitlines() or [""])[-1]
        return {"verdict": "rejected", "reason": f"{ended}: {last[:200]}", "no_result": True} | seconds


def _read(path: Path) -> list[dict[str, Any]]:
    """The last line of each candidate in each evaluator."""
    rows = (json.loads(line) for line in path.read_text().splitlines())
    return list({(r["evaluator"], r["candidate"]): r for r in rows}.values())


def tables(rows: list[dict[str, Any]]) -> str:
    """Markdown: totals, then a line per candidate."""
    names = [n for n in NAMES if any(r["evaluator"] == n for r in rows)]
    by = {(r["evaluator"], r["candidate"]): r for r in rows}

    def count(kind: str, holds: Callable[[dict[str, Any]], bool]) -> list[str]:
        return [str(sum(r["kind"] == kind and r["evaluator"] == n and holds(r) for r in rows)) for n in names]

    def line(*cells: str) -> str:
        return "| " + " | ".join(cells) + " |"

    lines = [line("", *(NAMES[n] for n in names)), "|---" * (len(names) + 1) + "|"]
    lines += [
        line("cheats judged", *count("cheat", _judged)),
        line("**cheats accepted**", *count("cheat", _accepted)),
        line(
            "– and timed as faster than 1.05×",
            *count("cheat", lambda r: _accepted(r) and (r.get("speedup") or 0) > 1.05),
        ),
        line("honest kernels judged", *count("honest", _judged)),
        line("**honest kernels rejected**", *count("honest", lambda r: _judged(r) and not _accepted(r))),
    ]
    for kind, title in (("cheat", "Cheats"), ("honest", "Honest kernels")):
        lines += ["", line(title, *(NAMES[n] for n in names)), "|---" * (len(names) + 1) + "|"]
        known = sorted({r["candidate"] for r in rows if r["kind"] == kind})
        lines += [line(f"`{c}`", *(_cell(by.get((n, c))) for n in names)) for c in known]
    return "\n".join(lines)


def _judged(row: dict[str, Any]) -> bool:
    return bool(row["verdict"] != "not run")


def _accepted(row: dict[str, Any]) -> bool:
    return bool(row["verdict"] == "accepted")


def _cell(row: dict[str, Any] | None) -> str:
    if row is None:
        return ""
    reason = row.get("reason", "").replace("|", "\\|")[:90]
    if row["verdict"] == "not run":
        return f"not run: {reason}"
    wrong = (row["kind"] == "cheat") == (row["verdict"] == "accepted")
    text = f"**{row['verdict']}**" if wrong else row["verdict"]
    if row.get("speedup"):
        text += f" {row['speedup']:.3g}×"
    if row.get("flagged"):
        text += ", flagged as excessive"
    if row.get("filtered"):
        text += ", problem filtered out"
    if row["verdict"] == "rejected":
        text += f": {reason}"
    if row.get("dynamic") == "accepted" and row["verdict"] == "rejected":
        text += "; accepted without that check"
    return text


if __name__ == "__main__":
    main()
