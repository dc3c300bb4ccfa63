"""Store and ingestion: idempotent, follows changed and deleted files, one writer, survives SIGKILL, filters, model
identity.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from knowledge import damage
from knowledge.documents import chunk_id
from knowledge.errors import EmbeddingModelError, KnowledgeError, StoreBusyError, StoreDamagedError
from knowledge.ingest import ingest
from knowledge.store import KnowledgeStore
from knowledge.where import any_of, both, either, flag, tagged
from tests.knowledge.hashing import HashingEmbedder

ROOT = Path(__file__).parents[2]


def corpus(folder: Path, n: int = 4) -> Path:
    folder.mkdir(exist_ok=True)
    for i in range(n):
        (folder / f"d{i}.md").write_text(
            f"---\ntitle: Doc {i}\nkind: {'guidance' if i % 2 else 'hardware'}\ntargets: [{'cpu' if i % 2 else 'gpu'}]\n"
            f"languages: [cpp]\n---\n# Part\n\nbody number {i} about topic{i}\n\n## Other\n\nmore words {i}\n"
        )
    return folder


@pytest.fixture
def store(tmp_path: Path) -> KnowledgeStore:
    return KnowledgeStore.open(tmp_path / "store", HashingEmbedder())


def test_ingest_is_idempotent_and_unchanged_files_need_no_model(tmp_path: Path, store: KnowledgeStore) -> None:
    folder = corpus(tmp_path / "c")
    first = ingest([folder], store)
    assert (first.documents, first.chunks, first.replaced, first.removed, first.skipped) == (4, 8, 0, 0, ())
    snapshot = store.snapshot()
    again = KnowledgeStore.open(tmp_path / "store", HashingEmbedder())
    second = ingest([folder], again)
    assert (second.documents, second.unchanged) == (0, 4)
    assert isinstance(again.embedder, HashingEmbedder)
    assert again.embedder.calls == 0
    assert again.snapshot().chunks == snapshot.chunks
    assert np.array_equal(again.snapshot().vectors, snapshot.vectors)


def test_changed_and_deleted_files(tmp_path: Path, store: KnowledgeStore) -> None:
    folder = corpus(tmp_path / "c")
    ingest([folder], store)
    changed = folder / "d1.md"
    changed.write_text(changed.read_text().replace("more words 1", "quite different"))
    (folder / "d2.md").unlink()
    before = store.embedder.calls  # type: ignore[attr-defined]
    summary = ingest([folder], store)
    assert (summary.documents, summary.replaced, summary.removed, summary.unchanged) == (1, 1, 1, 2)
    assert store.embedder.calls - before == 1, "only the changed passage is embedded"  # type: ignore[attr-defined]
    texts = " ".join(c.text for c in store.snapshot().chunks)
    assert "quite different" in texts
    assert "more words 1" not in texts
    assert "topic2" not in texts
    with store.writing() as writer:
        assert set(writer.rows()) == {c.id for c in store.snapshot().chunks}, "Chroma holds nothing stale"


def test_files_elsewhere_are_left_alone(tmp_path: Path, store: KnowledgeStore) -> None:
    ingest([corpus(tmp_path / "a", 1), corpus(tmp_path / "a2", 1)], store)
    (tmp_path / "a" / "d0.md").unlink()
    assert ingest([tmp_path / "a"], store).removed == 1
    assert len(store.manifest.entries) == 1
    (tmp_path / "a2" / "d0.md").unlink()
    gone = ingest([tmp_path / "a2" / "d0.md"], store)
    assert gone.removed == 1
    assert gone.skipped[0].reason.endswith("no such file or folder")


def test_bad_files_are_named_and_the_rest_is_ingested(tmp_path: Path, store: KnowledgeStore) -> None:
    folder = corpus(tmp_path / "c", 2)
    (folder / "x.pdf").write_bytes(b"%PDF")
    (folder / "y.md").write_text("---\ntitle: Y\nkind: guidance\n---\ntext\n")
    (folder / ".hidden.md").write_text("hidden")
    summary = ingest([folder, tmp_path / "nowhere"], store)
    assert summary.documents == 2
    reasons = [s.reason for s in summary.skipped]
    assert len(reasons) == 3
    assert any("nowhere: no such file" in r for r in reasons)
    assert any("y.md: targets: missing" in r for r in reasons)
    assert any("x.pdf: no loader for .pdf" in r for r in reasons)


def test_caller_speaks_for_documents_that_do_not(tmp_path: Path, store: KnowledgeStore) -> None:
    (tmp_path / "c").mkdir()
    (tmp_path / "c" / "notes.txt").write_text("a manual")
    ingest([tmp_path / "c"], store, target="nvidia-hopper", kind="hardware")
    chunk = store.snapshot().chunks[0]
    assert (chunk.kind, chunk.targets) == ("hardware", ("nvidia-hopper",))
    ingest([tmp_path / "c"], store)
    chunk = store.snapshot().chunks[0]
    assert (chunk.kind, chunk.targets) == ("guidance", ("any",))
    with pytest.raises(ValueError, match="kind 'novel' is not one of"):
        ingest([tmp_path / "c"], store, kind="novel")


def test_dry_run_writes_nothing(tmp_path: Path, store: KnowledgeStore) -> None:
    summary = ingest([corpus(tmp_path / "c")], store, dry_run=True)
    assert (summary.documents, summary.chunks) == (4, 8)
    assert not (tmp_path / "store").exists()


def test_another_model_is_an_error_that_says_what_to_do(tmp_path: Path, store: KnowledgeStore) -> None:
    ingest([corpus(tmp_path / "c", 1)], store)
    with pytest.raises(
        EmbeddingModelError, match=r"'hashing', not 'other'.*delete the folder and run `kernelevolve ingest`"
    ):
        KnowledgeStore.open(tmp_path / "store", HashingEmbedder("other"))
    (tmp_path / "store" / "manifest.json").unlink()
    other = KnowledgeStore.open(tmp_path / "store", HashingEmbedder("other"))
    with pytest.raises(EmbeddingModelError, match="holds vectors of 'hashing'"):
        ingest([tmp_path / "c"], other)


def test_damaged_manifest_says_what_to_do(tmp_path: Path, store: KnowledgeStore) -> None:
    ingest([corpus(tmp_path / "c", 1)], store)
    (tmp_path / "store" / "manifest.json").write_text("{")
    with pytest.raises(KnowledgeError, match=r"is damaged .*delete the folder"):
        KnowledgeStore.open(tmp_path / "store", HashingEmbedder())


def test_one_writer_while_readers_go_on(tmp_path: Path, store: KnowledgeStore) -> None:
    ingest([corpus(tmp_path / "c", 1)], store)
    other = KnowledgeStore.open(tmp_path / "store", HashingEmbedder())
    inside, leave = threading.Event(), threading.Event()

    def hold() -> None:
        with store.writing():
            inside.set()
            leave.wait(30)

    thread = threading.Thread(target=hold)
    thread.start()
    try:
        assert inside.wait(30)
        with pytest.raises(StoreBusyError, match="another process is ingesting"):
            with other.writing(timeout=0.05):
                pass
        assert len(other.snapshot().chunks) == 2
        (tmp_path / "store" / "snapshot.npz").write_bytes(b"half")
        fresh = KnowledgeStore.open(tmp_path / "store", HashingEmbedder())
        with pytest.raises(StoreBusyError):
            fresh.snapshot(timeout=0.05)
    finally:
        leave.set()
        thread.join()
    assert len(fresh.snapshot().chunks) == 2, "rebuilt from Chroma once the lock is free"


KILLED = """
import sys
from pathlib import Path
import knowledge.ingest as i
from knowledge.store import KnowledgeStore
from tests.knowledge.hashing import HashingEmbedder
i.GROUP = 1
def progress(done, total, name):
    print(done, flush=True)
