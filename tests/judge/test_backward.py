"""Specs that ask for gradients: those of every input and parameter are compared, and both passes are timed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from evaluators.errors import SpecError, TraceError
from evaluators.ir.trace import trace
from evaluators.judge.judge import Judge
from evaluators.judge.settings import JudgeSettings
from evaluators.spec import load
from evaluators.spec.calls import WithGradients, build_call, make_arguments
from evaluators.spec.kernel_spec import InputSpec, KernelSpec
from tests.judge.conftest import CPU, make_spec, native

QUICK = JudgeSettings(seeds=2, pairs=5, batch_ms_cpu=2.0, timing_budget_s=0.5, compile_mode="off", run_s=20.0)
SPEC = KernelSpec(
    name="gained",
    source="yaml",
    reference="""
import torch

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.gain = torch.nn.Parameter(torch.empty(96))

    def forward(self, x):
        return torch.tanh(x * self.gain)
""",
    inputs=(InputSpec("x", (128, 96)),),
    parameters=(InputSpec("gain", (96,), dist="uniform", args={"low": 0.5, "high": 1.5}),),
    direction="forward+backward",
)
SOURCE = """
#include <cmath>
extern "C" void forward(const float* x, const float* g, float* y, int rows, int cols) {
    for (int r = 0; r < rows; ++r)
        for (int c = 0; c < cols; ++c) y[r * cols + c] = std::tanh(x[r * cols + c] * g[c]);
}
extern "C" void backward(const float* up, const float* x, const float* g, const float* y, float* dx, double* sums,
                         float* dg, int rows, int cols) {
    for (int c = 0; c < cols; ++c) sums[c] = 0;
    for (int r = 0; r < rows; ++r)
        for (int c = 0; c < cols; ++c) {
            const int i = r * cols + c;
            const float slope = up[i] * (1 - y[i] * y[i]);
            dx[i] = slope * g[c];
            sums[c] += (double)slope * x[i];
        }
    for (int c = 0; c < cols; ++c) dg[c] = (float)sums[c];
}
"""
BODY = """
import torch


class Gained(torch.autograd.Function):
    @staticmethod
    def forward(context, x, gain):
        y = torch.empty_like(x)
        _native().forward(_address(x), _address(gain), _address(y), x.shape[0], x.shape[1])
        context.save_for_backward(x, gain, y)
        return y

    @staticmethod
    def backward(context, up):
        x, gain, y = context.saved_tensors
        up = up.contiguous()
        dx, dg, sums = torch.empty_like(x), torch.empty_like(gain), torch.empty(gain.shape, dtype=torch.float64)
        _native().backward(
            _address(up), _address(x), _address(gain), _address(y), _address(dx), _address(sums), _address(dg), *x.shape
        )
        return dx, dg


class ModelNew(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.gain = torch.nn.Parameter(torch.empty(96))

    def forward(self, x):
        return Gained.apply(x, self.gain)
"""


@pytest.fixture(scope="module")
def judge() -> Iterator[Judge]:
    with Judge(SPEC, CPU, QUICK) as found:
        yield found


def test_a_right_pair_of_passes_is_correct_and_timed(judge: Judge) -> None:
    found = judge.evaluate(native(SOURCE, BODY))
    assert found.status == "correct", found.message
    assert found.timing is not None
    assert found.fitness > 0, found.message
    assert found.resources["library_operators"] == []


@pytest.mark.parametrize(
    ("old", "new", "where"),
    [
        ("slope * g[c]", "slope", "output 1"),
        ("(double)slope * x[i]", "(double)slope", "output 2"),
        ("(1 - y[i] * y[i])", "(1 - y[i])", "output 1"),
        ("std::tanh(x[r", "std::sin(x[r", "output 0"),
    ],
)
def test_wrong_results_of_either_pass_are_found(judge: Judge, old: str, new: str, where: str) -> None:
    found = judge.evaluate(native(SOURCE.replace(old, new), BODY), timed=False)
    assert (found.status, where in found.message) == ("mismatch", True), found.message


def test_a_gradient_that_is_left_out_is_found(judge: Judge) -> None:
    found = judge.evaluate(native(SOURCE, BODY.replace("return dx, dg\n", "return dx, None\n")), timed=False)
    assert (found.status, "output 2" in found.message) == ("mismatch", True), found.message


def test_a_result_without_gradients_is_refused_with_what_to_do(judge: Judge) -> None:
    body = BODY.replace(
        "Gained.apply(x, self.gain)",
        "Gained.forward(type('C', (), {'save_for_backward': lambda *_: None})(), x, self.gain)",
    )
    found = judge.evaluate(native(SOURCE, body), timed=False)
    assert (found.status, "torch.autograd.Function" in found.message) == ("crash", True), found.message


def test_a_backward_pass_left_to_pytorch_is_no_generated_kernel(judge: Judge) -> None:
    body = (
        "import torch\n\n\nclass ModelNew(torch.nn.Module):\n" + BODY.partition("class ModelNew(torch.nn.Module):\n")[2]
    )
    found = judge.evaluate(native(SOURCE, body.replace("Gained.apply(x, self.gain)", "torch.tanh(x * self.gain)")))
    assert (found.status, found.fitness) == ("correct", 0.0), found.message
    assert any("tanh" in name for name in found.resources["library_operators"])


def test_gradients_are_those_of_autograd_and_zeros_where_nothing_depends() -> None:
    spec = replace(
        make_spec(
            "(x.exp(), x.sum(), k)",
            InputSpec("x", (4, 5)),
            InputSpec("u", (3,)),
            InputSpec("k", (2,), "int64", "permutation"),
            args="x, u, k",
        ),
        direction="forward+backward",
    )
    model, inputs = build_call(spec, "cpu"), make_arguments(spec, 3, "cpu")
    assert isinstance(model, WithGradients)
    x, _, k, above, scalar = inputs
    assert (above.shape, scalar.shape) == ((4, 5), ())
    y, total, same, dx, du = model(*inputs)
    assert torch.allclose(dx, above * x.exp() + scalar)
    assert torch.equal(du, torch.zeros(3))
    assert torch.equal(same, k)
    assert not any(t.requires_grad for t in (y, total, dx, du))


def test_references_that_have_no_gradients_are_named() -> None:
    spec = replace(make_spec("x.argmax(-1)", InputSpec("x", (4, 5))), direction="forward+backward")
    with pytest.raises(SpecError, match="no floating output"):
        make_arguments(spec, 0, "cpu")
    with pytest.raises(TraceError, match="no gradients"):
        trace(SPEC)


def test_the_field_is_read_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "probe.yaml"
    file.write_text(
        "direction: forward+backward\ninputs: {x: [4, 5]}\nreference: |\n  def reference(x):\n      return x.exp()\n"
    )
    assert load(str(file)).direction == "forward+backward"
    file.write_text(
        "direction: backward\ninputs: {x: [4, 5]}\nreference: |\n  def reference(x):\n      return x.exp()\n"
    )
    with pytest.raises(SpecError, match="direction"):
        load(str(file))
