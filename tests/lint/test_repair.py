"""Repaired specs: other inputs and parameters under which answers that compute nothing fail; or the word that there are none."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from evaluators.lint.finding import WEAK
from evaluators.lint.subject import examine
from evaluators.lint.trivial import find
from evaluators.spec.inputs import make_inputs
from evaluators.spec.kernel_spec import InputSpec, KernelSpec
from tests.lint.planted import Said, X, planted, problem

UNIFORM = InputSpec("x", (16, 24), dist="uniform")
NORMED = "self.norm = nn.GroupNorm(4, 8)"


@pytest.mark.parametrize(
    "spec",
    [
        planted("return torch.relu(x)", UNIFORM),
        planted("return x.clamp(5.0, 6.0)"),
        problem("return torch.relu(x)", "torch.rand(16, 24)"),
        problem("return self.norm(x).mean((1, 2))", "torch.randn(16, 8, 6)", NORMED),
        problem("return torch.relu(torch.triu(x))", "torch.rand(16, 16).triu()"),
    ],
)
def test_a_weak_spec_is_repaired(spec: KernelSpec) -> None:
    """The variant is another spec, knows what it came from, survives JSON, and on it nothing trivial passes."""
    said = Said(spec)
    assert said.repair == "repaired"
    repaired = said.repaired
    assert repaired is not None
    assert repaired.repaired_from == spec.digest
    assert repaired.digest != spec.digest
    assert KernelSpec.from_json(repaired.to_json()) == repaired
    assert not [f for f in find(examine(repaired)) if f.kind in WEAK]
    assert not [f for f in said.remaining if f.severity == "error"]


def test_the_computation_stays_the_same() -> None:
    spec = problem("return torch.relu(x)", "torch.rand(16, 24)")
    repaired = Said(spec).repaired
    assert repaired is not None
    assert repaired.reference.startswith(spec.reference.rstrip())
    assert (repaired.dtype, repaired.mode, repaired.parameters) == (spec.dtype, spec.mode, ())


def test_structure_of_published_inputs_is_kept() -> None:
    """A triangle stays one, integers and labels stay as they are."""
    inputs = "torch.rand(16, 16).triu(), torch.randint(0, 2, (16, 1)).float() * 2 - 1, torch.arange(16)"
    spec = problem("return torch.relu(x)", inputs)
    spec = replace(spec, reference=spec.reference.replace("def forward(self, x)", "def forward(self, x, sign, at)"))
    repaired = Said(spec).repaired
    assert repaired is not None
    x, sign, at = make_inputs(repaired, 3, "cpu")
    assert torch.equal(x, x.triu())
    assert bool((x < 0).any())
    assert set(sign.unique().tolist()) <= {-1.0, 1.0}
    assert torch.equal(at, torch.arange(16))


def test_parameters_that_are_one_constant_are_drawn() -> None:
    spec = problem("return self.norm(x)", "torch.randn(16, 8, 6)", NORMED)
    repaired = Said(spec).repaired
    assert repaired is not None
    drawn = {(p.name, p.shape, p.args["mean"]) for p in repaired.parameters}
    assert drawn == {("norm.weight", (8,), 1.0), ("norm.bias", (8,), 0.0)}


@pytest.mark.parametrize(
    "body",
    [
        "return torch.relu(-x.abs())",
        "y = x.max(1, keepdim=True).values\nreturn F.gelu(y - y.mean(1, keepdim=True))",
        "return x.clamp(max=0.0).clamp(0.0, 1.0)",
    ],
)
def test_what_no_input_helps_is_unrepairable(body: str) -> None:
    said = Said(planted(body))
    assert (said.repair, said.repaired) == ("unrepairable", None)


def test_an_argument_that_is_never_used_is_not_held_against_the_spec() -> None:
    """Leaving out what matters on no data at all is no cheat."""
    said = Said(planted("return x.exp()", X, InputSpec("unused", (16, 24))))
    assert said.repair == "not needed"
    assert said.repaired is None


def test_repaired_from_does_not_enter_the_digest() -> None:
    """A spec written by hand with the same inputs is the same problem."""
    spec = planted("return x.exp()")
    assert replace(spec, repaired_from="0" * 16).digest == spec.digest
