"""Arithmetic of paired timing, on sides whose clocks are made up."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluators.judge.timing import timing

ratios = st.floats(0.01, 100, allow_nan=False)


@given(st.lists(st.tuples(ratios, ratios), min_size=5, max_size=15))
def test_interval_holds_the_median_and_is_reproducible(samples: list[tuple[float, float]]) -> None:
    ratio, low, high = timing.summarize(samples)
    assert low <= ratio <= high
    assert timing.summarize(samples) == (ratio, low, high)
    assert min(a / b for a, b in samples) <= low <= high <= max(a / b for a, b in samples)


@given(st.lists(st.tuples(ratios, ratios), min_size=5, max_size=9))
def test_swapping_sides_inverts_an_odd_median(samples: list[tuple[float, float]]) -> None:
    if len(samples) % 2:
        there, back = timing.summarize(samples)[0], timing.summarize([(b, a) for a, b in samples])[0]
        assert abs(there * back - 1) < 1e-9


class Recorder:
    """A side whose calls take a known time, and that remembers in which order things happened."""

    def __init__(self, log: list[str], name: str, seconds: float) -> None:
        self.log, self.name, self.seconds = log, name, seconds
        self.calls: list[tuple[int, int]] = []
        self.empty_ms: Callable[[], float] = lambda: 0.0

    def side(self) -> timing.Side:
        def run(calls: int, offset: int, empty: bool) -> float:
            self.calls.append((calls, offset))
            self.log.append(f"{self.name} runs")
            return self.empty_ms() if empty else 1e3 * self.seconds * calls

        return timing.Side(
            lambda: self.log.append(f"{self.name} rests"),
            run,
            lambda: None,
            lambda calls, offset: self.log.append(f"{self.name} prepares {calls} from {offset}"),
            64,
        )


def test_sides_alternate_each_on_fresh_inputs() -> None:
    log: list[str] = []
    a, b = Recorder(log, "A", 0.0), Recorder(log, "B", 0.0)
    samples = timing.alternate((a.side(), b.side()), 2)

    def turns(offset: int, *names: str) -> list[str]:
        return [line for n in names for line in (f"{n} prepares 1 from {offset}", f"{n} rests", f"{n} runs")]

    assert log == [*turns(0, "A", "B"), *turns(1, "A", "B")]
    assert [len(s) for s in samples] == [2, 2]
    log.clear()
    c = Recorder(log, "C", 0.0)
    samples = timing.alternate((a.side(), b.side(), c.side()), 1)
    assert log == turns(0, "A", "B", "C")
    assert [len(s) for s in samples] == [3]


def test_calibration_fixes_a_count_and_batches_go_round_over_all_sets() -> None:
    recorder = Recorder([], "A", 0.0005)
    side = recorder.side()
    side.calibrate(10.0)
    assert 6 <= side.calls <= 20
    recorder.calls.clear()
    offset = side.offset
    side.batch()
    side.batch()
    assert recorder.calls == [(side.calls, offset), (side.calls, (offset + side.calls) % 64)]


def test_a_batch_has_no_more_calls_than_there_are_sets() -> None:
    side = Recorder([], "A", 0.0).side()
    side.calibrate(5.0)
    assert side.calls == 64


@pytest.fixture
def recorder() -> Recorder:
    """One whose calls take 20 ms."""
    return Recorder([], "A", 0.02)


def test_flushes_are_subtracted_by_the_shortest_of_them(recorder: Recorder) -> None:
    lengths = iter([30.0, 9.0, 31.0, 30.0, 32.0, 20.0, 8.0, 20.0, 20.0, 20.0, 9.0, 9.0, 9.0, 9.0, 9.0])
    recorder.empty_ms = lambda: next(lengths)
    side = recorder.side()
    side.calls, side.overhead_ms = 2, side.flushing(2)
    assert side.overhead_ms == pytest.approx(9.0)
    side.events = lambda: 30.0
    side.measure()
    assert side.beyond_ms == [pytest.approx(1.0)]
    side.flush_again(side)
    assert side.overhead_ms == pytest.approx(8.0)
    assert side.beyond_ms == [pytest.approx(2.0)]
    side.flush_again(side)
    assert side.overhead_ms == pytest.approx(8.0)
    assert side.beyond_ms == [pytest.approx(2.0)]


def test_only_a_trusted_side_is_timed_by_its_events(recorder: Recorder) -> None:
    side = recorder.side()
    side.events = lambda: 0.001
    assert side.measure() == pytest.approx(20.0)
    side.trusted = True
    assert side.measure() == pytest.approx(0.001)


@given(
    st.floats(0.01, 20.0), st.lists(st.floats(-0.1, 0.3), min_size=5, max_size=15), st.floats(0.0, 1.0), st.integers(1, 200)
)  # fmt: skip
def test_what_every_batch_holds_beyond_events_favours_nobody(
    per_call: float, disturbed: list[float], usual: float, calls: int
) -> None:
    """A constant beyond the events of both sides cancels; only what the untrusted side has beyond the usual is charged."""
    trusted, other = Recorder([], "A", 0.0).side(), Recorder([], "B", 0.0).side()
    trusted.beyond_ms = [usual] * 5
    other.calls = calls
    other.events_ms, other.beyond_ms = [per_call] * len(disturbed), [usual + d for d in disturbed]
    for ms, more in zip(timing.fair(other, [trusted]), disturbed, strict=True):
        assert ms == pytest.approx(per_call + max(more, 0.0) / calls)


@given(st.floats(0.0, 5.0), st.floats(0.3, 5.0), st.floats(0.0, 3.0))
def test_work_hidden_from_events_is_on_the_wall_clock_and_flushes_with_it(
    usual: float, hidden: float, flushes: float
) -> None:
    trusted, other = Recorder([], "A", 0.0).side(), Recorder([], "B", 0.0).side()
    trusted.beyond_ms = [usual] * 5
    other.calls, other.overhead_ms = 10, flushes
    other.events_ms, other.beyond_ms = [0.0] * 3, [usual + hidden] * 3
    assert timing.fair(other, [trusted]) == [pytest.approx((hidden + flushes) / 10)] * 3


def test_events_only_ever_make_a_candidate_slower() -> None:
    trusted, other = Recorder([], "A", 0.0).side(), Recorder([], "B", 0.0).side()
    trusted.beyond_ms = [0.5] * 5
    other.calls = 2
    for claimed, wall in ((50.0, 20.0), (20.0, 20.2), (15.0, 20.5), (0.0, 20.0)):
        other.events_ms, other.beyond_ms = [claimed / 2], [wall - claimed]
        assert timing.fair(other, [trusted]) == [pytest.approx(max(claimed, wall - 0.5) / 2)]


def test_wall_time_that_events_do_not_explain_is_reported() -> None:
    side = Recorder([], "A", 0.0).side()
    assert timing.agreement(side, 5.0) == (None, True)
    side.events_ms = [1.0, 1.1, 0.9]
    assert timing.agreement(side, 1.2) == (1.0, True)
    assert timing.agreement(side, 2.0) == (1.0, False)
