"""One judge through many hostile candidates, with a right kernel among them now and then, and a look at what is left at the end."""

from __future__ import annotations

import gc
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from evaluators.home import home
from evaluators.judge.judge import Judge
from evaluators.judge.settings import JudgeSettings
from tests.judge.conftest import CPU, row_sum_spec
from tests.judge_corpora.hostile.candidates import Hostile, candidates, right
from tests.judge_corpora.hostile.leaks import BAIT, left, marks, traces

SETTINGS = JudgeSettings(
    seeds=1, run_s=1.5, load_s=4.0, memory_bytes=3 << 29, processes=20, compile_mode="off", batch_ms_cpu=2.0
)
EVERY = 25
"""After so many hostile candidates comes a right one."""


def order(count: int) -> list[Hostile]:
    """``count`` candidates, all in turn."""
    known = candidates()
    return [known[i % len(known)] for i in range(count)]


def judge_all(wanted: Iterable[tuple[int, Hostile]], temporary: Path) -> Iterator[dict[str, Any]]:
    """Judge ``wanted`` (number and candidate) with one judge whose temporary files are in ``temporary``.

    Gives a record of each, of the right kernels among them, and last of what was left."""
    places = [temporary]
    kept, tempfile.tempdir = tempfile.tempdir, str(temporary)
    descriptors = []
    bait = temporary / BAIT
    bait.touch()
    try:
        before = traces(places, home())
        with Judge(row_sum_spec(), CPU, SETTINGS) as judge:
            yield _right(judge, "at first")
            for done, (number, hostile) in enumerate(wanted, 1):
                begin = time.perf_counter()
                found = judge.evaluate(hostile.candidate, timed=False)
                yield {
                    "key": str(number), "name": hostile.name, "status": found.status, "fair": found.status in hostile.fair,
                    "message": found.message[:300], "seconds": round(time.perf_counter() - begin, 3),
                }  # fmt: skip
                if done % EVERY == 0:
                    yield _right(judge, f"after {number + 1}")
                    descriptors.append(traces([], home()).descriptors)
            yield _right(judge, "at last")
        gc.collect()
        found_left = left(before, traces(places, home())) + marks(temporary)
        if not bait.exists():
            found_left.append(f"{bait} deleted")
    finally:
        tempfile.tempdir = kept
    if descriptors and max(descriptors) > descriptors[0]:
        found_left.append(f"{max(descriptors) - descriptors[0]} descriptors while the judge was open")
    yield {"key": "left", "left": found_left, "open": descriptors}


def _right(judge: Judge, place: str) -> dict[str, Any]:
    found = judge.evaluate(right(), timed=False)
    return {
        "key": f"right {place}",
        "status": found.status,
        "message": found.message[:300],
        "isolation": found.isolation,
    }
