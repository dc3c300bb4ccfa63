"""Parts of the judge by themselves: channel, transport of tensors, diagnosis, roofline."""

from __future__ import annotations

import os
import struct
from dataclasses import replace
from typing import get_args

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from agent.search.fitness import diagnosis_of, is_broken, is_correct
from evaluators.ir.facts import Work
from evaluators.judge.diagnose import diagnose
from evaluators.judge.memory import wire, wire_host
from evaluators.judge.oracle.cases import fingerprint
from evaluators.judge.processes.channel import Closed, pair
from evaluators.roofline import roofline
from evaluators.target import Target
from evaluators.verdict import Evaluation, Status, Timing
from tests.judge.conftest import CPU

GPU = Target(
    "g",
    "gpu",
    "nvidia",
    "sm_90",
    ("gpu",),
    4800.0,
    {"float32": 67.0, "bfloat16": 990.0},
    ("triton",),
    132,
    32,
    50 << 20,
    232448,
    1 << 37,
)
plain = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.text(max_size=5) | st.floats(allow_nan=False),
    lambda inner: (
        st.lists(inner, max_size=3) | st.tuples(inner, inner) | st.dictionaries(st.text(max_size=3), inner, max_size=2)
    ),
    max_leaves=8,
)


@given(plain)
def test_trees_survive_the_wire(value: object) -> None:
    assert wire.rebuild(wire.flatten(value, []), []) == value


@given(st.dictionaries(st.text(max_size=8), st.text(max_size=50), max_size=4))
def test_messages_survive_the_channel(message: dict[str, str]) -> None:
    a, b = pair()
    a.send(message)
    a.send({"next": 1})
    assert b.receive(1.0) == message
    assert b.receive(1.0) == {"next": 1}
    a.close()
    with pytest.raises(Closed):
        b.receive(1.0)
    b.close()


def test_many_descriptors_cross() -> None:
    a, b = pair()
    opened = [wire_host.allocate(16) for _ in range(300)]
    for number, (block, _) in enumerate(opened):
        block.fill_(number % 251)
    a.send({"x": 1}, [fd for _, fd in opened])
    assert b.receive(5.0) == {"x": 1}
    found = b.take_fds()
    assert len(found) == 300
    assert [int(wire_host.attach(fd, 16)[3]) for fd in found] == [n % 251 for n in range(300)]
    for fd in [*found, *(fd for _, fd in opened)]:
        os.close(fd)
    a.close()
    b.close()


@pytest.mark.parametrize("data", [b"\xff\xff\xff\xff", struct.pack("<I", 3) + b"abc", struct.pack("<I", 2) + b"[]"])
def test_nonsense_on_the_channel_is_an_end_not_an_object(data: bytes) -> None:
    a, b = pair()
    a.sock.sendall(data)
    with pytest.raises(Closed):
        b.receive(1.0)
    a.close()
    b.close()


def test_shared_blocks_cannot_be_shrunk() -> None:
    block, fd = wire_host.allocate(4096)
    with pytest.raises(PermissionError):
        os.ftruncate(fd, 0)
    assert int(block.sum()) == 0
    os.close(fd)


@pytest.mark.parametrize(
    "tensor",
    [
        torch.arange(12.0).view(3, 4).t(),
        torch.arange(6).expand(4, 6),
        torch.tensor(3.5),
        torch.empty(0, 5),
        torch.arange(24.0).view(2, 3, 4)[:, 1:, ::2],
        torch.rand(5).to(torch.bfloat16),
        torch.tensor([True, False]),
    ],
)
def test_layouts_survive_shared_memory(tensor: torch.Tensor) -> None:
    block, fd = wire_host.allocate(wire.nbytes(tensor))
    wire.copy_storage(tensor, block)
    again = wire.view(wire_host.attach(fd, wire.nbytes(tensor)), wire.describe(tensor))
    assert torch.equal(again, tensor)
    assert again.stride() == tensor.stride()
    os.close(fd)


def timing(ms: float) -> Timing:
    return Timing(ms, "eager", {"eager": ms}, 1.0, 1.0, 1.0, (), "wall")


