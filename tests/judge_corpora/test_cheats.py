"""A fixed sample of the cheats; ``python -m tests.judge_corpora.cheats`` judges all of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from evaluators.judge.judge import Judge
from evaluators.languages import get
from tests.judge_corpora.cheats import SETTINGS, _cheat, accepted, cheats, judge_cheat, judge_sibling
from tests.judge_corpora.cheats.__main__ import main
from tests.judge_corpora.cheats.kinds import KINDS, NOT_JUDGED
from tests.judge_corpora.entry import EntryError

SAMPLE = "phase_by_count fewer_calls lazy_mode replay_by_shape stale_buffer forged_reply_and_exit".split()


def test_no_cheat_of_the_sample_is_credited_and_an_honest_kernel_is_accepted_before_and_after() -> None:
    """One judge for all: what a cheat leaves behind must not touch the next candidate either."""
    known = {c.name: c for c in cheats()}
    first = known[SAMPLE[0]]
    with Judge(first.problem.spec, first.entry.target(), SETTINGS) as judge:
        before = judge_sibling(judge, first.problem)
        found = {name: judge_cheat(judge, known[name], before) for name in SAMPLE}
        after = judge_sibling(judge, first.problem)
    assert before["accepted"], before["message"]
    assert not {n: r["message"] for n, r in found.items() if r["accepted"]}
    assert "infrastructure" not in {r["status"] for r in found.values()}
    assert after["accepted"], after["message"]


@pytest.mark.parametrize("gpu", [False, True])
def test_every_cheat_gets_past_the_static_review(gpu: bool) -> None:
    """A cheat that is refused for how it is spelled proves nothing: it could be spelled otherwise."""
    known = cheats(gpu)
    assert len(known) >= (15 if gpu else 60)
    for cheat in known:
        assert set(cheat.kinds) <= set(KINDS), cheat.name
        assert cheat.problem.spec.name == cheat.problem.name
        get(cheat.entry.language).check(cheat.entry.source())


def test_every_kind_has_a_cheat_or_a_reason_why_not() -> None:
    there = {k for gpu in (False, True) for c in cheats(gpu) for k in c.kinds}
    assert there | set(NOT_JUDGED) == set(KINDS)
    assert not there & set(NOT_JUDGED)


def test_what_counts_as_accepted() -> None:
    def verdict(status: str, fitness: float = 0.0, low: float = 0.0, numerics: bool = True) -> dict[str, Any]:
        return {"status": status, "fitness": fitness, "interval": [low, low + 1], "numerics": numerics}

    assert accepted("rejected", verdict("correct"))
    assert accepted("rejected", verdict("checked"))
    assert not accepted("rejected", verdict("checked", numerics=False))
    assert not accepted("rejected", verdict("mismatch"))
    assert accepted("no credit", verdict("correct", 0.5, 0.4))
    assert not accepted("no credit", verdict("correct", 0.0, 2.0))
    assert accepted("no gain", verdict("correct", 2.0, 1.1))
    assert not accepted("no gain", verdict("correct", 2.0, 0.9))
    assert not accepted("no gain", verdict("correct", 2.0, 1.1), honest_high=1.3)
    assert not accepted("no gain", verdict("tampering", 0.0, 3.0))


def test_a_cheat_without_expectation_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "bad.md"
    path.write_text("Text.\n\n```yaml about\nkinds: [1]\nproblem: wave\n```\n\n```python\npass\n```\n")
    with pytest.raises(EntryError, match=r"bad\.md: write a paragraph"):
        _cheat(path, False)


def test_cheats_for_a_gpu_are_skipped_with_a_reason(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    from evaluators import targets

    if targets.load("auto").kind == "gpu":
        pytest.skip("this machine has a GPU")
    assert main(["--gpu", "--record", str(tmp_path / "r.jsonl")]) == 0
    assert "skipped: they need a GPU" in capsys.readouterr().out
