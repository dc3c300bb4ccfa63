"""Each element has a bound of its own: what is wrong among small ones shows, and what rounds in another way than the reference passes."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from evaluators.judge.oracle.cases import build_case, compare
from evaluators.judge.oracle.local import DRAWS
from evaluators.spec.kernel_spec import InputSpec, KernelSpec
from evaluators.spec.model import build_model
from tests.judge.conftest import make_spec

CPU = torch.device("cpu")
Compute = Callable[..., torch.Tensor]


def verdicts(spec: KernelSpec, compute: Compute, seeds: int = 2) -> list[str]:
    """What was found wrong on each seed; nothing where the result passes."""
    found = []
    for seed in range(seeds):
        case = build_case(spec, build_model(spec, CPU), CPU, seed, None, draws=DRAWS)
        assert all(e.local is not None for e in case.expected)
        verdict = compare(case, [compute(*case.inputs)], spec)
        found.append("" if verdict["ok"] else str(verdict["detail"]))
    return found


def wide(**args: float) -> InputSpec:
    return InputSpec("x", (192, 256), args=args)


def in_order(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """A matrix product summed term by term in float32."""
    total = torch.zeros(a.shape[0], b.shape[1])
    for k in range(a.shape[1]):
        total = torch.addcmul(total, a[:, k : k + 1].float(), b[k : k + 1].float())
    return total


def top(x: torch.Tensor) -> torch.Tensor:
    return x.amax(-1, keepdim=True)


MATRICES = (InputSpec("a", (192, 512)), InputSpec("b", (512, 192)))
HONEST: dict[str, tuple[str, tuple[InputSpec, ...], Compute]] = {
    "a softplus that adds one to an exponential": (
        "torch.nn.functional.softplus(x)", (wide(std=6.0),), lambda x: torch.log(1 + torch.exp(x)),
    ),
    "a mish of that": (
        "torch.nn.functional.mish(x)", (wide(std=6.0),), lambda x: x * torch.tanh(torch.log(1 + torch.exp(x))),
    ),
    "a tail of gelu by the complement": (
        "torch.nn.functional.gelu(x)", (wide(std=2.0),), lambda x: 0.5 * x * torch.erfc(-x * 0.5**0.5),
    ),
    "a tail of gelu by one plus erf": (
        "x * 0.5 * torch.erfc(-x * 0.5 ** 0.5)", (wide(std=2.0),), lambda x: 0.5 * x * (1 + torch.erf(x * 0.5**0.5)),
    ),
    "a hyperbolic tangent by exponentials": ("torch.tanh(x)", (wide(),), lambda x: 1 - 2 / (torch.exp(2 * x) + 1)),
    "an elu without expm1": (
        "torch.nn.functional.elu(x)", (wide(),), lambda x: torch.where(x > 0, x, torch.exp(x) - 1),
    ),
    "a product in order": ("a @ b", MATRICES, in_order),
    "a product in order, cut at 0": ("torch.relu(a @ b)", MATRICES, lambda a, b: in_order(a, b).relu()),
    "a variance in one pass": (
        "x.var(-1)", (wide(mean=1.0),), lambda x: ((x * x).sum(-1) - x.sum(-1) ** 2 / 256) / 255,
    ),
    "a steep softmax by powers of two": (
        "torch.softmax(x, -1)", (wide(std=20.0),),
        lambda x: torch.exp2((x - top(x)) * 1.442695) / torch.exp2((x - top(x)) * 1.442695).sum(-1, keepdim=True),
    ),
    "what a device flushes to zero": (
        "torch.exp(x)", (wide(std=40.0),), lambda x: torch.where(torch.exp(x) < 1.2e-38, 0.0, torch.exp(x)),
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", HONEST)
def test_other_roundings_pass(what: str) -> None:
    result, inputs, compute = HONEST[what]
    spec = make_spec(result, *inputs, args=", ".join(i.name for i in inputs))
    assert verdicts(spec, compute) == ["", ""]


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_half_precision_passes_with_float32_inside_and_step_by_step(dtype: str) -> None:
    half = getattr(torch, dtype)
    step_by_step = make_spec("x * 0.5 * (1 + torch.erf(x * 0.7071))", wide(std=2.0), dtype=dtype)
    assert verdicts(step_by_step, lambda x: torch.nn.functional.gelu(x.float()).to(half)) == ["", ""]
    assert verdicts(make_spec("torch.nn.functional.silu(x)", wide(), dtype=dtype), lambda x: x * torch.sigmoid(x)) == [
        "",
        "",
    ]


@pytest.mark.parametrize(
    ("size", "wrong"),
    [(1e-3, 1.01), (1e-4, 1.01), *((size, wrong) for size in (1e-3, 1e-4, 1e-5, 1e-6) for wrong in (0.0, -1.0))],
)
def test_a_row_of_small_elements_must_be_right(size: float, wrong: float) -> None:
    """However small a row is beside the others, it may be neither zero nor of the other sign, nor off by more than rounding a one makes."""
    spec = make_spec(f"x * torch.where(torch.arange(192)[:, None] == 17, {size}, 1.0).to(x)", wide())

    def compute(x: torch.Tensor) -> torch.Tensor:
        y = x.clone()
        y[17] *= size * wrong
        return y

    found = verdicts(spec, compute)
    assert all(found), found


def test_zeros_below_the_largest_are_found() -> None:
    spec = make_spec("torch.exp(x * 8.0)", wide())
    found = verdicts(spec, lambda x: torch.where(x < 1.5, 0.0, torch.exp(x * 8.0)))
    assert all("of their own size" in f or "element error" in f for f in found), found
    assert verdicts(spec, lambda x: torch.exp2(x * 11.541560)) == ["", ""]


def test_a_row_of_a_product_is_measured_by_its_own_terms() -> None:
    spec = make_spec("(a * torch.where(torch.arange(192)[:, None] == 17, 1e-6, 1.0).to(a)) @ b", *MATRICES, args="a, b")

    def scaled(a: torch.Tensor) -> torch.Tensor:
        return a * torch.where(torch.arange(192)[:, None] == 17, 1e-6, 1.0)

    def without(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        y = scaled(a) @ b
        y[17] = 0.0
        return y

    assert all(verdicts(spec, without))
    assert verdicts(spec, lambda a, b: in_order(scaled(a), b)) == ["", ""]


@settings(max_examples=60, deadline=None)
@given(
    rows=st.integers(1, 40),
    terms=st.integers(1, 300),
    small=st.floats(-6.0, 0.0),
    mean=st.floats(-2.0, 2.0),
    seed=st.integers(0, 2**31),
)
def test_any_order_of_a_sum_passes_and_no_row_may_be_zero(
    rows: int, terms: int, small: float, mean: float, seed: int
) -> None:
    """Products of which one row is 1 to a millionth of the others' size, with and without cancellation."""
    spec = make_spec("(a * s) @ b", MATRICES[0], MATRICES[1], InputSpec("s", (1, 1)), args="a, b, s")
    generator = torch.Generator().manual_seed(seed)
    a, b = (torch.randn(shape, generator=generator) + mean for shape in ((rows, terms), (terms, 48)))
    s = torch.ones(rows, 1)
    place = seed % rows
    s[place] = 10.0**small
    case = build_case(spec, build_model(spec, CPU), CPU, seed, None, None, [a, b, s], DRAWS)
    order = torch.randperm(terms, generator=generator)
    scaled = (a * s)[:, order]
    for honest in (in_order(scaled, b[order]), scaled @ b[order]):
        found = compare(case, [honest], spec)
        assert found["ok"], found["detail"]
    honest[place] = 0.0
    assert not compare(case, [honest], spec)["ok"]


def test_large_specs_have_no_bounds_of_single_elements() -> None:
    spec = make_spec("x * 2", InputSpec("x", (1 << 21,)))
    assert build_case(spec, build_model(spec, CPU), CPU, 1, None, draws=DRAWS).expected[0].local is None
