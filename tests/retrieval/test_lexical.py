"""The identifier-splitting tokenizer and BM25's edge cases."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from retrieval.lexical import Lexical, tokens


def test_identifiers_give_themselves_and_their_parts() -> None:
    assert tokens("num_warps") == ["num_warps", "num", "warps"]
    assert tokens("rowSum2") == ["rowsum2", "row", "sum", "2"]
    assert tokens("HTTPServer tl.dot") == ["httpserver", "http", "server", "tl", "dot"]
    assert tokens("the L2 cache of an H200") == ["l2", "l", "2", "cache", "h200", "h", "200"]


@given(st.text(max_size=80))
def test_any_query_scores_every_passage(text: str) -> None:
    index = Lexical(["alpha beta", "num_warps gamma", "", "…"])
    scores = index.scores(text)
    assert scores.shape == (4,)
    assert (scores >= 0).all()


def test_the_right_passage_scores_highest() -> None:
    index = Lexical(["row softmax online", "scan of columns", "set num_warps to 8"])
    assert index.scores("warps").argmax() == 2
    assert index.scores("softmax").argmax() == 0
    assert not index.scores("unknown").any()
    assert Lexical([]).scores("x").shape == (0,)


def test_building_an_index_does_not_import_jax(tmp_path: Path) -> None:
    """JAX takes most of a GPU's memory when it starts; a machine that has it must not lose that to a lexical index."""
    (tmp_path / "jax.py").write_text("raise SystemExit('jax was imported')\n")
    code = "from retrieval.lexical import Lexical; print(len(Lexical(['num_warps', 'tile']).scores('num_warps')))"
    path = os.pathsep.join([str(tmp_path), *[p for p in sys.path if p]])
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr + done.stdout
    assert done.stdout.strip() == "2"
