"""Whether a passage is about what a person asked, or only the least unlike it: every query has a best passage.

The floors were set on the packaged corpora with the default embedding model. Of 29 questions that they answer, the best passage reached a
cosine of 0.20 to 0.69, below 0.23 only together with rare words of the question; of 11 questions about something else entirely none went
above 0.21, or above 0.13 where a word happened to be shared. A search in a run has no floor: there the quotas decide.
"""

from __future__ import annotations

from retrieval.passage import Passage

MEANING = 0.22
"""Cosine that is enough alone."""
WITH_WORDS = 0.15
"""Cosine that is enough together with words of the question."""
WORDS = 1.0
"""BM25 that counts as words of the question."""


def relevant(passage: Passage) -> bool:
    """Whether meaning, or meaning and words, speak for the passage."""
    meaning, words = passage.scores.get("dense", 0.0), passage.scores.get("lexical", 0.0)
    return meaning >= MEANING or (words >= WORDS and meaning >= WITH_WORDS)
