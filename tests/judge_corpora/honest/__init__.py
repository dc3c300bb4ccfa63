"""Correct kernels that a careless judge rejects. The judge must accept every one."""

from __future__ import annotations

import dataclasses
import time
from pathlib import Path
from typing import Any

from evaluators.judge.judge import Judge
from evaluators.judge.settings import JudgeSettings
from tests.judge_corpora.entry import Entry, read_all

FOLDER = Path(__file__).parent / "kernels"


def entries() -> list[Entry]:
    """Every honest kernel, by name."""
    return read_all(FOLDER)


def accepted(status: str, numerics: bool, message: str) -> bool:
    """Whether a verdict accepts a kernel: right, its numerics checked where the device is absent, and its own work."""
    right = status == "correct" or (status == "checked" and numerics)
    return right and "does not count as a generated kernel" not in message


def judge_entry(entry: Entry, settings: JudgeSettings, timed: bool = False) -> dict[str, Any]:
    """Judge one kernel in a session of its own; what is worth keeping of the verdict."""
    begin = time.perf_counter()
    with Judge(entry.spec, entry.target(), settings) as judge:
        found = judge.evaluate(entry.candidate(), timed=timed)
    return {
        "name": entry.name,
        "language": entry.language,
        "dtype": entry.spec.dtype,
        "target": found.target,
        "status": found.status,
        "accepted": accepted(found.status, found.accuracy is not None, found.message),
        "message": found.message[:600],
        "accuracy": dataclasses.asdict(found.accuracy) if found.accuracy else None,
        "ratio": found.timing.ratio if found.timing else None,
        "seconds": round(time.perf_counter() - begin, 2),
    }