store = KnowledgeStore.open(Path(sys.argv[1]), HashingEmbedder())
i.ingest([sys.argv[2]], store, progress=progress)
print("end", flush=True)
"""


@pytest.mark.parametrize("after", [1, 4])
def test_killed_ingestion_is_completed_by_the_next(tmp_path: Path, after: int) -> None:
    folder = corpus(tmp_path / "c", 8)
    command = [sys.executable, "-c", KILLED, str(tmp_path / "store"), str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if line.strip() == str(after):
                process.send_signal(signal.SIGKILL)
                break
    assert process.returncode == -signal.SIGKILL
    store = KnowledgeStore.open(tmp_path / "store", HashingEmbedder())
    done = len(store.manifest.entries)
    assert done >= after, "what was acknowledged is kept"
    readable = store.snapshot()
    assert {c.document for c in readable.chunks} == set(store.manifest.entries)
    summary = ingest([folder], store)
    assert summary.documents == 8 - done
    clean = KnowledgeStore.open(tmp_path / "clean", HashingEmbedder())
    ingest([folder], clean)
    assert store.snapshot().chunks == clean.snapshot().chunks
    assert np.allclose(store.snapshot().vectors, clean.snapshot().vectors)


def test_filters_never_make_what_chroma_refuses(tmp_path: Path, store: KnowledgeStore) -> None:
    ingest([corpus(tmp_path / "c")], store)
    assert both() is None
    assert both(None, None) is None
    with store.writing() as writer:
        total = len(writer.rows())
        for where, expected in [
            (both(), total),
            (any_of("kind", []), 0),
            (any_of("kind", ["guidance"]), 4),
            (any_of("kind", ["guidance", "hardware"]), 8),
            (tagged("targets", []), 0),
            (tagged("targets", ["cpu"]), 4),
            (tagged("targets", ["cpu", "gpu"]), 8),
            (tagged("languages", ["cpp"]), 8),
            (tagged("patterns", ["*"]), 8),
            (both(any_of("kind", ["guidance"])), 4),
            (both(any_of("kind", ["guidance"]), None, tagged("targets", ["gpu"])), 0),
            (both(any_of("kind", ["hardware"]), tagged("targets", ["gpu", "any"])), 4),
            (either(), 0),
            ({flag("targets", "cpu"): True}, 4),
        ]:
            assert len(writer.rows(where)) == expected, where


def test_query_vectors_are_kept_on_disk(tmp_path: Path, store: KnowledgeStore) -> None:
    vector = store.query_vector("how to reduce rows")
    again = KnowledgeStore.open(tmp_path / "store", HashingEmbedder())
    assert np.array_equal(again.query_vector("how to reduce rows"), vector)
    assert isinstance(again.embedder, HashingEmbedder)
    assert again.embedder.calls == 0


def test_ids_do_not_depend_on_key_order() -> None:
    assert chunk_id("d", {"a": 1, "b": 2}, "l", "t", 0) == chunk_id("d", {"b": 2, "a": 1}, "l", "t", 0)


def _garbage(database: Path) -> None:
    database.write_bytes(b"nothing that SQLite would know" * 1000)


def _pages(database: Path) -> None:
    """Its head is intact: only what reads it through sees the damage."""
    data = database.read_bytes()
    database.write_bytes(data[:4096] + b"\xaa" * (len(data) - 4096))


@pytest.mark.parametrize(
    "harm",
    [_garbage, _pages, lambda f: f.write_bytes(b""), lambda f: f.unlink(), lambda f: f.write_bytes(f.read_bytes()[:9000])],
    ids=["garbage", "pages", "empty", "gone", "cut"],
)  # fmt: skip
def test_a_damaged_database_is_named_with_how_to_build_it_anew(tmp_path: Path, harm: Callable[[Path], None]) -> None:
    """Nothing is lost silently: what was ingested before is never replaced by what is left of it."""
    folder = corpus(tmp_path / "c")
    ingest([folder], KnowledgeStore.open(tmp_path / "store", HashingEmbedder()))
    harm(tmp_path / "store" / "chroma" / "chroma.sqlite3")
    (folder / "new.md").write_text("# New\n\na new passage\n")
    with pytest.raises(
        StoreDamagedError, match=r"store is damaged .*; delete that folder and run `kernelevolve ingest`"
    ):
        ingest([folder], KnowledgeStore.open(tmp_path / "store", HashingEmbedder()))
    (tmp_path / "store" / "snapshot.npz").unlink()
    with pytest.raises(StoreDamagedError):
        KnowledgeStore.open(tmp_path / "store", HashingEmbedder()).snapshot()
    with pytest.raises(StoreDamagedError):
        damage.check(tmp_path / "store", thorough=True)


def test_a_sound_database_passes_the_thorough_check(tmp_path: Path, store: KnowledgeStore) -> None:
    ingest([corpus(tmp_path / "c")], store)
    damage.check(store.path, thorough=True)


@pytest.mark.parametrize("harm", [b"garbage", b"PK\x03\x04 half a zip", b""])
def test_a_damaged_snapshot_is_made_again(tmp_path: Path, store: KnowledgeStore, harm: bytes) -> None:
    ingest([corpus(tmp_path / "c")], store)
    (store.path / "snapshot.npz").write_bytes(harm)
    assert len(KnowledgeStore.open(store.path, HashingEmbedder()).snapshot().chunks) == 8


@pytest.mark.parametrize("harm", ["garbage", "folder"])
def test_queries_need_no_cache(tmp_path: Path, store: KnowledgeStore, harm: str) -> None:
    """The file that saves embedding a query again may be damaged, or impossible to write."""
    ingest([corpus(tmp_path / "c")], store)
    if harm == "garbage":
        (store.path / "queries.db").write_bytes(b"no database at all" * 100)
    else:
        (store.path / "queries.db").mkdir()
    first = store.query_vector("words")
    again = KnowledgeStore.open(store.path, HashingEmbedder()).query_vector("words")
    assert np.array_equal(first, again)


def test_what_is_no_file_or_too_large_is_skipped_with_a_reason(tmp_path: Path, store: KnowledgeStore) -> None:
    """Nothing waits for a pipe, reads a device for ever, or is left out silently."""
    folder = corpus(tmp_path / "c", 1)
    os.mkfifo(folder / "pipe.md")
    (folder / "nowhere.md").symlink_to(tmp_path / "absent.md")
    with (folder / "large.txt").open("wb") as file:
        file.truncate(60_000_000)
    summary = ingest([folder, Path("/dev/null")], store)
    assert summary.documents == 1
    reasons = {Path(s.path).name: s.reason for s in summary.skipped}
    assert "is a pipe, not a file" in reasons["pipe.md"]
    assert "is a device, not a file" in reasons["null"]
    assert "cannot be read (No such file or directory)" in reasons["nowhere.md"]
    assert "has 60 MB; at most 8 MB are taken in" in reasons["large.txt"]