def test_roofline_by_hand() -> None:
    memory = roofline(Work(48 * 10**8, 10**9, 0, "float32"), GPU, 2.0)
    assert memory.limit == "memory"
    assert memory.bound_ms == pytest.approx(1.0)
    assert memory.fraction == pytest.approx(0.5)
    compute = roofline(Work(1000, 2 * 10**12, 2 * 10**12, "bfloat16"), GPU)
    assert (compute.limit, compute.fraction, compute.rate_tflops) == ("compute", None, 990.0)
    assert compute.bound_ms == pytest.approx(2000 / 990)
    split = roofline(Work(1000, 10**12, 10**12, "float32"), GPU)
    assert split.rate_tflops == pytest.approx(330.0)  # three half-precision products make one float32 product
    fast = replace(GPU, peak_tflops={**GPU.peak_tflops, "tensor_float32": 495.0})
    folded = roofline(Work(1000, 10**12, 10**12, "float32", convolution=10**12), fast)
    assert folded.bound_ms == pytest.approx(1000 / 495)


@pytest.mark.parametrize(
    ("ms", "resources", "expected"),
    [
        (1.2, {}, "memory_bound"),
        (1.2, {"kernels": [{"spills": 4}]}, "spill"),
        (4.0, {"kernels": [{"programs": 60}]}, "low_occupancy"),
        (4.0, {"kernels": [{"programs": 6000}]}, "memory_bound"),
        (50.0, {}, "latency_bound"),
    ],
)
def test_diagnosis_of_timed_candidates(ms: float, resources: dict[str, object], expected: str) -> None:
    bound = roofline(Work(48 * 10**8, 10**9, 0, "float32"), GPU, ms)
    kernels = resources.get("kernels", [])
    assert diagnose("correct", GPU, timing(ms), bound, kernels)[0] == expected  # type: ignore[arg-type]


def test_search_and_judge_agree_on_every_failure() -> None:
    """What the search repairs is what the judge diagnoses by status, and a record without a diagnosis is read the same way."""
    for status in get_args(Status):
        found = Evaluation("c", GPU.name, status, 0.0)
        assert diagnosis_of(found) == diagnose(status, GPU, None, None, [])[0]
        assert is_broken(found) == (diagnosis_of(found) != "unknown")
        assert not (is_broken(found) and is_correct(found))
    assert not any(is_broken(Evaluation("c", GPU.name, s, 0.0)) for s in ("tampering", "infrastructure"))


def test_diagnosis_of_small_kernels_and_failures() -> None:
    bound = roofline(Work(10**6, 10**6, 0, "float32"), GPU, 0.006)
    assert diagnose("correct", GPU, timing(0.006), bound, [])[0] == "launch_bound"
    assert diagnose("correct", CPU, timing(1.0), None, [])[0] == "unknown"
    for status, word in (
        ("compile_error", "compile_error"),
        ("crash", "runtime_error"),
        ("wrong_shape", "mismatch"),
        ("timeout", "timeout"),
    ):
        assert diagnose(status, GPU, None, None, [])[0] == word


@pytest.mark.parametrize("dtype", [torch.int64, torch.float32, torch.bfloat16, torch.bool, torch.float64])
def test_fingerprints_change_nothing_and_see_a_swap(dtype: torch.dtype) -> None:
    values = torch.arange(40).to(dtype)
    before = values.clone()
    first = fingerprint(values)
    assert torch.equal(values, before)
    assert fingerprint(before) == first
    values[[0, 1]] = values[[1, 0]]
    assert fingerprint(values) != first


def test_a_message_that_came_with_a_reply_is_noticed_and_not_waited_for() -> None:
    """Two messages in one packet: the second is there already when the next request is made, and nothing more will come."""
    from evaluators.judge.processes.channel import pair
    from evaluators.judge.processes.processes import Failed
    from evaluators.judge.processes.workers import Worker

    ours, theirs = pair()
    ours.sock.settimeout(2.0)  # a read that waits ends the test instead of hanging it
    worker = Worker.__new__(Worker)
    worker.channel = ours
    theirs.send({"op": "time"})
    theirs.send({"op": "time"})
    ours.read()
    assert ours.take() is not None
    with pytest.raises(Failed, match="nobody asked for"):
        worker.begin({"op": "collect"})
