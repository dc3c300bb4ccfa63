"""The judge end to end on the CPU: parameters, nondeterminism, timing, re-runs, layouts."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from evaluators.judge.judge import Judge
from evaluators.judge.settings import JudgeSettings
from evaluators.spec.kernel_spec import InputSpec
from evaluators.verdict import Evaluation
from tests.judge.conftest import CPU, MODEL, ROW_SUM, make_spec, native, row_sum_spec

QUICK = JudgeSettings(seeds=2, pairs=5, batch_ms_cpu=2.0, timing_budget_s=0.5, compile_mode="off", run_s=20.0)


@pytest.fixture(scope="module")
def judge() -> Iterator[Judge]:
    with Judge(row_sum_spec(), CPU, QUICK) as found:
        yield found


def test_a_timed_verdict_is_complete(judge: Judge) -> None:
    found = judge.evaluate(native())
    assert found.status == "correct", found.message
    timing, accuracy = found.timing, found.accuracy
    assert timing is not None
    assert accuracy is not None
    assert found.fitness == timing.ratio > 0
    assert timing.low <= timing.ratio <= timing.high
    assert len(timing.samples) == 5
    assert set(timing.baselines) == {"eager"} == set(judge.baselines)
    assert "eager was used" in found.message
    assert {"check", "compile", "load", "correctness", "baselines", "timing"} <= set(found.phases)
    assert found.resources["library_bytes"] > 0
    assert "process group" in found.isolation
    assert Evaluation.from_dict(json.loads(json.dumps(found.to_dict()))) == found


def test_confirm_uses_fresh_processes(judge: Judge) -> None:
    judge.evaluate(native(), timed=False)
    assert judge.reference is not None
    before = judge.reference.server.pid
    found = judge.confirm(native())
    assert found.timing is not None
    assert found.timing.fresh_process
    assert judge.reference is not None
    assert judge.reference.server.pid != before


def test_reading_unwritten_memory_is_found(judge: Judge) -> None:
    """Rows are added to whatever the output held; memory that happens to be zero would hide it."""
    found = judge.evaluate(native(ROW_SUM.replace("y[r] = (float)sum", "y[r] += (float)sum")), timed=False)
    assert found.status in ("mismatch", "nondeterministic")


def test_skipping_calls_in_a_batch_is_found(judge: Judge) -> None:
    body = MODEL.replace(
        "    def forward(self, x):", "    calls = 0\n\n    def forward(self, x):\n        self.calls += 1"
    ).replace("        return y", "        return y if self.calls < 12 else y * 2")
    found = judge.evaluate(native(body=body))
    assert (found.status, found.fitness) == ("mismatch", 0.0)
    assert "timed batch" in found.message


def test_answers_of_the_first_inputs_again_are_found(judge: Judge) -> None:
    body = MODEL.replace(
        "        y = torch.empty",
        "        if hasattr(self, 'kept'):\n            return self.kept\n        y = torch.empty",
    ).replace("        return y", "        self.kept = y\n        return y")
    assert judge.evaluate(native(body=body), timed=False).status == "mismatch"


def test_parameters_are_copied_by_name() -> None:
    spec = make_spec("x", InputSpec("x", (32, 16)))
    reference = (
        "import torch\n\nclass Model(torch.nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.inner = torch.nn.Linear(16, 8)\n\n    def forward(self, x):\n        return self.inner(x)\n"
    )
    from dataclasses import replace

    spec = replace(spec, reference=reference)
    source = (
        'extern "C" void kernel(const float* x, const float* w, const float* b, float* y) {\n'
        "    for (int r = 0; r < 32; ++r)\n        for (int n = 0; n < 8; ++n) {\n            double s = b[n];\n"
        "            for (int k = 0; k < 16; ++k) s += (double)x[r * 16 + k] * w[n * 16 + k];\n"
        "            y[r * 8 + n] = (float)s;\n        }\n}\n"
    )
    body = (
        "import torch\n\n\nclass ModelNew(torch.nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.inner = torch.nn.Module()\n        self.inner.weight = torch.nn.Parameter(torch.empty(8, 16))\n"
        "        self.inner.bias = torch.nn.Parameter(torch.empty(8))\n\n    def forward(self, x):\n        y = torch.empty(32, 8)\n"
        "        _native().kernel(_address(x), _address(self.inner.weight), _address(self.inner.bias), _address(y))\n        return y\n"
    )
    with Judge(spec, CPU, QUICK) as judge:
        assert judge.evaluate(native(source, body), timed=False).status == "correct"
        shape = judge.evaluate(native(source, body.replace("torch.empty(8, 16)", "torch.empty(16, 8)")), timed=False)
        assert shape.status == "load_error"
        assert "inner.weight is [16, 8], the reference's is [8, 16]" in shape.message
        without = body.replace("        self.inner.bias = torch.nn.Parameter(torch.empty(8))\n", "").replace(
            "self.inner.bias", "x"
        )
        assert "does not use inner.bias" in judge.evaluate(native(source, without), timed=False).message


def test_strides_of_inputs_and_forms_of_results_are_kept() -> None:
    reference = (
        "import torch\n\nclass Model(torch.nn.Module):\n    def forward(self, x, n):\n"
        "        return {'sum': x.sum(-1) + n, 'shape': [x.t(), n]}\n\n"
        "def get_inputs():\n    return [torch.rand(16, 8).t(), 3]\n\ndef get_init_inputs():\n    return []\n"
    )
    from dataclasses import replace

    spec = replace(make_spec("x"), reference=reference, inputs=None, source="kernelbench")
    body = (
        "import torch\n\n\nclass ModelNew(torch.nn.Module):\n    def forward(self, x, n):\n        assert x.stride() == (1, 8)\n"
        "        x = x.contiguous()\n        y = torch.empty(8)\n        _native().kernel(_address(x), _address(y), 8, 16)\n"
        "        return {'sum': y + n, 'shape': (x.t(), n)}\n"
    )
    with Judge(spec, CPU, QUICK) as judge:
        found = judge.evaluate(native(body=body))
        assert found.status == "correct", found.message
        assert (
            judge.evaluate(native(body=body.replace("x.t(), n)", "x.t(), n + 1)")), timed=False).status == "wrong_shape"
        )


def test_a_failing_reference_is_infrastructure() -> None:
    with Judge(make_spec("x @ x", InputSpec("x", (3, 4))), CPU, QUICK) as judge:
        found = judge.evaluate(native(), timed=False)
    assert found.status == "infrastructure"
    assert "the reference fails on its own inputs" in found.message


def test_cpp_on_an_absent_device_says_so() -> None:
    from dataclasses import replace

    with Judge(row_sum_spec(), replace(CPU, present=False), QUICK) as judge:
        found = judge.evaluate(native())
    assert found.status == "infrastructure"
    assert "not on this machine" in found.message


def test_a_language_the_target_does_not_run_is_rejected(judge: Judge) -> None:
    from dataclasses import replace

    found = judge.evaluate(replace(native(), language="triton"))
    assert (found.status, found.message) == ("source_rejected", "cpu-x86-64 runs candidates in cpp, not in triton")
    assert judge.evaluate(replace(native(), language="fortran")).status == "source_rejected"


def test_large_inputs_are_kept_once_and_restored(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    from evaluators.judge.memory import wire
    from evaluators.judge.oracle import oracle

    monkeypatch.setattr(oracle, "LARGE", 0)
    holder = oracle.Oracle()
    holder.open(
        {
            "spec": row_sum_spec().to_json(),
            "device": "cpu",
            "dims": None,
            "threads": 1,
            "flush_bytes": 0,
            "ipc": False,
            "seed": 1,
        }
    )
    described, _ = holder.case({"case": 0, "seed": 7, "hard": False})
    case, block = holder.cases[0], holder.shared[0][0][0]
    before = case.inputs[0].clone()
    assert case.inputs[0].data_ptr() == block.data_ptr()
    wire.view(block, described["inputs"][0])[3, 5] += 1
    reply = {"tree": {"tensor": 0}, "outputs": [{"shape": [64], "dtype": "float32", "device": "cpu"}]}
    verdict, _ = holder.check({"case": 0, "reply": reply, "inputs_too": True})
    assert verdict["status"] == "mismatch"
    assert torch.equal(case.inputs[0], before)


IN_PLACE = """
extern "C" void kernel(float* x, float* y, int rows, int cols) {
    for (int i = 0; i < rows * cols; ++i) y[i] = x[i] += 1.0f;
}
"""


def test_inputs_are_handed_over_again_where_the_reference_changes_them() -> None:
    """A candidate may change them as the reference does, or leave them as they are, and nothing else."""
    spec = make_spec("x.add_(1.0) * 1.0, z * 2", InputSpec("x", (64, 300)), InputSpec("z", (5,)), args="x, z")
    body = MODEL.replace("forward(self, x)", "forward(self, x, z)").replace("x.shape[0])\n", "x.shape)\n", 1)
    body = body.replace("torch.empty(x.shape[0])", "torch.empty(x.shape)").replace("return y", "return y, z + z")
    with Judge(spec, CPU, QUICK) as judge:
        assert judge.evaluate(native(IN_PLACE, body), timed=False).status == "correct"
        left = IN_PLACE.replace("y[i] = x[i] += 1.0f", "y[i] = x[i] + 1.0f")
        assert judge.evaluate(native(left, body), timed=False).status == "correct"
        other = IN_PLACE.replace("y[i] = x[i] += 1.0f", "{ y[i] = x[i] + 1.0f; x[i] += 2.0f; }")
        found = judge.evaluate(native(other, body), timed=False)
        assert found.status == "mismatch"
        assert "neither as it was nor as the reference leaves it" in found.message
        unasked = judge.evaluate(
            native(IN_PLACE, body.replace("return y, z + z", "return y, z.mul_(2.0) * 1")), timed=False
        )
        assert unasked.status == "mismatch"
        assert "input tensor 1 was modified; the reference does not" in unasked.message
