"""Steps outside of tensors are seen, in C++ and in Triton's interpreter, however little they change."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from dataclasses import replace

import pytest
import torch

from evaluators import targets
from evaluators.judge.judge import Judge
from evaluators.judge.memory import fence, wire_host
from evaluators.judge.worker.guard import Guard
from evaluators.judge.worker.recorder import Recorder
from evaluators.spec.kernel_spec import InputSpec
from tests.judge.conftest import CPU, MODEL, make_spec, native, triton
from tests.judge.test_judging import QUICK

SCALE = """
extern "C" void kernel(const float* x, float* y, int rows, int cols) {
    for (int r = 0; r < rows; ++r)
        for (int c = 0; c < cols; ++c) y[(long)r * cols + c] = 2 * x[(long)r * cols + c];
}
"""
BODY = MODEL.replace("torch.empty(x.shape[0])", "torch.empty_like(x)")


@pytest.fixture(scope="module")
def judge() -> Iterator[Judge]:
    with Judge(make_spec("x * 2", InputSpec("x", (37, 101))), CPU, QUICK) as found:
        yield found


def test_a_row_that_writes_one_element_too_many_is_found(judge: Judge) -> None:
    """The next row writes that element again: only the last row's lies outside."""
    assert judge.evaluate(native(SCALE, BODY), timed=False).status == "correct"
    found = judge.evaluate(native(SCALE.replace("c < cols", "c <= cols"), BODY), timed=False)
    assert found.status == "crash"
    assert "writes outside of a tensor it allocated: 4 byte(s) after one of 14948 bytes" in found.message


def test_a_read_far_outside_faults_though_nothing_comes_of_it(judge: Judge) -> None:
    far = SCALE.replace(
        "for (int r = 0; r < rows", "volatile float s = x[rows * cols + 4096]; (void)s; for (int r = 0; r < rows"
    )
    found = judge.evaluate(native(far, BODY), timed=False)
    assert found.status == "crash"
    assert "no memory around tensors may be touched" in found.message


def test_a_sum_that_reads_one_element_past_its_input_meets_nan() -> None:
    source = """
extern "C" void kernel(const float* x, float* y, int rows, int cols) {
    double s = 0;
    for (int i = 0; i <= rows * cols; ++i) s += x[i];
    y[0] = s;
}
"""
    body = MODEL.replace("torch.empty(x.shape[0])", "torch.empty(())")
    with Judge(make_spec("x.sum()", InputSpec("x", (3, 5))), CPU, QUICK) as judge:
        found = judge.evaluate(native(source, body), timed=False)
        assert found.status == "mismatch"
        assert "nan" in found.message
        assert judge.evaluate(native(source.replace("<=", "<"), body), timed=False).status == "correct"


@pytest.mark.parametrize("poison", [0xFF, 0x4B])
def test_guarded_tensors_are_tensors_like_others(poison: int) -> None:
    guard = Guard(poison)
    with Recorder(guard) as recorder:
        a = torch.empty(7, 5)
        b = torch.arange(12.0).reshape(3, 4).t().clone(memory_format=torch.preserve_format)
        c = torch.zeros(3, dtype=torch.float64)
        a.resize_(100, 100)
        a.fill_(1.0)
        d = torch.empty(0)
    assert (float(a.sum()), b.stride(), b.tolist()[1], c.tolist(), d.numel()) == (
        1e4,
        (1, 4),
        [1.0, 5.0, 9.0],
        [0.0] * 3,
        0,
    )
    assert b.data_ptr() % fence.ALIGNMENT == 0
    assert b.untyped_storage().nbytes() == 48
    assert not recorder.computing() or recorder.computing() == ["aten::sum"]
    assert guard.damage() == ""


def test_blocks_end_where_memory_may_not_be_touched_and_their_rest_is_nan() -> None:
    block, fd = wire_host.allocate(100)
    block.fill_(7)
    again = wire_host.attach(fd, 100)
    assert again.tolist() == [7] * 100 == list(fence.memory(fd, 100))
    beyond = torch.empty(0, dtype=torch.uint8).set_(again.untyped_storage(), 0, (100,))
    assert beyond.data_ptr() % fence.ALIGNMENT == 0
    assert ctypes.string_at(again.data_ptr() + 100, 28) == b"\xff" * 28  # and then the page ends
    assert (again.data_ptr() + 128) % fence.PAGE == 0


TILES = """
import torch
import triton
import triton.language as tl


@triton.jit
def double(x, y, count, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, 2 * tl.load(x + at, mask=at < count), mask=at < count)


class ModelNew(torch.nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        double[(triton.cdiv(x.numel(), 16),)](x, y, x.numel(), BLOCK=16)
        return y
"""


def test_the_interpreter_refuses_accesses_outside_of_the_tensors_of_a_launch() -> None:
    target = replace(targets.load("nvidia-h200"), present=False)
    with Judge(make_spec("x * 2", InputSpec("x", (7, 9))), target, QUICK) as judge:
        right = judge.evaluate(triton(TILES), timed=False)
        assert right.status == "checked", right.message
        assert right.accuracy is not None
        for mask, what in (("mask=at < count)", "reads"), ("mask=at < count), mask=at < count", "writes")):
            found = judge.evaluate(triton(TILES.replace(mask, mask[::-1].replace("<", "=<", 1)[::-1])), timed=False)
            assert found.status == "crash"
            assert f"kernel double {what} 1 element(s) outside of the tensors it was given" in found.message
