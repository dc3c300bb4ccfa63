"""Every fault the lint is for, planted alone in a small spec, is found with its severity, and its numbers are in the evidence."""

from __future__ import annotations

import pytest

from evaluators.spec.kernel_spec import InputSpec, KernelSpec, Tolerance
from tests.lint.planted import Said, X, planted, problem

UNIFORM = InputSpec("x", (16, 24), dist="uniform")
W = InputSpec("w", (16, 24))


@pytest.mark.parametrize(
    ("spec", "kind"),
    [
        (planted("return torch.relu(-x.abs())"), "zeros_pass"),
        (planted("return x.clamp(5.0, 6.0)"), "constant_pass"),
        (planted("return torch.relu(x)", UNIFORM), "identity_pass"),
        (planted("return x * 0 + torch.arange(24.0)"), "other_seed_passes"),
        (planted("return (x > 10).long()"), "zeros_pass"),
        (planted("return torch.maximum(x, w - 9)", X, W), "input_ignored"),
        (planted("return x.max(1, keepdim=True).values - x.max(1, keepdim=True).values.mean(1, keepdim=True)"), "zeros_pass"),
    ],
)  # fmt: skip
def test_what_computes_nothing_is_an_error(spec: KernelSpec, kind: str) -> None:
    said = Said(spec, repair=False)
    found = said.one(kind)
    assert found.severity == "error"
    assert found.evidence["seeds"] == 3
    if kind != "input_ignored":
        assert found.evidence["error"] <= found.evidence["limit"]


@pytest.mark.parametrize(
    ("spec", "where", "how"),
    [
        (planted("y = x.abs()\nreturn torch.relu(y) + x"), "line 12, relu", "no effect"),
        (planted("y = x.clamp(min=7.0)\nreturn y * x"), "line 11, clamp", "constant"),
        (
            planted("y = x.exp()\ny = torch.minimum(y, torch.tensor(-1.0))\nreturn y + x"),
            "line 11, exp",
            "never matters",
        ),
    ],
)
def test_dead_operators_are_named_with_their_line(spec: KernelSpec, where: str, how: str) -> None:
    """One that returns what it was given, one that saturates, one whose result is lost further on."""
    said = Said(spec, repair=False)
    dead = {f.where: f.evidence["how"] for f in said.findings if f.kind == "dead_operator"}
    assert dead.get(where) == how, dead


def test_a_cancelled_bias_is_an_ignored_parameter() -> None:
    init = "self.layer = nn.Linear(24, 8)\nself.norm = nn.BatchNorm1d(8, track_running_stats=False)"
    said = Said(planted("return self.norm(self.layer(x))", init=init, mode="train"), repair=False)
    assert said.one("parameter_ignored").evidence["parameters"] == ["layer.bias"]
    assert said.one("constant_parameter").evidence["parameters"] == ["norm.weight", "norm.bias"]
    assert not said.kinds("error")


def test_half_an_input_left_out_is_a_warning() -> None:
    found = Said(planted("return x[:, :12].exp()"), repair=False).one("input_partly_ignored")
    assert (found.severity, found.evidence["axis"]) == ("warning", 1)


def test_one_weak_output_of_two_is_a_warning() -> None:
    said = Said(planted("return x.exp(), (x - 99).relu()"), repair=False)
    assert said.one("output_weak").where == "output 1"
    assert not said.kinds("error")


def test_an_answer_that_passes_elsewhere_is_faint() -> None:
    assert Said(planted("return 3 + 1e-5 * x"), repair=False).one("faint_output").evidence["tolerance"] == 1e-4


def test_inputs_beyond_the_memory_are_found_from_shapes_alone() -> None:
    huge = InputSpec("x", (1 << 20, 1 << 16), dtype="int8", dist="randint", args={"high": 3})
    spec = planted("return x[:1].float()", huge)
    said = Said(spec, memory=1 << 34, seconds=2.0)
    assert said.one("too_large").severity == "error"
    assert said.one("too_large").evidence["needed"] >= 1 << 36
    assert said.one("wide_indices").evidence["elements"] == 1 << 36


