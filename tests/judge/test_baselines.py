"""Which times stand beside a kernel's: only such as were measured in turn with it. On sides whose times are made up."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from torch._inductor import config as inductor
from torch._inductor.runtime.cache_dir_utils import default_cache_dir

from evaluators.judge import reference as module
from evaluators.judge.reference import Baselines, Reference
from evaluators.judge.settings import JudgeSettings
from evaluators.judge.timing import baseline as timed
from evaluators.judge.timing.contest import Contest


class Steps:
    """A side that answers made-up milliseconds one after the other, the first for its calibration."""

    def __init__(self, *ms: float) -> None:
        self.ms = list(ms)
        self.calls, self.overhead_ms = 1, 0.0
        self.events_ms: list[float] = []

    def calibrate(self, target_ms: float, flushes: object = None) -> float:
        return self.measure()

    def turn(self) -> float:
        return self.measure()

    def measure(self) -> float:
        return self.ms.pop(0) if len(self.ms) > 1 else self.ms[0]


def nothing() -> None: ...


class Made(Contest):
    """A contest whose processes are made up."""

    def __init__(self, sides: dict[str, Steps], ours: Steps, chosen: Baselines, overdue_ms: float = 0.0) -> None:
        self.session = SimpleNamespace(settings=JudgeSettings(watched=0), device="cpu", closer=False)  # type: ignore[assignment]
        self.reference = SimpleNamespace(  # type: ignore[assignment]
            choose=lambda *_: chosen,
            side=lambda name, *_: sides[name],
            flush_bytes=0,
            intact=lambda: True,
            calls={},
        )
        self.worker = SimpleNamespace(close=lambda: None)  # type: ignore[assignment]
        self.batch_ms = 30.0
        self.batches = SimpleNamespace(  # type: ignore[assignment]
            side=ours, samples=SimpleNamespace(enough=True), begin=nothing, check=nothing, judge_progress=nothing,
            overdue_ms=overdue_ms,
        )  # fmt: skip

    def _undisturbed(self, side: Any) -> float:
        return float(side.turn())


def test_every_time_of_a_whole_verdict_is_of_the_same_turns() -> None:
    """Compile was the stronger one when chosen; in the turns beside the kernel eager is, and is what counts."""
    sides = {"eager": Steps(9.0, 4.0), "compile": Steps(5.0, 12.0)}
    chosen = Baselines({"eager": 9.0, "compile": 5.0}, "compile")
    found, notes = Made(sides, Steps(2.0), chosen).run(whole=True)
    assert found.baselines == {"eager": 4.0, "compile": 12.0}
    assert (found.baseline, found.ratio) == ("eager", 2.0)
    assert set(found.samples) == {(4.0, 2.0)}
    assert found.baselines[found.baseline] == min(found.baselines.values())
    assert "over eager" in notes[0]


def test_what_handing_results_over_took_too_long_counts_in_every_batch() -> None:
    made = Made({"eager": Steps(6.0)}, Steps(2.0), Baselines({"eager": 6.0}, "eager"), overdue_ms=1.0)
    found, _ = made.run(whole=False)
    assert set(found.samples) == {(6.0, 3.0)}


def test_a_baseline_counts_no_slower_than_it_is_without_the_candidate() -> None:
    """However a candidate slowed the baseline down beside it, the ratio is that of the baseline alone."""
    hindered = Steps(60.0, *[60.0] * 7, 5.0)
    found, notes = Made({"eager": hindered}, Steps(4.0), Baselines({"eager": 5.0}, "eager")).run(whole=False)
    assert (found.ratio, found.low, found.high) == (1.25, 1.25, 1.25)
    assert any("12.0 times as long beside the candidate as alone" in n for n in notes)


def test_while_searching_only_the_stronger_baseline_is_timed_and_named() -> None:
    sides = {"eager": Steps(9.0), "compile": Steps(5.0)}
    found, _ = Made(sides, Steps(2.5), Baselines({"eager": 9.0, "compile": 5.0}, "compile")).run(whole=False)
    assert found.baselines == {"compile": 5.0}


def test_samples_that_scatter_are_added_to_and_said_to_scatter() -> None:
    """Three helpings at most; a quiet machine needs one."""
    restless = Steps(2.0, *(4.0 if i % 3 else 1.0 for i in range(40)))
    found, notes = Made({"eager": Steps(4.0)}, restless, Baselines({"eager": 4.0}, "eager")).run(whole=True)
    assert len(found.samples) == 33
    assert any("scatter widely" in n and "cores" in n for n in notes)
    found, notes = Made({"eager": Steps(4.0)}, Steps(2.0), Baselines({"eager": 4.0}, "eager")).run(whole=True)
    assert len(found.samples) == 11
    assert not any("scatter" in n for n in notes)
    found, _ = Made({"eager": Steps(4.0)}, restless, Baselines({"eager": 4.0}, "eager")).run(whole=False)
    assert len(found.samples) == 11


def test_a_search_stops_as_soon_as_the_interval_is_narrow() -> None:
    """On either side of 1 alike; a verdict that will be reported takes all pairs."""
    chosen = Baselines({"eager": 4.0}, "eager")
    for ours in (2.0, 8.0):
        found, _ = Made({"eager": Steps(4.0)}, Steps(ours), chosen).run(whole=False)
        assert len(found.samples) == 7
        found, _ = Made({"eager": Steps(4.0)}, Steps(ours), chosen).run(whole=True)
        assert len(found.samples) == 11


class Kept(Reference):
    """A reference without a process: eager takes 3 ms; ``compiled`` are the times of torch.compile."""

    def __init__(self, compiled: Steps) -> None:
        self.spec, self.target = SimpleNamespace(digest="d"), SimpleNamespace(name="t")  # type: ignore[assignment]
        self.environment, self.settings = {"torch": "0", "device": "cpu"}, JudgeSettings()
        self.device, self.baselines = "cpu", None
        self.compiled, self.asked = compiled, 0

    def side(self, baseline: str) -> Any:
        return Steps(3.0) if baseline == "eager" else self.compiled

    def _ask_baseline(self, message: dict[str, Any], timeout: float, fds: Sequence[int] = ()) -> dict[str, Any]:
        self.asked += 1
        return {}


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(module, "home", lambda: tmp_path)
    return tmp_path / "cache" / "baselines" / "d-t-0-cpu-default.json"


def remember(file: Path) -> None:
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps({"ms": {"eager": 5.0, "compile": 6.5}}))


def test_a_remembered_time_is_never_given_out(file: Path) -> None:
    remember(file)
    kept = Kept(Steps(2.0))
    found = kept.choose(30.0)
    assert (found.ms, found.stronger, kept.asked) == ({"eager": 3.0}, "eager", 0)
    assert "1.3 times as long as eager before" in found.note


def test_a_whole_choice_measures_what_was_remembered_and_forgets_what_no_longer_holds(file: Path) -> None:
    remember(file)
    kept = Kept(Steps(2.0))
    kept.choose(30.0)
    found = kept.choose(30.0, whole=True)
    assert (found.ms, found.stronger, found.note) == ({"eager": 3.0, "compile": 2.0}, "compile", "")
    assert not file.exists()
    assert kept.choose(30.0, whole=True) is found
    assert kept.asked == 1


def test_a_failure_to_compile_is_not_remembered(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may have been a full disk's."""
    kept = Kept(Steps(2.0))
    monkeypatch.setattr(kept, "_ask_baseline", lambda *_: {"failed": "no space left on device"})
    assert kept.choose(30.0).failure == "no space left on device"
    assert not file.exists()


