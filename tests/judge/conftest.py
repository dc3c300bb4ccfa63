"""Small specs and hand-written candidates for the judge's tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from evaluators.candidate import Candidate
from evaluators.languages import cpp
from evaluators.spec.kernel_spec import Dim, InputSpec, KernelSpec
from evaluators.target import Target

ROW_SUM = """
extern "C" void kernel(const float* x, float* y, int rows, int cols) {
    for (int r = 0; r < rows; ++r) {
        double sum = 0;
        for (int c = 0; c < cols; ++c) sum += x[(long)r * cols + c];
        y[r] = (float)sum;
    }
}
"""
MODEL = """
import torch


class ModelNew(torch.nn.Module):
    def forward(self, x):
        y = torch.empty(x.shape[0])
        _native().kernel(_address(x), _address(y), x.shape[0], x.shape[1])
        return y
"""
TRITON_ROW_SUM = """
import torch
import triton
import triton.language as tl


@triton.jit
def row_sum(x, y, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    c = tl.arange(0, BLOCK)
    v = tl.load(x + row * cols + c, mask=c < cols, other=0.0).to(tl.float32)
    tl.store(y + row, tl.sum(v, 0))


class ModelNew(torch.nn.Module):
    def forward(self, x):
        y = torch.empty((x.shape[0],), dtype=x.dtype, device=x.device)
        row_sum[(x.shape[0],)](x, y, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]), num_warps=4)
        return y
"""


def native(source: str = ROW_SUM, body: str = MODEL) -> Candidate:
    """A C++ candidate."""
    return Candidate("test", "cpp", cpp.wrap({"kernel.cpp": source}, body), "manual")


def triton(source: str = TRITON_ROW_SUM) -> Candidate:
    """A Triton candidate."""
    return Candidate("test", "triton", source, "manual")


def make_spec(
    result: str, *inputs: InputSpec, args: str = "x", dims: dict[str, Dim] | None = None, **fields: object
) -> KernelSpec:
    """A spec whose Model returns ``result``."""
    reference = (
        f"import torch\n\nclass Model(torch.nn.Module):\n    def forward(self, {args}):\n        return {result}\n"
    )
    return KernelSpec(name="test", source="yaml", reference=reference, inputs=inputs, dims=dims or {}, **fields)  # type: ignore[arg-type]


def row_sum_spec() -> KernelSpec:
    """Sum over the last axis of a (64, 300) matrix."""
    return make_spec("x.sum(-1)", InputSpec("x", (64, 300)))


CPU = Target(
    "cpu-x86-64", "cpu", "x86", "x86-64", ("cpu-x86-64", "cpu"), 20.0, {"float32": 0.1, "float64": 0.05}, ("cpp",),
    2, 1, 1 << 20, 0, 1 << 34,
    present=True,
)  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def harmless(trials_here: None) -> None:
    """The references here are."""


@pytest.fixture(scope="session", autouse=True)
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder of the tests' own."""
    folder = tmp_path_factory.mktemp("home")
    patch = pytest.MonkeyPatch()
    patch.setenv("KERNELEVOLVE_HOME", str(folder))
    yield folder
    patch.undo()
