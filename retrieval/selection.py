"""From a ranking to the passages given: quotas per kind, an exemplar for every pattern, few passages of one document."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from knowledge.documents import Chunk
from retrieval.arms import Arms
from retrieval.passage import Query

PER_DOCUMENT: Mapping[str, int] = {"kernel": 1}
"""An exemplar is loaded whole by whoever is given one passage of it."""
PER_OTHER_DOCUMENT = 2


def select(
    ranked: Sequence[int], chunks: Sequence[Chunk], query: Query, arms: Arms, quotas: Mapping[str, int], k: int
) -> list[int]:
    """Indices of at most ``k`` chunks. ``ranked`` lists candidates, best first; empty ``quotas`` take the best of any
    kind.

    Within a quota, other documents come before a second passage of one: front matter and its moves come with any
    passage. Quotas that their kind cannot fill go to the best passages left. The result is ordered by kind as in
    ``quotas``, best first within.
    """
    taken: list[int] = []
    used: Counter[str] = Counter()

    def take(i: int, per_document: int) -> bool:
        if i in taken or (arms.diversity and used[chunks[i].document] >= per_document):
            return False
        taken.append(i)
        used[chunks[i].document] += 1
        return True

    def limit(kind: str) -> int:
        return PER_DOCUMENT.get(kind, PER_OTHER_DOCUMENT)

    for kind, quota in quotas.items():
        own = [i for i in ranked if chunks[i].kind == kind]
        if kind == "kernel" and arms.structure and query.patterns:
            own = _covering(own, chunks, query)
        left = quota
        for per_document in range(1, limit(kind) + 1):
            for i in own:
                if left > 0:
                    left -= take(i, per_document)
    for i in ranked:
        if len(taken) >= k:
            break
        take(i, limit(chunks[i].kind))
    place = {kind: n for n, kind in enumerate(quotas)}
    rank = {i: n for n, i in enumerate(ranked)}
    return sorted(taken[:k], key=lambda i: (place.get(chunks[i].kind, len(place)), rank[i]))


def _covering(ranked: Sequence[int], chunks: Sequence[Chunk], query: Query) -> list[int]:
    """Those of ``ranked`` that schedule one of the query's patterns: the best for each pattern and language in turn,
    then the second best of each, and so on. Exemplars of other patterns get no place from the quota; they may still
    be among the best passages left."""
    queues = [
        [i for i in ranked if pattern in chunks[i].patterns and (not language or language in chunks[i].languages)]
        for pattern in dict.fromkeys(query.patterns)
        for language in query.languages or ("",)
    ]
    out: list[int] = []
    documents: set[str] = set()
    for depth in range(max(map(len, queues), default=0)):
        for queue in queues:
            if depth < len(queue) and chunks[queue[depth]].document not in documents:
                documents.add(chunks[queue[depth]].document)
                out.append(queue[depth])
    return out
