"""Work left to PyTorch is no generated kernel, and results that come faster than memory allows are not computed in every call."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from agent.search.fitness import may_win, wins
from evaluators.judge.judge import Judge
from evaluators.judge.settings import JudgeSettings
from evaluators.spec.kernel_spec import InputSpec
from tests.judge.conftest import CPU, MODEL, make_spec, native, row_sum_spec

QUICK = JudgeSettings(seeds=2, pairs=5, batch_ms_cpu=2.0, timing_budget_s=0.5, compile_mode="off", run_s=20.0)


@pytest.fixture(scope="module")
def judge() -> Iterator[Judge]:
    with Judge(row_sum_spec(), CPU, QUICK) as found:
        yield found


@pytest.mark.parametrize(
    ("expression", "operator"),
    [
        ("x.sum(-1)", "aten::sum"),
        ("getattr(torch, 'einsum')('rc->r', x)", "aten::sum"),
        ("x @ torch.ones(x.shape[1])", "aten::mv"),
    ],
)
def test_a_kernel_that_is_called_for_show_earns_nothing(judge: Judge, expression: str, operator: str) -> None:
    """Whatever the source looks like, the operators that ran are known."""
    body = MODEL.replace("        return y", f"        return {expression}")
    found = judge.evaluate(native(body=body))
    assert found.status == "correct", found.message
    assert operator in found.resources["library_operators"]
    assert found.fitness == 0.0
    assert "does not count as a generated kernel" in found.message
    assert not wins(found)
    assert not may_win(found)


def test_own_kernels_with_plumbing_count(judge: Judge) -> None:
    body = MODEL.replace("        return y", "        return y.reshape(-1, 1).t().contiguous().view(-1)")
    found = judge.evaluate(native(body=body))
    assert found.resources["library_operators"] == []
    assert found.fitness > 0


def test_operators_that_the_loop_ir_leaves_to_pytorch_are_allowed() -> None:
    spec = make_spec(
        "torch.relu(torch.nn.functional.conv1d(x, w)).sum(-1).flatten()",
        InputSpec("x", (4, 3, 40)), InputSpec("w", (5, 3, 3)), args="x, w",
    )  # fmt: skip
    body = MODEL.replace("def forward(self, x):", "def forward(self, x, w):").replace(
        "        y = torch.empty(x.shape[0])",
        "        x = torch.ops.aten.convolution.default(x, w, None, [1], [0], [1], False, [0], 1).reshape(20, 38)\n"
        "        y = torch.empty(x.shape[0])",
    )
    relu = """
extern "C" void kernel(const float* x, float* y, int rows, int cols) {
    for (int r = 0; r < rows; ++r) {
        double sum = 0;
        for (int c = 0; c < cols; ++c) sum += x[(long)r * cols + c] > 0 ? x[(long)r * cols + c] : 0;
        y[r] = (float)sum;
    }
}
"""
    with Judge(spec, CPU, QUICK) as judge:
        found = judge.evaluate(native(relu, body))
    assert found.status == "correct", found.message
    assert found.resources["library_operators"] == ["aten::convolution"]
    assert found.fitness > 0


def test_remembered_results_are_too_fast_to_be_true() -> None:
    """A candidate that keeps results by address does no work when timed; the bytes it would have to read give it away."""
    spec = make_spec("x.sum(-1)", InputSpec("x", (4096, 4096)))
    body = MODEL.replace(
        "        y = torch.empty", "        kept = self.__dict__.setdefault('kept', {})\n"
        "        if x.data_ptr() in kept:\n            return kept[x.data_ptr()]\n        y = torch.empty",
    ).replace("        return y", "        kept[x.data_ptr()] = y\n        return y")  # fmt: skip
    with Judge(spec, CPU, QUICK) as judge:
        found = judge.evaluate(native(body=body))
    assert found.status in ("tampering", "mismatch"), found.message
    assert found.fitness == 0.0
