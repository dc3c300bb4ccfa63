"""Retrieval: filters, quotas, an exemplar for every pattern and language, advice for the diagnosis, and what each arm
does.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from knowledge.ingest import ingest
from knowledge.store import KnowledgeStore
from retrieval import Passage, Query, explain
from retrieval.arms import Arms
from retrieval.errors import ArmsError, EmptyStoreError
from retrieval.quotas import quotas
from retrieval.retrieve import Retriever
from tests.knowledge.hashing import HashingEmbedder

DRAFT = Query("a schedule", ("cpu",), ("cpp",), patterns=("row_norm",), operators=("softmax",))


def found(store: KnowledgeStore, query: Query, k: int = 12, **arms: Any) -> list[Passage]:
    return Retriever(store, Arms(**arms)).retrieve(query, k)


def names(passages: list[Passage], kind: str) -> list[str]:
    return [p.document.rsplit("/", 1)[1].removesuffix(".md") for p in passages if p.kind == kind]


@pytest.mark.parametrize("language", ["cpp", "triton"])
@pytest.mark.parametrize("pattern", ["row_norm", "scan", "pointwise"])
def test_exemplars_of_the_pattern_and_language_come_first(store: KnowledgeStore, pattern: str, language: str) -> None:
    family = {"cpp": "cpu", "triton": "gpu"}[language]
    passages = found(store, Query("some kernel", (family,), (language,), patterns=(pattern,)))
    assert set(names(passages[:2], "kernel")) == {f"{pattern}_a", f"{pattern}_b"}
    assert all(p.metadata["language"] == language for p in passages if p.kind == "kernel")


def test_every_pattern_and_language_is_covered(store: KnowledgeStore) -> None:
    query = Query("x", ("cpu", "gpu"), ("cpp", "triton"), patterns=("pointwise", "row_norm", "scan"))
    for phase in ("draft", "improve", "debug", "crossover"):
        kernels = [p.metadata for p in found(store, replace(query, phase=phase)) if p.kind == "kernel"]
        pairs = {(m["patterns"][0], m["language"]) for m in kernels}
        assert len(pairs) == 6, phase


def test_filter_keeps_other_targets_and_languages_out(store: KnowledgeStore) -> None:
    for p in found(store, DRAFT, 40):
        assert not {"triton", "gpu"}.intersection(Path(p.document).parts)
    everything = found(store, DRAFT, 40, metadata_filter=False)
    assert any("/triton/" in p.document for p in everything)


def test_a_diagnosis_finds_its_advice_with_moves(store: KnowledgeStore) -> None:
    for diagnosis, topic in (("spill", "registers"), ("memory_bound", "bandwidth"), ("mismatch", "masks")):
        passages = found(store, replace(DRAFT, phase="improve", diagnosis=diagnosis))
        assert passages[0].kind == "guidance"
        assert names(passages, "guidance")[0] == topic
        assert passages[0].metadata["moves"][0]["do"] == {"knob": "K", "multiply": 2}


def test_a_draft_finds_first_settings_for_its_pattern(store: KnowledgeStore) -> None:
    assert names(found(store, replace(DRAFT, patterns=("scan",))), "guidance")[0] == "start"
    assert (
        names(found(store, replace(DRAFT, patterns=("scan",), phase="improve", diagnosis="spill")), "guidance")[0]
        != "start"
    )


def test_quotas_and_backfill(store: KnowledgeStore) -> None:
    counts = Counter(p.kind for p in found(store, DRAFT, 12))
    assert sum(counts.values()) == 12
    assert counts["constraints"] >= 2
    assert counts["guidance"] >= 2
    assert counts["hardware"] >= 2
    assert counts["kernel"] >= 2
    only = found(store, replace(DRAFT, kinds=("hardware",)), 12)
    assert {p.kind for p in only} == {"hardware"}


def test_search_phase_ranks_all_kinds_together(store: KnowledgeStore) -> None:
    passages = found(store, Query("advice on bandwidth", phase="search"), 5)
    assert "bandwidth" in passages[0].document
    assert [p.score for p in passages] == sorted((p.score for p in passages), reverse=True)


def test_diversity(store: KnowledgeStore) -> None:
    query = Query("more advice on bandwidth bandwidth", phase="search", kinds=("guidance",))
    free = Counter(p.document for p in found(store, query, 6, diversity=False))
    held = Counter(p.document for p in found(store, query, 6))
    assert max(free.values()) == 3
    assert max(held.values()) <= 2


@pytest.mark.parametrize("arm", ["dense", "lexical", "fusion", "structure"])
def test_arms_can_be_switched_off_one_by_one(store: KnowledgeStore, arm: str) -> None:
    passages = found(store, DRAFT, 12, **{arm: False})
    assert len(passages) == 12
    if arm != "fusion":
        assert arm not in passages[0].scores
    else:
        assert set(passages[0].scores) == {"dense", "structure"}


def test_one_arm_must_stay() -> None:
    with pytest.raises(ArmsError, match="leave one on"):
        Arms(dense=False, lexical=False, structure=False)


def test_dense_off_needs_no_model(store: KnowledgeStore) -> None:
    fresh = KnowledgeStore.open(store.path, HashingEmbedder())
    found(fresh, replace(DRAFT, text="never asked before"), dense=False)
    assert fresh.embedder.calls == 0  # type: ignore[attr-defined]


def test_passages_are_cited_and_explained(store: KnowledgeStore) -> None:
    passage = found(store, DRAFT)[0]
    assert "line" in passage.locator
    assert Path(passage.document).read_text().count(passage.text) == 1
    assert explain(passage).startswith(f"{passage.document} {passage.locator}: meaning (cosine ")
    assert "front matter (+" in explain(passage)


def test_equal_queries_give_equal_answers(store: KnowledgeStore) -> None:
    assert found(store, DRAFT) == found(KnowledgeStore.open(store.path, HashingEmbedder()), DRAFT)


def test_follows_the_store(tmp_path: Path) -> None:
    store = KnowledgeStore.open(tmp_path / "store", HashingEmbedder())
    retriever = Retriever(store)
    with pytest.raises(EmptyStoreError, match="run `kernelevolve ingest`"):
        retriever.retrieve(DRAFT)
    (tmp_path / "a.md").write_text("# A\n\nalpha\n")
    ingest([tmp_path / "a.md"], store)
    assert len(retriever.retrieve(DRAFT)) == 1
    (tmp_path / "b.md").write_text("# B\n\nbeta\n")
    ingest([tmp_path / "b.md"], KnowledgeStore.open(tmp_path / "store", HashingEmbedder()))
    assert len(retriever.retrieve(DRAFT)) == 2
    assert retriever.retrieve(replace(DRAFT, kinds=("kernel",))) == []


@pytest.mark.parametrize("seed", range(6))
def test_shuffle_has_the_right_counts_and_the_wrong_content(store: KnowledgeStore, seed: int) -> None:
    right = found(store, DRAFT)
    wrong = found(store, DRAFT, shuffle=True, seed=seed)
    assert Counter(p.kind for p in wrong) == Counter(p.kind for p in right)
    assert len({p.chunk_id for p in wrong}) == len(wrong)
    assert wrong == found(store, DRAFT, shuffle=True, seed=seed)
    assert explain(wrong[0]).endswith("drawn at random")


def test_shuffle_draws_from_everything(store: KnowledgeStore) -> None:
    drawn = [p for seed in range(30) for p in found(store, DRAFT, shuffle=True, seed=seed)]
    kernels = Counter((p.metadata["language"], p.metadata["patterns"][0]) for p in drawn if p.kind == "kernel")
    assert len(kernels) == 6
    assert max(kernels.values()) < 4 * min(kernels.values())


@pytest.mark.parametrize("k", [1, 2, 3, 5, 8, 12, 20])
@pytest.mark.parametrize("phase", ["draft", "improve", "debug", "crossover"])
@pytest.mark.parametrize("diagnosis", ["unknown", "memory_bound", "spill", "compile_error", "timeout"])
def test_quotas_sum_to_k(k: int, phase: str, diagnosis: str) -> None:
    for schedules in (0, 1, 4, 99):
        table = quotas(phase, diagnosis, k, schedules)
        assert sum(table.values()) == k
        assert min(table.values()) >= 0
        assert table["kernel"] >= min(schedules, k // 2)
    assert quotas("search", diagnosis, k) == {}


def test_moves_can_be_withheld_without_changing_the_passages(store: KnowledgeStore) -> None:
    query = replace(DRAFT, phase="improve", diagnosis="spill")
    given, withheld = found(store, query), found(store, query, moves=False)
    assert [p.chunk_id for p in given] == [p.chunk_id for p in withheld]
    assert any("moves" in p.metadata for p in given)
    assert not any("moves" in p.metadata for p in withheld)
    assert all("moves" not in p.metadata for p in found(store, query, moves=False, shuffle=True))


def test_uniform_gives_fitting_exemplars_alone_each_as_often(store: KnowledgeStore) -> None:
    drawn = [found(store, DRAFT, 1, uniform=True, seed=seed) for seed in range(60)]
    counts = Counter(p.document for passages in drawn for p in passages)
    assert {Path(d).stem for d in counts} == {"row_norm_a", "row_norm_b"}
    assert min(counts.values()) > 15
    assert all(p.metadata["language"] == "cpp" for passages in drawn for p in passages)
    assert len(found(store, DRAFT, 12, uniform=True)) == 2
    assert found(store, DRAFT, 12, uniform=True, seed=3) == found(store, DRAFT, 12, uniform=True, seed=3)
    everything = found(store, replace(DRAFT, patterns=()), 12, uniform=True)
    assert {p.kind for p in everything} == {"kernel"}
    assert len(everything) == 6


def test_two_ways_of_drawing_exclude_each_other() -> None:
    with pytest.raises(ArmsError, match="one way or the other"):
        Arms(shuffle=True, uniform=True)
