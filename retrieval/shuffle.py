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
    text = f"{seed}\0{query.text}\0{query.phase}\0{query.diagnosis}"
    draw = random.Random(int.from_bytes(hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()[:8], "big"))
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