@pytest.mark.parametrize(
    ("body", "severity"),
    [
        ("return (x.half() @ x.half().T).float()", "error"),
        ("torch.backends.cuda.matmul.allow_tf32 = True\nreturn x @ x.T", "error"),
        ("with torch.autocast('cuda'):\n    return x @ x.T", "error"),
        ("return (x.double() @ x.double().T).float()", "warning"),
    ],
)
def test_another_precision_than_declared(body: str, severity: str) -> None:
    assert Said(planted(body), repair=False).one("precision").severity == severity


def test_widening_a_half_type_is_no_mismatch() -> None:
    said = Said(planted("return torch.softmax(x.float(), -1).to(x.dtype)", dtype="bfloat16"), repair=False)
    assert "precision" not in said.kinds()


@pytest.mark.parametrize(
    ("tolerance", "kind", "severity"),
    [
        (Tolerance(1e-2, 1e-2), "tolerance_loose", "warning"),
        (Tolerance(0.0, 1e-9), "tolerance_tight", "error"),
    ],
)
def test_declared_tolerances(tolerance: Tolerance, kind: str, severity: str) -> None:
    said = Said(planted("return x @ x.T", tolerance=tolerance), repair=False)
    assert said.one(kind).severity == severity


def test_an_ill_conditioned_problem_admits_narrow_operands() -> None:
    """What is left of 10000 + x once its mean is taken away has lost 13 bits: the rule rightly follows, and the lint says how far."""
    moved = InputSpec("x", (16, 24), args={"mean": 10000.0})
    found = Said(planted("return x - x.mean()", moved), repair=False).findings
    assert any(f.kind == "tolerance_loose" and f.severity == "warning" for f in found)


@pytest.mark.parametrize(
    ("spec", "severity"),
    [
        (planted("return F.dropout(x, 0.5)", mode="train"), "error"),
        (planted("return x + torch.randn_like(x)"), "error"),
        (planted("return x.exp() + 0 * torch.rand(24)"), "warning"),
    ],
)
def test_random_operators(spec: KernelSpec, severity: str) -> None:
    assert Said(spec, repair=False).one("random").severity == severity


def test_attention_without_dropout_is_not_random() -> None:
    q = InputSpec("x", (2, 2, 8, 16))
    assert "random" not in Said(planted("return F.scaled_dot_product_attention(x, x, x)", q), repair=False).kinds()


@pytest.mark.parametrize(
    ("spec", "what"),
    [
        (planted("return x.add_(1).exp()"), "inputs"),
        (planted("return self.norm(x)", init="self.norm = nn.BatchNorm1d(24)", mode="train"), "buffers"),
    ],
)
def test_changed_inputs_and_buffers(spec: KernelSpec, what: str) -> None:
    assert Said(spec, repair=False).one("mutates").evidence["what"] == what


def test_a_reference_that_keeps_a_state_is_an_error() -> None:
    spec = planted("self.calls += 1\nreturn x * self.calls", init="self.calls = 0")
    assert Said(spec, repair=False).one("nondeterministic").severity == "error"


def test_values_outside_the_domain() -> None:
    found = Said(planted("return torch.log(x)"), repair=False).one("nonfinite")
    assert found.severity == "warning" or found.evidence["share"] > 0.5


def test_a_failing_reference_is_named_with_its_error() -> None:
    said = Said(planted("return x @ x"))
    assert said.one("reference_fails").severity == "error"
    assert "mat1 and mat2" in said.one("reference_fails").message or "shape" in said.one("reference_fails").message


@pytest.mark.parametrize(
    "spec",
    [
        planted("return torch.softmax(x, -1)"),
        planted("return self.layer(x)", init="self.layer = nn.Linear(24, 8)"),
        planted("return F.gelu(x @ w.T).sum(-1)", X, W),
        planted("return x.argmax(-1)"),
        planted("return x.sort(-1)"),
        planted("return x.cumsum(-1)", InputSpec("x", (8, 24), dtype="int64", dist="randint", args={"high": 99})),
        problem("return torch.tanh(self.layer(x))", "torch.randn(16, 24)", "self.layer = nn.Linear(24, 8)"),
        planted("return F.layer_norm(x, (24,)).to(x.dtype)", dtype="bfloat16"),
    ],
)
def test_healthy_specs_have_no_error_and_no_warning(spec: KernelSpec) -> None:
    said = Said(spec)
    assert not said.kinds("error", "warning"), [(f.kind, f.where, f.message) for f in said.findings]
    assert said.repair == "not needed"
