"""Reciprocal rank fusion (Cormack, Clarke and Büttcher 2009): rankings of unlike scores, combined by rank."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

K = 60
WEIGHTS: Mapping[str, float] = {"dense": 1.0, "lexical": 1.0, "structure": 2.0}
"""Structure counts twice: it is exact where the other two guess."""


def ranks(scores: NDArray[np.float32]) -> NDArray[np.int64]:
    """Rank of each score, 0 for the highest; equal scores share the rank of the first of them."""
    ordered = np.sort(-scores)
    return np.searchsorted(ordered, -scores, side="left").astype(np.int64)


def fuse(rankings: Mapping[str, NDArray[np.float32]], size: int) -> NDArray[np.float32]:
    """Sum over rankings of weight / (K + 1 + rank), where ``rankings`` maps names to scores of the same ``size``
    candidates.
    """
    total = np.zeros(size, np.float32)
    for name, scores in rankings.items():
        total += np.float32(WEIGHTS[name]) / (K + 1 + ranks(scores))
    return total
