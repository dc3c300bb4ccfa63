"""A fixed sample of the honest corpus; ``python -m tests.judge_corpora.honest`` judges all of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from evaluators.languages import get
from tests.judge_corpora.entry import EntryError, read
from tests.judge_corpora.honest import accepted, entries, judge_entry
from tests.judge_corpora.record import SETTINGS, Record

SAMPLE = "gemm_splitk_bias_relu scatter_add_atomic nan_and_inf triton_layernorm_bf16".split()


@pytest.mark.parametrize("name", SAMPLE)
def test_a_correct_kernel_is_accepted(name: str) -> None:
    entry = next(e for e in entries() if e.name == name)
    found = judge_entry(entry, SETTINGS)
    assert found["accepted"], f"{found['status']}: {found['message']}"


def test_every_kernel_passes_the_static_review_and_has_a_spec() -> None:
    """Cheap for all of them: specs load, sources are reviewed; that the corpus is as broad as it says."""
    known = entries()
    assert len(known) >= 40
    for entry in known:
        assert entry.spec.name == entry.name
        get(entry.language).check(entry.source())
    assert {e.spec.dtype for e in known} == {"float32", "bfloat16", "float16", "float64"}
    assert {e.language for e in known} == {"cpp", "triton"}


def test_an_unchecked_or_foreign_kernel_is_not_accepted() -> None:
    """``checked`` without numerics says nothing, and PyTorch's work is no kernel."""
    assert accepted("correct", True, "")
    assert accepted("checked", True, "")
    assert not accepted("checked", False, "")
    assert not accepted("correct", True, "does not count as a generated kernel: PyTorch does the work")
    assert not accepted("infrastructure", True, "")


def test_a_file_of_another_form_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "bad.md"
    path.write_text("No blocks at all.\n")
    with pytest.raises(EntryError, match=r"bad\.md: write a paragraph"):
        read(path)


def test_a_record_goes_on_where_it_was_interrupted(tmp_path: Path) -> None:
    path = tmp_path / "record.jsonl"
    Record(path).add("a", {"status": "correct"})
    with path.open("a") as file:
        file.write('{"key": "b", "sta')
    assert set(Record(path).results) == {"a"}
    assert not Record(path, fresh=True).results
