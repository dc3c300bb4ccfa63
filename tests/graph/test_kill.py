"""kill -9 at any moment, then resume: no recorded verdict is lost or made twice, and the search ends as if nothing had happened."""

from __future__ import annotations

import multiprocessing
import random
import time
from collections import Counter
from multiprocessing.process import BaseProcess
from pathlib import Path

import pytest

from knowledge.runs.store import RunStore
from tests.graph.toy import work

PRELOAD = ["agent.graph", "agent.steps", "langgraph.checkpoint.sqlite", "filelock", "tests.graph.toy"]


def start(folder: Path) -> BaseProcess:
    """A process working on the run, forked from one that has imported everything: what is tested is the kill, not Python's start."""
    server = multiprocessing.get_context("forkserver")
    server.set_forkserver_preload(PRELOAD)
    process = server.Process(target=work, args=("toy-1", folder))
    process.start()
    return process


def finish(folder: Path) -> None:
    process = start(folder)
    process.join()
    assert process.exitcode == 0


def calls(folder: Path) -> list[str]:
    path = folder / "calls.log"
    return path.read_text().splitlines() if path.exists() else []


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[str, float]]:
    """Verdicts of the same run when nobody interferes."""
    folder = tmp_path_factory.mktemp("undisturbed")
    finish(folder)
    return verdicts(folder)


def verdicts(folder: Path) -> list[tuple[str, float]]:
    store = RunStore(f"sqlite:///{folder / 'store.db'}", str(folder / "objects"))
    found = [(e.candidate_id, e.fitness) for e in store.evaluations("toy-1")]
    store.close()
    return found


@pytest.mark.parametrize("seed", range(4))
def test_killed_at_random_moments(tmp_path: Path, undisturbed: list[tuple[str, float]], seed: int) -> None:
    """Up to five kills, each a random number of judge and proposer calls after the previous one plus a random delay."""
    rng = random.Random(seed)
    kills = 0
    known: list[tuple[str, float]] = []
    for _ in range(5):
        process = start(tmp_path)
        goal = len(calls(tmp_path)) + rng.randint(1, 8)
        while process.is_alive() and len(calls(tmp_path)) < goal:
            time.sleep(0.002)
        time.sleep(rng.uniform(0, 0.06))
        process.kill()
        process.join()
        kills += process.exitcode == -9
        if (tmp_path / "store.db").exists():
            recorded = verdicts(tmp_path)
            assert recorded[: len(known)] == known  # nothing recorded was lost or replaced
            known = recorded
    finish(tmp_path)
    assert verdicts(tmp_path) == undisturbed
    # Judging begins again only for what was in flight: at most one candidate per kill.
    again = Counter(line for line in calls(tmp_path) if line.startswith("begin"))
    assert sum(n - 1 for n in again.values()) <= kills
    assert kills > 0
