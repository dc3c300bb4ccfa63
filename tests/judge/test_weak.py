"""Other parameters and repaired inputs: what a spec's own inputs let pass is found out, and no speed-up counts where that is much."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from evaluators.judge import weak
from evaluators.judge.judge import Judge
from evaluators.judge.oracle import variants
from evaluators.judge.oracle.oracle import Oracle
from evaluators.spec.kernel_spec import InputSpec, KernelSpec, Tolerance
from tests.judge.conftest import CPU, make_spec, native
from tests.judge.test_judging import QUICK

X = InputSpec("x", (48, 96))
NORM = KernelSpec(
    name="norm",
    source="kernelbench",
    reference="""
import torch


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = torch.nn.LayerNorm(96)

    def forward(self, x):
        return self.norm(x)


def get_inputs():
    return [torch.randn(48, 96)]


def get_init_inputs():
    return []
""",
)


def opened(spec: KernelSpec) -> Oracle:
    """An oracle in this process."""
    oracle = Oracle()
    oracle.open(
        {"spec": spec.to_json(), "device": "cpu", "threads": 1, "seed": 5, "flush_bytes": 0, "ipc": False, "dims": None}
    )
    return oracle


def looked_at(spec: KernelSpec) -> dict[str, Any]:
    """What the oracle says of a spec's weakness."""
    return variants.weakness(opened(spec), {"cases": [0, 1], "seeds": [77, 78]})


UNIFORM = InputSpec("x", (48, 96), dist="uniform")


@pytest.mark.parametrize(
    ("spec", "why", "repaired"),
    [
        (make_spec("torch.relu(x)", UNIFORM), "an input returned as it is passes", True),
        (make_spec("torch.softmax(x, -1).mean(-1)", X), "a constant passes", False),
        (make_spec("torch.sin(x) * 0.001", X, tolerance=Tolerance(0.01, 0.01)), "zeros pass", False),
        (make_spec("torch.relu(x + 100) + 0 * b", UNIFORM, InputSpec("b", (96,)), args="x, b"), "", False),
        (make_spec("torch.where(x > -5, x * 2, b)", UNIFORM, InputSpec("b", (48, 96)), args="x, b"), "input b may be ignored", True),
        (make_spec("torch.softmax(x + b, -1)", InputSpec("x", (48, 96), args={"std": 30.0}),
                   InputSpec("b", (48, 1), args={"mean": -400.0, "std": 100.0}), args="x, b"), "", False),
        (make_spec("x.sum(-1)", X), "", False),
        (make_spec("torch.softmax(x, -1)", X, dtype="bfloat16"), "", False),
        (make_spec("x > 0", X), "", False),
        (make_spec("x @ x.t()", X), "", False),
        (NORM, "", False),
    ],
)  # fmt: skip
def test_what_passes_though_it_computes_nothing(spec: KernelSpec, why: str, repaired: bool) -> None:
    """An input that matters on repaired inputs only is a weakness; one that matters on none, or to the rounding alone, is not."""
    found = looked_at(spec)
    assert "unknown" not in found
    assert (why in found["why"]) if why else found["why"] == [], found
    assert (found["repaired"] is not None) is repaired


def test_trivial_answers_fail_on_the_repaired_inputs_and_the_reference_passes() -> None:
    oracle = opened(make_spec("torch.relu(x)", UNIFORM))
    found = variants.weakness(oracle, {"cases": [0, 1], "seeds": [77, 78]})
    assert variants.repaired(oracle, {"spec": found["repaired"], "cases": [960, 961], "seeds": [1, 2]}) == {}
    other = oracle.at(None, variants.REPAIRED)
    case = other.cases[960]
    x = case.inputs[0]
    assert case.expected[0].judge(torch.relu(x), None).ok
    assert not case.expected[0].judge(x, None).ok
    assert oracle.cases[0].expected[0].judge(oracle.cases[0].inputs[0], None).ok


def test_parameters_get_other_values_but_keep_what_they_may_be_made_for() -> None:
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.BatchNorm1d(64), torch.nn.Linear(64, 64)).eval()
    with torch.no_grad():
        model[1].weight.tril_()
    before = {n: p.clone() for n, p in model.state_dict().items()}
    assert variants.perturb(model, 3)
    after = model.state_dict()
    for name in ("0.weight", "0.running_var"):
        assert bool((after[name] > 0).all())
        assert len(after[name].unique()) > 32, name
    for name in ("0.bias", "0.running_mean"):
        assert float(after[name].abs().max()) <= 0.5
        assert float(after[name].abs().min()) > 0
    assert torch.equal(after["1.weight"] == 0, before["1.weight"] == 0)
    assert torch.equal(after["1.weight"].sign(), before["1.weight"].sign())
    assert not torch.equal(after["1.weight"], before["1.weight"])
    assert not variants.perturb(torch.nn.ReLU(), 3)


