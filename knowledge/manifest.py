"""The manifest: which version of which document is in the store, under which chunk ids.

It is what makes ingestion idempotent and cheap: an unchanged file is recognised by its hash before a model or a
database is loaded. A document's entry is written after its chunks are in Chroma, so a crash in between only means
that this document is done again.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from knowledge.errors import KnowledgeError


@dataclass(frozen=True)
class Entry:
    """One ingested document: hash of its bytes and ingestion settings, and its chunks' ids."""

    hash: str
    ids: tuple[str, ...]


@dataclass
class Manifest:
    """``model`` is the embedding model of every vector in the store (empty for a new store)."""

    path: Path
    model: str = ""
    entries: dict[str, Entry] = field(default_factory=dict)

    @property
    def digest(self) -> str:
        """Hash of the whole content; equal digests mean equal stores."""
        return hashlib.sha256(self._text().encode()).hexdigest()[:20]

    def _text(self) -> str:
        entries = {name: [e.hash, list(e.ids)] for name, e in sorted(self.entries.items())}
        return json.dumps({"model": self.model, "documents": entries})

    def save(self) -> None:
        """Replace the file in one step, so that a reader or a crash never sees half of it."""
        write_atomically(self.path, self._text().encode())

    @classmethod
    def read(cls, path: Path) -> Manifest:
        """The manifest at ``path``, empty where there is none. Raises ``KnowledgeError`` where it is damaged."""
        try:
            data = json.loads(path.read_text(encoding="utf-8"))
            entries: Mapping[str, tuple[str, list[str]]] = data["documents"]
            return cls(path, data["model"], {name: Entry(h, tuple(ids)) for name, (h, ids) in entries.items()})
        except FileNotFoundError:
            return cls(path)
        except (ValueError, KeyError, TypeError) as error:
            raise KnowledgeError(
                f"{path} is damaged ({error}); delete the folder {path.parent} and ingest again"
            ) from None


def write_atomically(path: Path, data: bytes) -> None:
    """Write beside ``path`` and rename over it."""
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        beside.write_bytes(data)
        os.replace(beside, path)
    except OSError:  # a full disk: what is there of it only takes room
        beside.unlink(missing_ok=True)
        raise
