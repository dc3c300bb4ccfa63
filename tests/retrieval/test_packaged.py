"""On the packaged corpora, every pattern finds its exemplars, for the CPU in C++ and for a GPU in Triton."""

from __future__ import annotations

import pytest

from evaluators import targets
from knowledge.exemplars import load, load_all
from knowledge.ingest import ingest
from knowledge.store import KnowledgeStore
from retrieval import Query
from retrieval.retrieve import Retriever
from tests.knowledge.hashing import HashingEmbedder


@pytest.fixture(scope="module")
def retriever(tmp_path_factory: pytest.TempPathFactory) -> Retriever:
    store = KnowledgeStore.open(tmp_path_factory.mktemp("packaged"), HashingEmbedder(window=200))
    assert ingest(None, store).skipped == ()
    return Retriever(store)


@pytest.mark.parametrize(
    ("target", "language"), [("cpu-x86-64", "cpp"), ("nvidia-h200", "triton"), ("amd-mi300x", "triton")]
)
def test_exemplars_of_every_pattern(retriever: Retriever, target: str, language: str) -> None:
    families = targets.load(target).families
    known = {p for e in load_all() if e.language == language for p in e.patterns}
    for pattern in sorted(known):
        for phase, diagnosis in (("draft", "unknown"), ("improve", "memory_bound"), ("debug", "mismatch")):
            query = Query(f"{pattern} kernel", families, (language,), (), (), (pattern,), phase, diagnosis)
            kernels = [load(p.document) for p in retriever.retrieve(query) if p.kind == "kernel"]
            fitting = [e for e in kernels if pattern in e.patterns and e.language == language]
            assert fitting, (pattern, phase)
            assert kernels[: len(fitting)] == fitting or phase != "draft", "exemplars of the pattern lead"


def test_measured_symptoms_find_moves(retriever: Retriever) -> None:
    families = targets.load("nvidia-h200").families
    for diagnosis in ("memory_bound", "compute_bound", "latency_bound", "spill", "low_occupancy"):
        query = Query("kernel", families, ("triton",), patterns=("row_norm",), phase="improve", diagnosis=diagnosis)
        moves = [m for p in retriever.retrieve(query) for m in p.metadata.get("moves", ())]
        assert any(diagnosis in str(m["when"].get("diagnosis")) for m in moves), diagnosis
