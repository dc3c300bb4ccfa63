"""From a ranking to the passages given: quotas per kind, an exemplar for every pattern, few passages of one document."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

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

    Quotas that their kind cannot fill go to the best passages left. The result is ordered by kind as in ``quotas``,
    best first within.
    """
    taken: list[int] = []
    used: Counter[str] = Counter()

    def take(i: int) -> bool:
        limit = PER_DOCUMENT.get(chunks[i].kind, PER_OTHER_DOCUMENT) if arms.diversity else len(chunks)
        if i in taken or used[chunks[i].document] >= limit:
            return False
        taken.append(i)
        used[chunks[i].document] += 1
        return True

    for kind, quota in quotas.items():
        own = [i for i in ranked if chunks[i].kind == kind]
        order = _covering(own, chunks, query) if kind == "kernel" and arms.structure else iter(own)
        left = quota
        for i in order:
            if left == 0:
                break
            left -= take(i)
    for i in ranked:
        if len(taken) >= k:
            break
        take(i)
    place = {kind: n for n, kind in enumerate(quotas)}
    rank = {i: n for n, i in enumerate(ranked)}
    return sorted(taken[:k], key=lambda i: (place.get(chunks[i].kind, len(place)), rank[i]))


def _covering(ranked: Sequence[int], chunks: Sequence[Chunk], query: Query) -> Iterator[int]:
    """``ranked`` reordered: the best for each pattern and language in turn, then the second best of each, and so on,
    then the rest.
    """
    queues = [
        [i for i in ranked if pattern in chunks[i].patterns and (not language or language in chunks[i].languages)]
        for pattern in dict.fromkeys(query.patterns)
        for language in query.languages or ("",)
    ]
    seen: set[int] = set()
    documents: set[str] = set()
    for depth in range(max(map(len, queues), default=0)):
        for queue in queues:
            if depth < len(queue) and chunks[queue[depth]].document not in documents:
                seen.add(queue[depth])
                documents.add(chunks[queue[depth]].document)
                yield queue[depth]
    yield from (i for i in ranked if i not in seen)
