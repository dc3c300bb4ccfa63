"""Lexical ranking: BM25 (Robertson and Zaragoza 2009) over words and the parts of identifiers."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

_WORD = re.compile(r"[A-Za-z0-9_]+(?:\.\d+)?")
_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_STOP = frozenset(
    "a an and are as at be by for from has have in into is it its of on or that the their then this to use with".split()
)


def tokens(text: str) -> list[str]:
    """Lower-case words; an identifier gives itself and its parts (``num_warps`` → num_warps, num, warps; ``rowSum2`` →
    rowsum2, row, sum, 2).
    """
    out: list[str] = []
    for word in _WORD.findall(text):
        whole = word.lower()
        if whole not in _STOP:
            out.append(whole)
        parts = [p.lower() for p in _PART.findall(word)]
        if len(parts) > 1:
            out += [p for p in parts if p not in _STOP and p != whole]
    return out


def _bm25s() -> Any:
    """The library, imported without JAX: bm25s runs a JAX operator on import where JAX is installed, and on a GPU machine that takes
    three quarters of the device's memory away from the kernels under test.
    """
    hidden = object()
    before = sys.modules.get("jax", hidden)
    sys.modules["jax"] = None  # type: ignore[assignment]  # what makes an import of it fail
    try:
        import bm25s
    finally:
        if before is hidden:
            del sys.modules["jax"]
        else:
            sys.modules["jax"] = before  # type: ignore[assignment]
    return bm25s


class Lexical:
    """A BM25 index in memory; a corpus of some thousand passages builds in well under a second."""

    def __init__(self, texts: Sequence[str]) -> None:
        bm25s = _bm25s()
        self._size = len(texts)
        self._index: Any = bm25s.BM25()
        corpus = [tokens(t) or ["\0"] for t in texts]
        if corpus:
            self._index.index(corpus, show_progress=False)

    def scores(self, text: str) -> NDArray[np.float32]:
        """BM25 score of every passage, zero where no word matches."""
        known = [t for t in tokens(text) if self._size and t in self._index.vocab_dict]
        # bm25s raises on a query without known words.
        if not known:
            return np.zeros(self._size, np.float32)
        return np.asarray(self._index.get_scores(known), np.float32)

    def unknown(self, text: str) -> list[str]:
        """Words of ``text`` of which neither they nor a part of them is in any passage, in order."""
        known = self._index.vocab_dict if self._size else {}
        return [w for w in dict.fromkeys(_WORD.findall(text)) if tokens(w) and not any(t in known for t in tokens(w))]
