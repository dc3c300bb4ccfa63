"""Arms: the parts of retrieval, each with its own switch. Ablations vary these."""

from __future__ import annotations

from dataclasses import dataclass

from retrieval.errors import ArmsError


@dataclass(frozen=True)
class Arms:
    """Everything on is the product.

    ``shuffle`` and ``uniform`` are for control arms: as many passages of each kind as retrieval would give, drawn at random; and none but
    exemplars that can be filled in at all, drawn at random. ``uniform`` without ``moves`` is no retrieval.
    """

    metadata_filter: bool = True
    """Only documents for the query's target families and languages."""
    dense: bool = True
    """Rank by cosine of sentence embeddings."""
    lexical: bool = True
    """Rank by BM25 over identifiers and words."""
    fusion: bool = True
    """Combine the two by reciprocal rank; off, dense alone decides (lexical where dense is off)."""
    structure: bool = True
    """Rank by what front matter says of patterns, languages, diagnoses and moves, and give every pattern its
    exemplars.
    """
    diversity: bool = True
    """At most a few passages of one document."""
    moves: bool = True
    """Passages bring their documents' moves; off, the same passages come without."""
    shuffle: bool = False
    uniform: bool = False
    """No ranking at all: exemplars that fit the program's patterns, the target and the languages, drawn uniformly."""
    seed: int = 0
    """Of what is drawn at random."""

    def __post_init__(self) -> None:
        if self.shuffle and self.uniform:
            raise ArmsError("shuffle and uniform are both on: passages are drawn one way or the other")
        if not (self.dense or self.lexical or self.structure):
            raise ArmsError("dense, lexical and structure are all off: leave one on, or there is nothing to rank by")
