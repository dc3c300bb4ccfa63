"""KnowledgeStore: chunks and their vectors in an embedded Chroma collection, one writer, lock-free readers."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from evaluators.home import home
from knowledge import damage
from knowledge import snapshot as snapshots
from knowledge.documents import Chunk
from knowledge.errors import EmbeddingModelError, StoreBusyError, StoreDamagedError
from knowledge.manifest import Entry, Manifest
from knowledge.snapshot import Snapshot
from knowledge.where import Where, flag

if TYPE_CHECKING:
    from knowledge.embed import Embedder, QueryCache

COLLECTION = "chunks"
BATCH = 2000
"""Rows per Chroma call; its limit is 5461."""
LISTS = ("targets", "languages", "operators", "patterns", "diagnoses")


class KnowledgeStore:
    """What is known. Open with :meth:`open`; write inside :meth:`writing`; read through :meth:`snapshot`."""

    def __init__(self, path: Path, embedder: Embedder) -> None:
        self.path = path
        self.embedder = embedder
        self.manifest = Manifest.read(path / "manifest.json")
        self._snapshot: Snapshot | None = None
        self._queries: QueryCache | None = None
        self._check_model()

    @classmethod
    def open(cls, path: str | Path | None = None, embedder: Embedder | None = None) -> KnowledgeStore:
        """The store at ``path`` (default: ``knowledge`` in the data folder), created on the first write.

        Raises ``EmbeddingModelError`` where it was filled with another model than ``embedder``.
        """
        if embedder is None:
            from knowledge.embed import default

            embedder = default()
        return cls(Path(path) if path is not None else home() / "knowledge", embedder)

    def _check_model(self) -> None:
        found = self.manifest.model
        if found and found != self.embedder.model_id:
            raise EmbeddingModelError(
                f"{self.path} was embedded with {found!r}, not {self.embedder.model_id!r}: use that model "
                f"(KERNELEVOLVE_EMBEDDING={found}), or delete the folder and run `kernelevolve ingest` to embed again"
            )

    def __len__(self) -> int:
        """Number of chunks."""
        return sum(len(e.ids) for e in self.manifest.entries.values())

    @property
    def digest(self) -> str:
        """Hash of the store's content."""
        return self.manifest.digest

    def query_vector(self, text: str) -> NDArray[np.float32]:
        """Unit vector of a query text; a text asked before, in any process, loads no model."""
        if self._queries is None:
            from knowledge.embed import QueryCache

            self._queries = QueryCache(self.path / "queries.db")
        return self._queries.vector(text, self.embedder)

    def snapshot(self, timeout: float = 30.0) -> Snapshot:
        """Every chunk with its vector, as of the last finished ingestion.

        While another process ingests, this is the state before it began. Raises ``StoreBusyError`` where there is no
        such state and the other process does not finish within ``timeout`` seconds, ``StoreDamagedError`` where the
        store cannot be used any more.
        """
        self.manifest = Manifest.read(self.manifest.path)
        self._check_model()
        digest = self.digest
        if self._snapshot is not None and self._snapshot.digest == digest:
            return self._snapshot
        if self.manifest.entries:
            damage.check(self.path)
        found = snapshots.read(self.path / "snapshot.npz")
        if not self.manifest.entries and found is None:
            found = Snapshot(digest, (), np.zeros((0, 0), np.float32))
        if found is None or found.digest != digest:
            # An ingestion is under way, or one was killed before it published its snapshot.
            try:
                with self.writing(timeout=0.0 if found is not None else timeout) as writer:
                    found = writer.publish()
            except StoreBusyError:
                if found is None:
                    raise
        self._snapshot = found
        return found

    @contextmanager
    def writing(self, timeout: float = 600.0) -> Iterator[Writer]:
        """The one writer: takes the lock, opens Chroma on first use and closes it.

        Raises ``StoreBusyError`` after ``timeout`` seconds.
        """
        from filelock import FileLock, Timeout

        self.path.mkdir(parents=True, exist_ok=True)
        try:
            lock = FileLock(self.path / "write.lock", timeout=timeout)
            lock.acquire()
        except Timeout:
            raise StoreBusyError(
                f"another process is ingesting into {self.path}; try again when it has finished"
            ) from None
        writer = Writer(self)
        try:
            self.manifest = Manifest.read(self.manifest.path)
            self._check_model()
            with damage.named(self.path):
                yield writer
        finally:
            writer.close()
            lock.release()


