"""Ingestion: files → documents → chunks → vectors → store. Idempotent, resumable after a kill at any point."""

from __future__ import annotations

import hashlib
import stat
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from knowledge import corpus, damage, loaders
from knowledge.errors import FrontMatterError, UnreadableDocumentError
from knowledge.frontmatter import KINDS
from knowledge.store import KnowledgeStore

if TYPE_CHECKING:
    from knowledge.documents import Chunk, Document

FORMAT = "2"
"""Part of every file's hash: raise it when loading or chunking changes, and every file is done again."""
GROUP = 64
"""Chunks embedded and written together: enough for full batches, little enough to lose."""


@dataclass(frozen=True)
class Skipped:
    """A file that was not ingested. ``reason`` is one line that starts with the file's name."""

    path: str
    reason: str


@dataclass(frozen=True)
class Summary:
    """What an ingestion did. ``documents`` and ``chunks`` count what was written (or would be, in a dry run);
    ``replaced`` are documents that had an earlier version, ``removed`` those whose file is gone; ``unchanged``
    documents were recognised by hash."""

    documents: int
    chunks: int
    replaced: int
    removed: int
    unchanged: int
    skipped: tuple[Skipped, ...]
    seconds: float


Progress = Callable[[int, int, str], None]
"""(files done, files in all, document name)."""


def ingest(
    paths: Sequence[str | Path] | None,
    store: KnowledgeStore,
    target: str | Sequence[str] | None = None,
    kind: str | None = None,
    progress: Progress | None = None,
    dry_run: bool = False,
) -> Summary:
    """Bring the store up to date with the files under ``paths`` (None or empty: the packaged corpora).

    ``target`` (a knowledge family or several) and ``kind`` are for documents that do not say so themselves. Files
    that cannot be read are skipped with a reason; documents whose file is gone from under ``paths`` are removed. A
    dry run loads and chunks, and writes nothing. Raises ``ValueError`` for an unknown ``kind`` and ``StoreBusyError``
    while another process ingests, ``StoreDamagedError`` where the store must be built anew.
    """
    begun = time.perf_counter()
    if store.manifest.entries:
        damage.check(store.path)
    if kind is not None and kind not in KINDS:
        raise ValueError(f"kind {kind!r} is not one of {', '.join(KINDS)}")
    targets = (target,) if isinstance(target, str) else tuple(target or ())
    roots = [r for p in paths for r in corpus.expanded(Path(p))] if paths else corpus.default_paths()
    files, skipped = _files(roots)
    salt = f"{FORMAT}\0{','.join(targets)}\0{kind or ''}\0"
    changed, unchanged = _changed(files, store, salt, skipped)
    gone = _gone(roots, files, store)
    if dry_run:
        loaded = [_load(f, targets, kind, store, skipped) for f in changed]
        done = [cs for cs in loaded if cs is not None]
        replaced = sum(f.name in store.manifest.entries for f in changed)
        return Summary(
            len(done), sum(map(len, done)), replaced, len(gone), unchanged, tuple(skipped), time.perf_counter() - begun
        )
    if not changed and not gone:
        return Summary(0, 0, 0, 0, unchanged, tuple(skipped), time.perf_counter() - begun)
    documents = chunks = replaced = 0
    with store.writing() as writer:
        writer.remove(gone)
        pending: dict[str, tuple[str, Sequence[Chunk]]] = {}
        for i, file in enumerate(changed):
            made = _load(file, targets, kind, store, skipped)
            if made is not None:
                replaced += file.name in store.manifest.entries
                documents += 1
                chunks += len(made)
                pending[file.name] = (file.hash, made)
            if pending and (sum(len(c) for _, c in pending.values()) >= GROUP or i == len(changed) - 1):
                writer.replace(pending)
                pending = {}
            if progress is not None:
                progress(i + 1, len(changed), file.name)
        writer.publish()
    return Summary(documents, chunks, replaced, len(gone), unchanged, tuple(skipped), time.perf_counter() - begun)


@dataclass(frozen=True)
class _File:
    path: Path
    name: str
    data: bytes = b""
    hash: str = ""


def _files(roots: Iterable[Path]) -> tuple[list[_File], list[Skipped]]:
    found: dict[str, _File] = {}
    skipped: list[Skipped] = []
    for root in roots:
        inside: Iterable[Path]
        if root.is_dir():
            inside = (p for p in sorted(root.rglob("*")) if not _hidden(p.relative_to(root)))
        elif root.exists():
            inside = (root,)
        else:
            skipped.append(Skipped(str(root), f"{root}: no such file or folder"))
            continue
        for path in inside:
            problem = _unfit(path)
            if problem:
                skipped.append(Skipped(str(path), f"{path}: {problem}"))
            elif path.is_file():
                name = corpus.document_name(path)
                found.setdefault(name, _File(path, name))
    return list(found.values()), skipped


def _unfit(path: Path) -> str:
    """Why what is at ``path`` is not read; empty for a file that can be, and for a folder."""
    try:
        about = path.stat()
    except OSError as error:
        return f"cannot be read ({error.strerror})"
    kinds = {stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket", stat.S_IFCHR: "a device", stat.S_IFBLK: "a device"}
    kind = kinds.get(stat.S_IFMT(about.st_mode))
    if kind is not None:
        return f"is {kind}, not a file"
    most = loaders.limit(path)
    if about.st_size > most and not path.is_dir():
        return (
            f"has {about.st_size / 1e6:.0f} MB; at most {most / 1e6:.0f} MB are taken in: split it, or leave out data"
        )
    return ""


def _hidden(path: Path) -> bool:
    return any(part.startswith((".", "__")) for part in path.parts)


def _changed(files: list[_File], store: KnowledgeStore, salt: str, skipped: list[Skipped]) -> tuple[list[_File], int]:
    changed: list[_File] = []
    unchanged = 0
    for file in files:
        try:
            data = file.path.read_bytes()
        except OSError as error:
            skipped.append(Skipped(file.name, f"{file.name}: cannot be read ({error.strerror})"))
            continue
        digest = hashlib.sha256(salt.encode() + data).hexdigest()[:20]
        entry = store.manifest.entries.get(file.name)
        if entry is not None and entry.hash == digest:
            unchanged += 1
        else:
            changed.append(replace(file, data=data, hash=digest))
    return changed, unchanged


def _gone(roots: Iterable[Path], files: list[_File], store: KnowledgeStore) -> list[str]:
    present = {f.name for f in files}
    names = [corpus.document_name(r) for r in roots]
    return [
        known
        for known in store.manifest.entries
        if known not in present and any(known == n or known.startswith(n + "/") for n in names)
    ]


def _load(
    file: _File, targets: tuple[str, ...], kind: str | None, store: KnowledgeStore, skipped: list[Skipped]
) -> list[Chunk] | None:
    from knowledge.chunking import chunk

    try:
        document = _settled(loaders.load(file.path, file.data, file.name), targets, kind)
    except (UnreadableDocumentError, FrontMatterError) as error:
        skipped.append(Skipped(file.name, str(error)))
        return None
    return chunk(document, store.embedder.count, store.embedder.window)


def _settled(document: Document, targets: tuple[str, ...], kind: str | None) -> Document:
    """Fill in what the document does not say: its own word, then the caller's, then the loader's."""
    stated = "kind" in document.fields
    return replace(
        document,
        kind=document.kind if stated else kind or document.kind or "guidance",
        targets=document.targets if stated else targets or document.targets or ("any",),
    )
