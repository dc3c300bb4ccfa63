"""Structural ranking: how well a document's front matter fits the situation, whatever its words.

A kernel's schedule is decided by its loop pattern, and advice by the symptom it treats; both are known exactly, so
they need no guessing from text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from knowledge.documents import Chunk
from retrieval.passage import Query

# Weights order what fits better; only the order of their sums matters.
EXEMPLAR = 4.0
PATTERN = 2.0
FOREIGN_PATTERN = -2.0
DIAGNOSIS = 2.0
FOREIGN_DIAGNOSIS = -0.5
MOVE = 3.0
OPERATOR = 0.5
LANGUAGE = 0.5


def score(chunk: Chunk, query: Query) -> float:
    """Sum of what fits minus what does not; 0 for a document that says nothing of itself."""
    patterns, languages = set(query.patterns), set(query.languages)
    total = 0.0
    speaks = bool(languages.intersection(chunk.languages))
    if chunk.patterns and patterns:
        if patterns.intersection(chunk.patterns):
            total += EXEMPLAR if chunk.kind == "kernel" and (speaks or not languages) else PATTERN
        else:
            total += FOREIGN_PATTERN
    total += LANGUAGE * speaks
    total += OPERATOR * min(len(set(query.operators).intersection(chunk.operators)), 2)
    if chunk.diagnoses and query.diagnosis != "unknown":
        total += DIAGNOSIS if query.diagnosis in chunk.diagnoses else FOREIGN_DIAGNOSIS
    if any(_speaks_to(move, query) for move in chunk.fields.get("moves") or ()):
        total += MOVE
    return total + _nearness(chunk.targets, query.families)


def _speaks_to(move: Mapping[str, Any], query: Query) -> bool:
    """Whether a move is about this situation: every condition known at this moment holds, and one of them is the
    diagnosis or the phase.

    Which exemplar will be used is not known yet, so a condition on it decides nothing. Nothing was diagnosed before a
    draft.
    """
    when = move.get("when") or {}
    known: tuple[tuple[str, Sequence[str]], ...] = (
        ("diagnosis", (query.diagnosis,)),
        ("phase", (query.phase,)),
        ("language", query.languages),
        ("pattern", query.patterns),
    )
    for name, facts in known:
        wanted = _listed(when.get(name))
        if wanted and facts and not set(wanted).intersection(facts):
            return False
    return "diagnosis" in when or "phase" in when


def _nearness(targets: Sequence[str], families: Sequence[str]) -> float:
    """1 for a document on exactly this target, less for wider families, 0 for one on any."""
    places = [i for i, family in enumerate(families) if family in targets]
    return 1 - min(places) / len(families) if places else 0.0


def _listed(value: Any) -> list[Any]:
    return list(value) if isinstance(value, (list, tuple)) else [] if value is None else [value]
