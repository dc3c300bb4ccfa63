"""What retrieval takes and gives: a Query made from run context, and ranked, cited Passages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Query:
    """What is known at the moment of asking. ``text`` is free text for dense and lexical search; the rest are filters
    and context.

    ``families`` orders the target's knowledge families, nearest first; ``patterns`` are loop-IR pattern names of the
    spec's kernels.
    """

    text: str
    families: tuple[str, ...] = ()
    languages: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()
    operators: tuple[str, ...] = ()
    patterns: tuple[str, ...] = ()
    phase: str = "draft"
    diagnosis: str = "unknown"


@dataclass(frozen=True)
class Passage:
    """One retrieved chunk.

    ``metadata`` is the document's front matter (exemplar fields and moves included); ``scores`` says why it ranked.
    """

    chunk_id: str
    document: str
    kind: str
    title: str
    locator: str
    text: str
    score: float
    scores: Mapping[str, float] = field(default_factory=dict)
    metadata: Mapping[str, Any] = field(default_factory=dict)
