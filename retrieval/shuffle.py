"""The control arm: the right number of passages of the right kinds with the wrong content.

What a search gains over this arm is what finding the right passages is worth: prompts are as long and as varied,
proposers have as many exemplars and moves to act on.
"""

from __future__ import annotations

import hashlib
import random
from collections import Counter
from collections.abc import Sequence

from knowledge.documents import Chunk
from retrieval.passage import Query


def shuffled(like: Sequence[int], chunks: Sequence[Chunk], query: Query, seed: int) -> list[int]:
    """As many chunks of each kind as in ``like``, in the same order of kinds, drawn uniformly over the documents of
    that kind in the whole store: all targets, languages and patterns. The same seed and query draw the same
    passages."""
    draw = _draw(query, seed)
    out: list[int] = []
    for kind, count in Counter(chunks[i].kind for i in like).items():
        documents: dict[str, list[int]] = {}
        for i, chunk in enumerate(chunks):
            if chunk.kind == kind:
                documents.setdefault(chunk.document, []).append(i)
        pools = [draw.sample(own, len(own)) for own in documents.values()]
        draw.shuffle(pools)
        # One passage of each drawn document before a second of any.
        order = [pool[depth] for depth in range(max(map(len, pools))) for pool in pools if depth < len(pool)]
        out += order[:count]
    return out


def uniform(allowed: Sequence[int], chunks: Sequence[Chunk], query: Query, seed: int, k: int) -> list[int]:
    """At most ``k`` exemplars, one passage of each, drawn uniformly over those of ``allowed`` that schedule one of
    the query's patterns; over all of them where its patterns are not known."""
    wanted = set(query.patterns)
    fitting: dict[str, int] = {}
    for i in allowed:
        chunk = chunks[i]
        if chunk.kind == "kernel" and (not wanted or wanted.intersection(chunk.patterns)):
            fitting.setdefault(chunk.document, i)
    pool = sorted(fitting.values(), key=lambda i: chunks[i].id)
    return _draw(query, seed).sample(pool, min(k, len(pool)))


def _draw(query: Query, seed: int) -> random.Random:
    text = f"{seed}\0{query.text}\0{query.phase}\0{query.diagnosis}"
    return random.Random(int.from_bytes(hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()[:8], "big"))
