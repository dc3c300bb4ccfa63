"""What a run over a corpus has found so far: one JSON object per line, so that a run that was interrupted goes on where it stopped."""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from evaluators.judge.settings import JudgeSettings

SETTINGS = JudgeSettings(
    pairs=5, batch_ms_cpu=5.0, timing_budget_s=1.0, compile_mode="off", run_s=20.0, interpreter_s=60.0
)
"""The judge's own checks of correctness in full; timing short, against eager alone, because here only the verdict matters."""


def default_path(corpus: str) -> Path:
    """Where the command keeps what it found unless told otherwise."""
    from evaluators.home import home

    return home() / "judge_corpora" / f"{corpus}.jsonl"


class Record:
    """Results by key, in a file that is appended to as they are found."""

    def __init__(self, path: Path, fresh: bool = False) -> None:
        self.path = path
        self.lock = threading.Lock()
        self.results: dict[str, dict[str, Any]] = {}
        path.parent.mkdir(parents=True, exist_ok=True)
        if fresh:
            path.unlink(missing_ok=True)
        if path.exists():
            for line in path.read_text().splitlines():
                try:
                    found = json.loads(line)
                except ValueError:
                    continue  # the line that was being written when the run was interrupted
                self.results[found["key"]] = found

    def add(self, key: str, found: dict[str, Any]) -> None:
        """Keep one result; it is on disk when this returns."""
        with self.lock:
            self.results[key] = {"key": key, **found}
            with self.path.open("a") as file:
                file.write(json.dumps(self.results[key]) + "\n")
                file.flush()
                os.fsync(file.fileno())


def each(jobs: int, items: Sequence[Any], work: Callable[[Any], Iterable[str]]) -> None:
    """Do ``work`` on every item, ``jobs`` at a time, and print the lines it gives with how far the run is."""
    lock = threading.Lock()
    done = 0

    def one(item: Any) -> None:
        nonlocal done
        lines = list(work(item))
        with lock:
            done += 1
            for line in lines:
                print(f"[{done}/{len(items)}] {line}", flush=True)

    with ThreadPoolExecutor(max(1, jobs)) as pool:
        for future in [pool.submit(one, item) for item in items]:
            future.result()


def write_summary(path: str | None, summary: dict[str, Any]) -> None:
    """The JSON result, to a file or to standard output (``-``)."""
    text = json.dumps(summary, indent=1)
    if path == "-":
        sys.stdout.write(text + "\n")
    elif path:
        Path(path).write_text(text + "\n")
