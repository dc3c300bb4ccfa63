"""The corpus that other evaluators are compared on, and how their verdicts are tabled; ``benchmarks/judge_peers.py`` compares."""

from __future__ import annotations

import ast
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

from evaluators.languages import get, guess
from evaluators.spec import load

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture(scope="module")
def peers() -> ModuleType:
    spec = importlib.util.spec_from_file_location("judge_peers", BENCHMARKS / "judge_peers.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["judge_peers"] = module
    spec.loader.exec_module(module)
    return module


def test_every_candidate_names_its_problem_and_defines_a_model(peers: ModuleType) -> None:
    """Files that an evaluator could not even load would say nothing about it."""
    known = peers.corpus()
    assert sum(e.kind == "cheat" for e in known) >= 15
    assert sum(e.kind == "honest" for e in known) >= 15
    assert {e.problem for e in known} == set((BENCHMARKS / "peers" / "problems").glob("*.py"))
    for entry in known:
        load(str(entry.problem))
        classes = [n.name for n in ast.parse(entry.path.read_text()).body if isinstance(n, ast.ClassDef)]
        assert "ModelNew" in classes, entry.name


def test_honest_kernels_pass_the_static_review(peers: ModuleType) -> None:
    """They are written in the form this project asks for, so that what is rejected is rejected for what it does."""
    for entry in peers.corpus():
        if entry.kind == "honest":
            source = entry.path.read_text()
            assert guess(source) == "triton", entry.name
            get("triton").check(source)


def test_a_file_without_a_header_is_refused(peers: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "cheats").mkdir()
    path = tmp_path / "cheats" / "bare.py"
    path.write_text("import torch\n")
    with pytest.raises(ValueError, match="first lines must say"):
        sys.modules["entry"].read(path)


def test_an_evaluator_that_ends_without_a_result_has_not_accepted(peers: ModuleType, tmp_path: Path) -> None:
    """A candidate that brings its evaluator down is no accepted one, and the reason says how it ended."""
    entry = peers.corpus()[0]
    row = peers.judged("ours", "no-such-target", entry, tmp_path, 60)
    assert row["verdict"] == "rejected"
    assert row["no_result"]
    assert "no-such-target" in row["reason"]


def test_tables_count_what_was_judged_only(peers: ModuleType) -> None:
    rows = [
        {"evaluator": "ours", "candidate": "a", "kind": "cheat", "verdict": "accepted", "speedup": 3.0, "reason": ""},
        {"evaluator": "ours", "candidate": "b", "kind": "cheat", "verdict": "not run", "reason": "needs a GPU"},
        {"evaluator": "ours", "candidate": "c", "kind": "honest", "verdict": "rejected", "reason": "a | b"},
        {"evaluator": "ours", "candidate": "d", "kind": "honest", "verdict": "accepted", "reason": ""},
    ]
    text = peers.tables(rows)
    assert "| cheats judged | 1 |" in text
    assert "| **cheats accepted** | 1 |" in text
    assert "| honest kernels judged | 2 |" in text
    assert "| **honest kernels rejected** | 1 |" in text
    assert "| `a` | **accepted** 3× |" in text
    assert "| `b` | not run: needs a GPU |" in text
    assert r"a \| b" in text
