"""Facts from figures, and the word that they lead to, on made-up figures of real targets."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluators import targets
from evaluators.judge import facts
from evaluators.judge.diagnose import diagnose
from evaluators.verdict import Roofline, Timing
from tests.judge.conftest import CPU

H200 = targets.load("nvidia-h200")


def timing(ms: float, events: float | None = None) -> Timing:
    return Timing(ms, "eager", {"eager": 1.0}, 1 / ms, 1 / ms, 1 / ms, ((1.0, ms),), "wall", event_ms=events)


def bound(fraction: float, limit: str = "memory") -> Roofline:
    return Roofline(10**9, 10**9, fraction, limit, fraction, 4000.0, 60.0)  # type: ignore[arg-type]


def of(found: list[facts.Fact], metric: str) -> float:
    (value,) = [f.value for f in found if f.metric == metric]
    return value


def test_bandwidth_is_bytes_over_time_and_what_is_outside_the_device_is_the_rest() -> None:
    found = facts.of_work(timing(0.5, 0.4), bound(0.5))
    assert of(found, "bandwidth") == pytest.approx(2000.0)
    assert of(found, "outside_the_device") == pytest.approx(0.1)
    assert of(found, "intensity") == 1.0


@pytest.mark.parametrize(
    ("kernel", "occupancy"),
    [
        ({"registers": 32, "num_warps": 8, "shared_bytes": 0}, 1.0),
        ({"registers": 128, "num_warps": 8, "shared_bytes": 0}, 0.25),
        ({"registers": 32, "num_warps": 4, "shared_bytes": 120 << 10}, 128 / 2048),
    ],
)
def test_occupancy_is_what_registers_threads_and_shared_memory_leave(kernel: dict[str, int], occupancy: float) -> None:
    assert of(facts.of_kernels([{"name": "k", **kernel}], H200), "occupancy") == pytest.approx(occupancy)


@given(
    st.lists(
        st.fixed_dictionaries(
            {"name": st.text(max_size=80)},
            optional={
                key: st.integers(0, 1 << 20) for key in ("registers", "num_warps", "shared_bytes", "programs", "spills")
            },
        ),
        max_size=4,
    )
)
def test_any_resources_give_facts_that_survive_json(kernels: list[dict[str, object]]) -> None:
    found = facts.of_kernels(kernels, H200)
    again = facts.known({"facts": json.loads(json.dumps([f.to_dict() for f in found]))})
    assert again == found
    assert all(str(f) for f in found)
    assert all(0 <= f.value < 1 for f in found if f.metric == "tail_idle")


def test_each_word_has_the_facts_that_say_so() -> None:
    few = facts.of_kernels([{"name": "k", "registers": 32, "num_warps": 8, "programs": 1100}], H200)
    idle = facts.of_threads(10**9, 1.0, 10, 2, 0)
    for target, ms, fraction, kernels, known, word, metric in (
        (H200, 1.0, 0.9, [], facts.of_work(timing(1.0), bound(0.9)), "memory_bound", "roofline"),
        (H200, 0.01, 0.2, [], facts.of_work(timing(0.01, 0.002), bound(0.2)), "launch_bound", "outside_the_device"),
        (H200, 1.0, 0.3, [], few, "tail", "tail_idle"),
        (CPU, 1.0, 0.3, [], idle, "low_occupancy", "threads_busy"),
        (CPU, 1.0, 0.05, [], facts.of_work(timing(1.0), bound(0.05)), "latency_bound", "roofline"),
    ):
        found, because = diagnose("correct", target, timing(ms), bound(fraction), kernels, known)
        assert (found, metric in {f.metric for f in because}) == (word, True), (word, because)


def test_a_failure_is_named_after_its_status() -> None:
    assert diagnose("mismatch", CPU, None, None, []) == ("mismatch", [])
    assert diagnose("correct", CPU, None, None, []) == ("unknown", [])
