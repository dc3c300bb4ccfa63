"""Why a passage was given, in one line."""

from __future__ import annotations

from retrieval.passage import Passage

_WORDS = {
    "dense": "meaning (cosine {:.2f})",
    "lexical": "words (BM25 {:.1f})",
    "structure": "fit of its front matter ({:+.1f})",
}


_SHORT = {"dense": "meaning {:.2f}", "lexical": "words {:.1f}", "structure": "fit {:+.1f}"}


def why(passage: Passage) -> str:
    """The scores in short: ``meaning 0.61  words 7.2  fit +4.5``. docs/knowledge.md says what they are."""
    return "  ".join(_SHORT.get(name, name + " {:.3f}").format(value) for name, value in passage.scores.items())


def explain(passage: Passage) -> str:
    """For example ``corpora/guidance/a.md, lines 3–9: meaning (cosine 0.61), words (BM25 7.2), fit of its front matter
    (+4.5)``.
    """
    why = ", ".join(_WORDS.get(name, name + " {:.3f}").format(value) for name, value in passage.scores.items())
    return f"{passage.document} {passage.locator}: {why or 'drawn at random'}"
