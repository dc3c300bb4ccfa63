"""Retriever: from a query to ranked, cited passages."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from knowledge.documents import Chunk
from retrieval import dense, structure
from retrieval.arms import Arms
from retrieval.errors import EmptyStoreError
from retrieval.fusion import fuse
from retrieval.lexical import Lexical
from retrieval.passage import Passage, Query
from retrieval.quotas import quotas
from retrieval.selection import select
from retrieval.shuffle import shuffled, uniform

if TYPE_CHECKING:
    from knowledge.snapshot import Snapshot
    from knowledge.store import KnowledgeStore

__all__ = ["Arms", "Retriever"]

Scores = NDArray[np.float32]


@dataclass(frozen=True)
class _Index:
    snapshot: Snapshot
    lexical: Lexical | None


class Retriever:
    """Hybrid retrieval over a knowledge store.

    Follows the store: passages ingested later are found by the next call.
    """

    def __init__(self, store: KnowledgeStore, arms: Arms | None = None) -> None:
        self.store = store
        self.arms = arms if arms is not None else Arms()
        self._index: _Index | None = None

    def retrieve(self, query: Query, k: int = 12) -> list[Passage]:
        """At most ``k`` passages. In a run's phases they come by kind in the order of :mod:`retrieval.quotas`, best
        first within a kind; in the phases ``search`` and ``chat`` simply best first. Raises ``EmptyStoreError`` where
        nothing was ingested."""
        index = self._current()
        chunks = index.snapshot.chunks
        if not chunks:
            raise EmptyStoreError(f"the knowledge store {self.store.path} is empty; run `kernelevolve ingest`")
        allowed = [i for i, c in enumerate(chunks) if _allowed(c, query, self.arms)]
        if not allowed or k <= 0:
            return []
        if self.arms.uniform:
            return [self._given(chunks[i], 0.0, {}) for i in uniform(allowed, chunks, query, self.arms.seed, k)]
        rankings = self._rankings(index, query, allowed)
        fused = fuse(rankings, len(allowed))
        # Ties by id, so that equal stores give equal answers.
        order = sorted(range(len(allowed)), key=lambda n: (-float(fused[n]), chunks[allowed[n]].id))
        place = {allowed[n]: n for n in order}
        schedules = len(set(query.patterns)) * max(len(query.languages), 1)
        wanted = {
            kind: n
            for kind, n in quotas(query.phase, query.diagnosis, k, schedules).items()
            if not query.kinds or kind in query.kinds
        }
        picked = select([allowed[n] for n in order], chunks, query, self.arms, wanted, k)
        if self.arms.shuffle:
            return [self._given(chunks[i], 0.0, {}) for i in shuffled(picked, chunks, query, self.arms.seed)]
        return [
            self._given(chunks[i], float(fused[place[i]]), {name: float(s[place[i]]) for name, s in rankings.items()})
            for i in picked
        ]

    def _given(self, chunk: Chunk, score: float, scores: dict[str, float]) -> Passage:
        found = passage(chunk, score, scores)
        if self.arms.moves:
            return found
        return replace(found, metadata={name: value for name, value in found.metadata.items() if name != "moves"})

    def unknown(self, text: str) -> list[str]:
        """Words of ``text`` that no passage holds, as written; the ranking by words knows nothing of them."""
        index = self._current()
        return [] if index.lexical is None else index.lexical.unknown(text)

    def _rankings(self, index: _Index, query: Query, allowed: list[int]) -> dict[str, Scores]:
        """Scores of the allowed chunks by each arm that is on."""
        arms, found = self.arms, dict[str, Scores]()
        if arms.dense:
            found["dense"] = dense.scores(index.snapshot.vectors[allowed], self.store.query_vector(query.text))
        if index.lexical is not None and (arms.fusion or not arms.dense):
            words = " ".join((query.text, *query.languages, *query.patterns, *query.operators))
            found["lexical"] = index.lexical.scores(words)[allowed]
        if arms.structure:
            chunks = index.snapshot.chunks
            found["structure"] = np.array([structure.score(chunks[i], query) for i in allowed], np.float32)
        return found

    def _current(self) -> _Index:
        snapshot = self.store.snapshot()
        if self._index is None or self._index.snapshot.digest != snapshot.digest:
            lexical = Lexical([c.searched for c in snapshot.chunks]) if self.arms.lexical else None
            self._index = _Index(snapshot, lexical)
        return self._index


def passage(chunk: Chunk, score: float, scores: dict[str, float]) -> Passage:
    """The passage that a chunk becomes. Its locator names the lines, its metadata is the document's front matter."""
    first, last = chunk.lines
    lines = f"line {first}" if first == last else f"lines {first}–{last}"
    return Passage(
        chunk_id=chunk.id,
        document=chunk.document,
        kind=chunk.kind,
        title=chunk.title,
        locator=f"{chunk.locator}, {lines}" if chunk.locator else lines,
        text=chunk.text,
        score=score,
        scores=scores,
        metadata=chunk.fields,
    )


def _allowed(chunk: Chunk, query: Query, arms: Arms) -> bool:
    if query.kinds and chunk.kind not in query.kinds:
        return False
    if not arms.metadata_filter:
        return True
    here = not query.families or "any" in chunk.targets or not set(query.families).isdisjoint(chunk.targets)
    spoken = not query.languages or not chunk.languages or not set(query.languages).isdisjoint(chunk.languages)
    return here and spoken