KERNEL = """
#include <cmath>
extern "C" void kernel(const float* x, const float* w, const float* b, float* y, int rows, int cols) {
    for (int r = 0; r < rows; ++r) {
        const float* a = x + (long)r * cols;
        double sum = 0, square = 0;
        for (int c = 0; c < cols; ++c) sum += a[c];
        for (int c = 0; c < cols; ++c) square += (a[c] - sum / cols) * (a[c] - sum / cols);
        const double scale = 1.0 / std::sqrt(square / cols + 1e-5);
        for (int c = 0; c < cols; ++c) y[(long)r * cols + c] = (float)((a[c] - sum / cols) * scale * w[c] + b[c]);
    }
}
"""
MODEL = """
import torch


class ModelNew(torch.nn.Module):
    packed = None

    def __init__(self):
        super().__init__()
        self.norm = torch.nn.LayerNorm(96)

    def forward(self, x):
        if self.packed is None:
            self.packed = torch.stack([self.norm.weight, self.norm.bias])
        y = torch.empty_like(x)
        w, b = self.packed
        _native().kernel(_address(x), _address(w), _address(b), _address(y), x.shape[0], x.shape[1])
        return y
"""


def test_weights_that_are_taken_for_one_are_wrong_with_other_parameters() -> None:
    """A kernel that packs its parameters at its first call is right: it is constructed again for others."""
    with Judge(NORM, CPU, QUICK) as judge:
        right = judge.evaluate(native(KERNEL, MODEL), timed=False)
        wrong = judge.evaluate(native(KERNEL.replace(" * w[c] + b[c]", ""), MODEL), timed=False)
        frozen = MODEL.replace("packed = None", "packed = torch.stack([torch.ones(96), torch.zeros(96)])")
        constant = judge.evaluate(native(KERNEL, frozen), timed=False)
    assert right.status == "correct", right.message
    assert "right with other parameters" in right.message
    for found in (wrong, constant):
        assert found.status == "mismatch"
        assert "right with the reference's own parameters, wrong where they have other values" in found.message


COPY = """
extern "C" void kernel(const float* x, float* y, int count) {
    for (int i = 0; i < count; ++i) y[i] = x[i] > LEAST ? x[i] : 0.0f;
}
"""
COPIES = """
import torch


class ModelNew(torch.nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        _native().kernel(_address(x), _address(y), x.numel())
        return y
"""


def test_a_weak_spec_gives_no_credit_and_is_judged_on_repaired_inputs_too() -> None:
    """The inputs have borders of their own, so that harder ones are not drawn: only the repair tells a copy from a ReLU."""
    told: list[str] = []
    bounded = InputSpec("x", (48, 96), dist="uniform", args={"low": 0.0, "high": 1.0})
    with Judge(make_spec("torch.relu(x)", bounded), CPU, QUICK, told.append) as judge:
        right = judge.evaluate(native(COPY.replace("LEAST", "0.0f"), COPIES))
        copy = judge.evaluate(native(COPY.replace("LEAST", "-1e30f"), COPIES))
        untimed = judge.evaluate(native(COPY.replace("LEAST", "0.0f"), COPIES), timed=False)
    assert right.status == "correct", right.message
    assert right.fitness == 0.0
    assert right.timing is not None
    assert right.message.startswith("no credit: weak spec (an input returned as it is passes);")
    assert "judged on repaired inputs too: inputs: signed" in right.message
    assert right.resources["weak_spec"][0] == "an input returned as it is passes"
    assert copy.status == "mismatch"
    assert (
        "right on the spec's own inputs, on which an input returned as it is passes; wrong on repaired ones"
        in copy.message
    )
    assert untimed.message.startswith("correct; not timed; no credit: weak spec")
    assert any(line.startswith("no credit: weak spec") for line in told)


def test_what_was_found_out_is_remembered(home: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """For the spec, the device and PyTorch's version; a damaged file is as good as none."""
    monkeypatch.setenv("KERNELEVOLVE_HOME", str(tmp_path))
    asked: list[dict[str, Any]] = []

    def ask(message: dict[str, Any]) -> tuple[dict[str, Any], list[int]]:
        asked.append(message)
        return {"why": ["zeros pass"], "repaired": None, "changes": []}, []

    reference: Any = SimpleNamespace(
        spec=NORM, environment={"torch": "9.9"}, device="cpu", dims=None, seeds={}, ask=ask, other=None
    )
    first, second = weak.weakness(reference), weak.weakness(reference)
    assert first == second
    assert first.no_credit == "no credit: weak spec (zeros pass)"
    assert first.lines == ["no repair was found"]
    assert len(asked) == 1
    (file,) = (tmp_path / "cache" / "weak").iterdir()
    assert json.loads(file.read_text())["why"] == ["zeros pass"]
    file.write_text("{")
    assert weak.weakness(reference) == first
    assert len(asked) == 2
