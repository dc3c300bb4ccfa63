"""The read side of the store: every chunk and vector in one file, derived from Chroma and replaced whole.

Two processes on one Chroma folder corrupt it silently, so only a writer that holds the lock opens Chroma. Readers
take this file: it needs no lock, loads in milliseconds without importing chromadb, and gives exact search over all
vectors.
"""

from __future__ import annotations

import io
import json
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from knowledge.documents import Chunk
from knowledge.manifest import write_atomically


@dataclass(frozen=True)
class Snapshot:
    """``vectors`` are unit rows, float32, one per chunk; ``digest`` is that of the manifest it was made from."""

    digest: str
    chunks: tuple[Chunk, ...]
    vectors: NDArray[np.float32]


def write(path: Path, snapshot: Snapshot) -> None:
    """Store ``snapshot`` at ``path`` in one step."""
    fields: dict[str, Any] = {}
    rows = []
    for chunk in snapshot.chunks:
        # The front matter is stored once per document.
        fields.setdefault(chunk.document, chunk.fields)
        rows.append({k: v for k, v in vars(chunk).items() if k != "fields"})
    text = json.dumps({"digest": snapshot.digest, "fields": fields, "chunks": rows}, default=str)
    buffer = io.BytesIO()
    np.savez(buffer, vectors=snapshot.vectors, content=np.frombuffer(text.encode(), np.uint8))
    write_atomically(path, buffer.getvalue())


def read(path: Path) -> Snapshot | None:
    """The snapshot at ``path``, or None where there is none or its format is not this version's."""
    try:
        with np.load(path, allow_pickle=False) as data:
            vectors = np.ascontiguousarray(data["vectors"], np.float32)
            content = json.loads(data["content"].tobytes())
        chunks = tuple(chunk_from(row, content["fields"][row["document"]]) for row in content["chunks"])
        return Snapshot(content["digest"], chunks, vectors)
    except (OSError, ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile, zlib.error):
        return None


def chunk_from(row: dict[str, Any], fields: dict[str, Any]) -> Chunk:
    """A chunk from its plain values and its document's front matter."""
    lists = {k: tuple(row[k]) for k in ("targets", "languages", "operators", "patterns", "diagnoses")}
    first, last = row["lines"]
    return Chunk(**{**row, **lists, "lines": (int(first), int(last)), "fields": fields})
