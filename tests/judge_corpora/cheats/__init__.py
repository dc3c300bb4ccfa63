"""Candidates that look faster, or right, without the work. The judge must credit none of them.

A cheat is a Markdown file: one paragraph on what it does and why a careless judge would credit it; a block ``yaml about`` (below);
``python``, its module; and ``cpp``, where its C++ is not the problem's own. Its spec and its honest sibling are those of its ``problem``, a
file of the form of :mod:`tests.judge_corpora.entry` in ``problems/``. Honest kernels here are slow on purpose, slower than PyTorch: whoever
gains on such a spec did not gain it by work.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from evaluators.judge.judge import Judge
from evaluators.judge.settings import JudgeSettings
from evaluators.verdict import Evaluation
from tests.judge_corpora.entry import Entry, EntryError, parts, read

HERE = Path(__file__).parent
SETTINGS = JudgeSettings(
    pairs=7, batch_ms_cpu=20.0, timing_budget_s=2.0, compile_mode="off", run_s=10.0, load_s=90.0, threads=1
)
"""One thread on both sides: a baseline of several is much slower as soon as anything else runs on a machine of few processors."""
EXPECTATIONS = {
    "rejected": "any status but correct (or checked, where the device is absent)",
    "no credit": "not correct, or of fitness 0",
    "no gain": "not correct, or of fitness 0, or an interval that is not wholly above 1 and above the honest sibling's",
}
"""What must come of a cheat. It is accepted by the judge where that does not hold."""


@dataclass(frozen=True)
class Cheat:
    """One candidate and what must come of it; ``kinds`` are numbers of :mod:`tests.judge_corpora.cheats.kinds`, and ``gap`` says why the
    judge is known to accept it, where it does."""

    entry: Entry
    problem: Entry
    kinds: tuple[int, ...]
    expects: str
    gap: str = ""
    gpu: bool = False

    @property
    def name(self) -> str:
        return self.entry.name


@functools.cache
def problem(name: str) -> Entry:
    """A spec with an honest kernel."""
    return read(HERE / "problems" / f"{name}.md")


def cheats(gpu: bool = False) -> list[Cheat]:
    """Every cheat for a CPU, or for a GPU, by name."""
    return [_cheat(path, gpu) for path in sorted((HERE / ("gpu" if gpu else "kernels")).glob("*.md"))]


def _cheat(path: Path, gpu: bool) -> Cheat:
    prose, blocks = parts(path.read_text())
    about = yaml.safe_load(blocks.get("yaml about", "")) or {}
    if not prose or "python" not in blocks or about.get("expects") not in EXPECTATIONS or not about.get("kinds"):
        raise EntryError(
            f"{path}: write a paragraph, a block 'yaml about' with kinds, problem and expects, and 'python'"
        )
    honest = problem(about["problem"])
    native = blocks.get("cpp", honest.native)
    entry = replace(honest, name=path.stem, honest=prose, python=blocks["python"], native=native)
    return Cheat(entry, honest, tuple(about["kinds"]), about["expects"], about.get("gap", ""), gpu)


def accepted(expects: str, found: Mapping[str, Any], honest_high: float = 1.0) -> bool:
    """Whether a verdict falls for a cheat (:data:`EXPECTATIONS`); ``honest_high`` is the upper border of the sibling's interval."""
    if expects == "rejected":
        return found["status"] == "correct" or (found["status"] == "checked" and bool(found["numerics"]))
    credited = found["status"] == "correct" and found["fitness"] > 0
    return credited and (expects == "no credit" or found["interval"][0] > max(1.0, honest_high))


def judge_cheat(judge: Judge, cheat: Cheat, honest: Mapping[str, Any]) -> dict[str, Any]:
    """Judge one cheat, whose honest sibling got the verdict ``honest``; what is worth keeping of the verdict."""
    begin = time.perf_counter()
    found = _kept(judge.evaluate(cheat.entry.candidate()), begin)
    taken = accepted(cheat.expects, found, honest["interval"][1] if honest["interval"] else 1.0)
    return {"kinds": list(cheat.kinds), "expects": cheat.expects, "gap": cheat.gap, "accepted": taken, **found}


def judge_sibling(judge: Judge, entry: Entry) -> dict[str, Any]:
    """Judge an honest kernel: ``accepted`` where it is found right and its own work."""
    begin = time.perf_counter()
    found = judge.evaluate(entry.candidate())
    right = found.status == "correct" or (found.status == "checked" and found.accuracy is not None)
    return {"accepted": right and "does not count" not in found.message, **_kept(found, begin)}


def _kept(found: Evaluation, begin: float) -> dict[str, Any]:
    return {
        "status": found.status,
        "numerics": found.accuracy is not None,
        "fitness": found.fitness,
        "interval": [found.timing.low, found.timing.high] if found.timing else None,
        "message": found.message[:500],
        "samples": found.resources.get("samples"),
        "isolation": found.isolation,
        "target": found.target,
        "seconds": round(time.perf_counter() - begin, 2),
    }
