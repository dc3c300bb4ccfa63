"""A deterministic embedder for tests: words hashed into a vector. Texts that share words are near each other."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


class HashingEmbedder:
    """64 dimensions, no model. ``calls`` counts texts encoded."""

    def __init__(self, model_id: str = "hashing", window: int = 120) -> None:
        self.model_id = model_id
        self.window = window
        self.calls = 0

    def count(self, text: str) -> int:
        """Words."""
        return len(text.split())

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Unit vectors, shape (len(texts), 64)."""
        self.calls += len(texts)
        out = np.zeros((len(texts), 64), np.float32)
        for row, text in enumerate(texts):
            for word in text.lower().split():
                digest = hashlib.md5(word.encode("utf-8", "surrogatepass")).digest()
                out[row, digest[0] % 64] += 1 if digest[1] % 2 else -1
            out[row, 0] += 0.1
        return out / np.maximum(np.linalg.norm(out, axis=1, keepdims=True), 1e-6)
