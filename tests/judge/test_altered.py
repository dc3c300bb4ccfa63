"""Inputs with a few elements changed: visible in the result, inside the inputs' own values, and expected of correctly."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from evaluators.judge.memory import wire
from evaluators.judge.oracle import altered, cases
from evaluators.spec.kernel_spec import InputSpec, KernelSpec
from evaluators.spec.model import build_model

MODEL = "import torch\n\nclass Model(torch.nn.Module):\n    def forward(self, {args}):\n        return {result}\n"
X = InputSpec("x", (64, 512))
CPU = torch.device("cpu")


def made(result: str, *inputs: InputSpec) -> tuple[KernelSpec, Any, cases.Case]:
    args = ", ".join(i.name for i in inputs)
    spec = KernelSpec(name="probe", source="yaml", reference=MODEL.format(args=args, result=result), inputs=inputs)
    model = build_model(spec, CPU)
    return spec, model, cases.build_case(spec, model, CPU, 5, None)


def outputs(model: Any, case: cases.Case) -> list[Any]:
    tensors: list[Any] = []
    wire.flatten(model(*[t.clone() for t in case.inputs]), tensors)
    return tensors


@pytest.mark.parametrize(
    ("result", "level"),
    [
        ("torch.softmax(x, -1)", 0),
        ("x.sum()", 0),
        ("(x * x).mean()", 0),
        ("x.argmax(1)", 4),
        ("x.amax(1)", 4),
        ("(x > 0, x.exp())", 0),
    ],
)
def test_the_result_moves_and_the_old_one_is_wrong(result: str, level: int) -> None:
    spec, model, case = made(result, X)
    found = altered.alter(case, spec, model, CPU, None)
    assert found is not None
    assert found.level <= level
    assert cases.compare(found.case, outputs(model, found.case), spec)["ok"]
    before = outputs(model, case)
    assert cases.compare(case, before, spec)["ok"]
    assert not cases.compare(found.case, before, spec)["ok"]


def test_changed_elements_are_values_of_the_same_tensor_and_integers_stay() -> None:
    index = InputSpec("i", (64,), "int64", "randint", {"low": 0, "high": 512})
    spec, model, case = made("x.index_select(1, i)", X, index)
    found = altered.alter(case, spec, model, CPU, None, level=3)
    assert found is not None
    old, new = case.inputs[0], found.case.inputs[0]
    assert torch.isin(new, old).all()
    assert 0 < int((new != old).sum()) <= 0.01 * old.numel()
    assert torch.equal(found.case.inputs[1], case.inputs[1])


@pytest.mark.parametrize("result", ["torch.zeros(3)", "x * 0", "x.shape[0] * torch.ones(2)"])
def test_nothing_is_altered_where_nothing_shows(result: str) -> None:
    spec, model, case = made(result, X)
    assert altered.alter(case, spec, model, CPU, None) is None


def test_gaps_and_shared_elements_keep_their_form() -> None:
    spec, model, case = made("x.expand(3, 64, 512).sum(0)", X)
    case.inputs = [case.inputs[0].t().contiguous().t()]
    found = altered.alter(case, spec, model, CPU, None)
    assert found is not None
    assert found.case.inputs[0].stride() == case.inputs[0].stride()