@dataclass
class Writer:
    """Writes of one holder of the lock. Chroma's client lives only as long: another process may write next."""

    store: KnowledgeStore
    _client: Any = None
    _collection: Any = None

    @property
    def collection(self) -> Any:
        """The Chroma collection, created with cosine space and the model's id.

        Raises ``EmbeddingModelError`` on another model's.
        """
        if self._collection is None:
            import chromadb
            from chromadb.config import Settings
            from chromadb.errors import NotFoundError

            if self.store.manifest.entries:
                damage.check(self.store.path)
            model = self.store.embedder.model_id
            path = str(self.store.path / "chroma")
            self._client = chromadb.PersistentClient(path, settings=Settings(anonymized_telemetry=False))
            try:
                self._collection = self._client.get_collection(COLLECTION, embedding_function=None)
            except NotFoundError:
                self._collection = self._client.create_collection(
                    COLLECTION, metadata={"model": model, "hnsw:space": "cosine"}, embedding_function=None
                )
            found = (self._collection.metadata or {}).get("model")
            if found != model:
                raise EmbeddingModelError(
                    f"{self.store.path} holds vectors of {found!r}, not {model!r}: delete the folder and run `kernelevolve ingest`"
                )
        return self._collection

    def replace(self, documents: Mapping[str, tuple[str, Sequence[Chunk]]]) -> int:
        """Put documents (name → hash and chunks) in the store in place of their earlier versions; returns how many
        chunks were new.

        Order matters for a kill at any point: chunks first, then the removal of stale ones, then the manifest.
        """
        manifest = self.store.manifest
        chunks = [c for _, cs in documents.values() for c in cs]
        known = {i for name in documents if name in manifest.entries for i in manifest.entries[name].ids}
        kept = self._vectors([c.id for c in chunks if c.id in known])
        fresh = [c for c in chunks if c.id not in kept]
        if fresh:
            made = self.store.embedder.encode([c.searched for c in fresh])
            kept |= dict(zip([c.id for c in fresh], made, strict=True))
        for at in range(0, len(chunks), BATCH):
            part = chunks[at : at + BATCH]
            self.collection.upsert(
                ids=[c.id for c in part],
                embeddings=np.stack([kept[c.id] for c in part]),
                documents=[c.text for c in part],
                metadatas=[_metadata(c) for c in part],
            )
        self._delete(known - {c.id for c in chunks})
        manifest.model = self.store.embedder.model_id
        for name, (digest, own) in documents.items():
            manifest.entries[name] = Entry(digest, tuple(c.id for c in own))
        manifest.save()
        return len(fresh)

    def remove(self, names: Sequence[str]) -> int:
        """Take documents out of the store; returns how many chunks went."""
        manifest = self.store.manifest
        stale = {i for name in names if name in manifest.entries for i in manifest.entries[name].ids}
        self._delete(stale)
        for name in names:
            manifest.entries.pop(name, None)
        if names:
            manifest.save()
        return len(stale)

    def publish(self) -> Snapshot:
        """Write the snapshot that readers take.

        Rows that a killed writer left without a manifest entry are dropped here. Raises ``StoreDamagedError`` where one
        with an entry is gone.
        """
        manifest = self.store.manifest
        wanted = {i for e in manifest.entries.values() for i in e.ids}
        rows = self.rows()
        if not wanted <= set(rows):
            lost = len(wanted - set(rows))
            raise StoreDamagedError(str(self.store.path), f"{lost} of its {len(wanted)} passages are gone")
        self._delete(set(rows) - wanted)
        order = [i for name in sorted(manifest.entries) for i in manifest.entries[name].ids]
        found = [rows[i] for i in order]
        vectors = np.stack([v for _, v in found]) if found else np.zeros((0, 0), np.float32)
        result = Snapshot(manifest.digest, tuple(c for c, _ in found), vectors)
        snapshots.write(self.store.path / "snapshot.npz", result)
        return result

    def rows(self, where: Where | None = None) -> dict[str, tuple[Chunk, NDArray[np.float32]]]:
        """Chunks with vectors by id, straight from Chroma."""
        got = self.collection.get(where=where, include=["documents", "metadatas", "embeddings"])
        out: dict[str, tuple[Chunk, NDArray[np.float32]]] = {}
        for i, text, meta, vector in zip(
            got["ids"], got["documents"], got["metadatas"], got["embeddings"], strict=True
        ):
            plain = json.loads(meta["chunk"])
            chunk = snapshots.chunk_from({**plain, "id": i, "text": text}, json.loads(meta["fields"]))
            out[i] = (chunk, np.asarray(vector, np.float32))
        return out

    def close(self) -> None:
        """Release Chroma."""
        if self._client is not None:
            self._client.close()
            self._client = self._collection = None

    def _vectors(self, ids: Sequence[str]) -> dict[str, NDArray[np.float32]]:
        if not ids:
            return {}
        got = self.collection.get(ids=list(ids), include=["embeddings"])
        return {i: np.asarray(v, np.float32) for i, v in zip(got["ids"], got["embeddings"], strict=True)}

    def _delete(self, ids: set[str]) -> None:
        items = sorted(ids)
        for at in range(0, len(items), BATCH):
            self.collection.delete(ids=items[at : at + BATCH])


def _metadata(chunk: Chunk) -> dict[str, str | bool | int]:
    """Chroma metadata: scalars to filter by, list fields as flags, and the rest as JSON."""
    plain = {k: v for k, v in vars(chunk).items() if k not in ("id", "text", "fields")}
    flags = {flag(name, v): True for name in LISTS for v in (getattr(chunk, name) or ("*",))}
    return {
        "document": chunk.document,
        "kind": chunk.kind,
        "chunk": json.dumps(plain),
        "fields": json.dumps(chunk.fields, default=str),
        **flags,
    }
