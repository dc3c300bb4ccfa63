"""A fixed sample of the hostile candidates; ``python -m tests.judge_corpora.hostile --count 1000`` judges a thousand in a row."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from evaluators import landlock
from tests.judge_corpora.hostile.candidates import candidates
from tests.judge_corpora.hostile.leaks import left, traces
from tests.judge_corpora.hostile.run import judge_all

SAMPLE = {
    "segmentation fault", "exit 0", "stops itself", "signals its parent", "signals everything", "stack overflow", "300 children",
    "a daemon that holds every descriptor", "all descriptors closed", "descriptors in a message", "a folder that nobody may enter",
    "its folder deleted", "directories 3000 deep", "traced by its parent",
}  # fmt: skip
FILES = {
    "a file beside its folder", "what lies beside its folder deleted", "a link to outside", "remounts after all", "a disk that fills",
    "the judge's text written", "its library made of the compiler's environment",
}  # fmt: skip
"""Attacks that Landlock alone stops."""


def test_one_judge_survives_them_and_leaves_nothing(tmp_path: Path) -> None:
    sample = SAMPLE | (FILES if landlock.version() else set())
    wanted = [(i, h) for i, h in enumerate(candidates()) if h.name in sample]
    assert len(wanted) == len(sample)
    found = list(judge_all(wanted, tmp_path))
    assert not [r for r in found if r.get("fair") is False]
    assert {r["status"] for r in found if r["key"].startswith("right")} == {"correct"}
    assert found[-1]["left"] == []


def test_there_are_many_of_them_each_once() -> None:
    names = [h.name for h in candidates()]
    assert len(names) == len(set(names)) >= 75


def test_what_is_left_behind_is_found(tmp_path: Path) -> None:
    before = traces([tmp_path], tmp_path)
    (tmp_path / "candidate-x").mkdir()
    end = os.open(tmp_path, os.O_RDONLY)
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        found = left(before, traces([tmp_path], tmp_path))
        assert f"process {process.pid}" in found
        assert f"file {tmp_path / 'candidate-x'}" in found
        assert any("descriptors" in line for line in found)
    finally:
        os.close(end)
        process.communicate()
    assert left(before, traces([], tmp_path)) == []
