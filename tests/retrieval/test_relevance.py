"""The floor below which a passage is only the least unlike what was asked."""

from __future__ import annotations

import pytest

from retrieval import Passage
from retrieval.relevance import relevant


@pytest.mark.parametrize(
    ("dense", "lexical", "kept"),
    [
        (0.56, 3.8, True),
        (0.23, 0.0, True),  # another form of the word: meaning alone
        (0.20, 4.4, True),  # rare words of the question, with some meaning
        (0.21, 0.0, False),
        (0.12, 2.3, False),  # a word that happens to be shared
        (0.0, 9.0, False),
    ],
)
def test_meaning_counts_alone_and_words_only_with_meaning(dense: float, lexical: float, kept: bool) -> None:
    scores = {"dense": dense, "lexical": lexical, "structure": 5.0}
    assert relevant(Passage("c", "d", "guidance", "t", "l", "text", 0.06, scores)) is kept