def test_one_disturbed_median_is_not_remembered(file: Path) -> None:
    """Eager must win clearly in every pair: a burst of other work during some of them proves nothing."""
    Kept(Steps(9.0, 9.0, 9.0, 9.0, 3.1, 3.1)).choose(30.0)
    assert not file.exists()
    Kept(Steps(9.0)).choose(30.0)
    assert file.exists()


@pytest.mark.parametrize("sound", [True, False])
def test_what_fails_to_compile_is_tried_once_more_without_what_was_kept(
    sound: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where that works, the rest of a process that was killed was in the way, and is thrown away; else the failure is the reference's."""
    kept = tmp_path / "inductor"
    kept.mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "scratch"))
    headers = Path(default_cache_dir()) / "precompiled_headers"
    headers.mkdir(parents=True)
    for name in ("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR"):
        monkeypatch.setenv(name, str(kept))

    def compiled(model: Any, mode: str | None) -> Any:
        if not sound or os.environ["TORCHINDUCTOR_CACHE_DIR"] == str(kept) or inductor.cpp_cache_precompile_headers:
            raise ImportError("cannot open shared object file")
        return model

    monkeypatch.setattr(timed, "compiled", compiled)
    made = timed.Baseline()
    made.model, made.batcher = abs, SimpleNamespace(sets=[(1,)])  # type: ignore[assignment]
    said = made.compile({"mode": "default"}, [])
    assert ("failed" in said) is not sound
    assert kept.exists() is headers.exists() is not sound
    assert (made.compiled is abs) is sound
