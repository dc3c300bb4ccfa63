"""The accuracy rule accepts what rounds like the reference and rejects what does not."""

from __future__ import annotations

import math

import pytest
import torch

from evaluators.judge.oracle import accuracy
from evaluators.judge.oracle.cases import build_case, compare
from evaluators.spec.inputs import make_inputs
from evaluators.spec.kernel_spec import InputSpec, KernelSpec, Tolerance
from evaluators.spec.model import build_model
from tests.judge.conftest import make_spec

CPU = torch.device("cpu")


def verdict(spec: KernelSpec, compute: object, seed: int = 5) -> dict[str, object]:
    """What the rule says of ``compute(*inputs)``."""
    case = build_case(spec, build_model(spec, CPU), CPU, seed, None)
    value = compute(*case.inputs)  # type: ignore[operator]
    return compare(case, list(value) if isinstance(value, tuple) else [value], spec)


def truncated(x: torch.Tensor, bits: int) -> torch.Tensor:
    """float32 with ``bits`` mantissa bits, rounded to nearest: 10 are TF32's, 7 bfloat16's."""
    drop = 23 - bits
    whole = x.view(torch.int32).long() + (1 << (drop - 1))
    return ((whole >> drop) << drop).to(torch.int32).view(torch.float32)


def product(bits: int | None, parts: int) -> object:
    """A matrix product from operands split into ``parts`` pieces of ``bits`` mantissa bits; terms below the last piece dropped."""

    def pieces(x: torch.Tensor) -> list[torch.Tensor]:
        found = []
        for _ in range(parts):
            piece = truncated(x, bits) if bits else x
            found.append(piece)
            x = x - piece
        return found

    def compute(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        left, right = pieces(a), pieces(b)
        return sum(left[i] @ right[j] for i in range(parts) for j in range(parts) if i + j < parts)  # type: ignore[return-value]

    return compute


@pytest.mark.parametrize("k", [64, 512, 2048])
@pytest.mark.parametrize(
    ("name", "bits", "parts", "ok"),
    [
        ("ieee", None, 1, True),
        ("3xTF32", 10, 2, True),
        ("bf16x6", 7, 3, True),
        ("tf32", 10, 1, False),
        ("bf16", 7, 1, False),
    ],
)
def test_precision_of_products(k: int, name: str, bits: int | None, parts: int, ok: bool) -> None:
    spec = make_spec("a @ b", InputSpec("a", (96, k)), InputSpec("b", (k, 96), args={"std": k**-0.5}), args="a, b")
    found = verdict(spec, product(bits, parts))
    assert found["ok"] is ok, found["detail"]


def test_other_summation_order_passes_on_a_cancelling_sum() -> None:
    """The mean of a million normal numbers is near 0: its relative error says nothing, its conditioning does."""
    spec = make_spec("x.mean()", InputSpec("x", (1 << 20,)))
    for seed in range(4):
        assert verdict(spec, lambda x: x.flip(0).view(1024, 1024).sum(0).sum() / x.numel(), seed)["ok"]
    assert not verdict(spec, lambda x: x[: 1 << 19].mean())["ok"]


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_half_precision_with_float32_inside_passes_and_double_rounding_of_inputs_does_not(dtype: str) -> None:
    spec = make_spec("torch.softmax(x, -1)", InputSpec("x", (64, 512)), dtype=dtype)
    half = getattr(torch, dtype)
    assert verdict(spec, lambda x: torch.softmax(x.float(), -1).to(half))["ok"]
    assert not verdict(spec, lambda x: torch.softmax(x.to(torch.float8_e4m3fn).float(), -1).to(half))["ok"]


def test_one_wrong_element_in_a_million_is_found() -> None:
    spec = make_spec("x * 2", InputSpec("x", (1 << 20,)))

    def wrong(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        y[777_777] += 0.001
        return y

    found = verdict(spec, wrong)
    assert not found["ok"]
    assert "[777777]" in str(found["detail"])


def test_nan_and_infinity_must_be_where_the_reference_has_them() -> None:
    spec = make_spec("torch.log(x)", InputSpec("x", (4096,)))
    assert verdict(spec, torch.log)["ok"]
    assert not verdict(spec, lambda x: torch.log(x).nan_to_num(0.0))["ok"]
    spec = make_spec("1 / (x * 0)", InputSpec("x", (64,)))
    assert verdict(spec, lambda x: 1 / (x * 0))["ok"]
    assert not verdict(spec, lambda x: -1 / (x * 0))["ok"]


def test_zeros_do_not_pass_for_small_values() -> None:
    spec = make_spec("x * 1e-20", InputSpec("x", (4096,)))
    assert not verdict(spec, torch.zeros_like)["ok"]
    assert verdict(spec, lambda x: x * 1e-20)["ok"]


def test_zero_output_wants_zero() -> None:
    spec = make_spec("x * 0", InputSpec("x", (64,)))
    assert verdict(spec, lambda x: x * 0)["ok"]
    assert not verdict(spec, lambda x: x * 0 + 1e-12)["ok"]


def test_integers_are_exact() -> None:
    spec = make_spec("x.argmax(-1), x > 0", InputSpec("x", (64, 33)))
    assert verdict(spec, lambda x: (x.argmax(-1), x > 0))["ok"]
    assert not verdict(spec, lambda x: (x.argmax(-1) + 1, x > 0))["ok"]
    assert not verdict(spec, lambda x: (x.argmax(-1), x >= 10))["ok"]


def test_declared_tolerance_replaces_the_rule() -> None:
    spec = make_spec("x * 2", InputSpec("x", (64,)), tolerance=Tolerance(atol=0.1, rtol=0.0))
    assert verdict(spec, lambda x: x * 2 + 0.09)["ok"]
    assert not verdict(spec, lambda x: x * 2 + 0.11)["ok"]


def test_errors_by_hand() -> None:
    found = accuracy.errors(torch.tensor([3.0, 4.5]), torch.tensor([3.0, 4.0], dtype=torch.float64))
    assert found.norm == pytest.approx(0.1)
    assert found.absolute == 0.5
    assert found.element == pytest.approx(0.5 / (4.0 + math.sqrt(12.5)))


def test_in_place_reference_is_recognised() -> None:
    spec = make_spec("x.relu_()", InputSpec("x", (64,)))
    case = build_case(spec, build_model(spec, CPU), CPU, 1, None)
    assert case.inputs_may_change
    left = case.inputs[0].relu()
    assert case.after[0].judge(left, None).ok
    assert not case.after[0].judge(left + 1, None).ok
    assert bool((case.inputs[0] < 0).any())  # kept as they were before the call


def test_the_oracle_works_on_copies_in_float64_too() -> None:
    """Inputs that are float64 already are neither perturbed nor changed by the oracle's own calls."""
    spec = make_spec("x.mul_(3.0) + 1.0", InputSpec("x", (777,)), dtype="float64")
    found = build_case(spec, build_model(spec, CPU), CPU, 1, None)
    assert torch.equal(found.inputs[0], make_inputs(spec, 1, CPU)[0])
    assert found.expected[0].gates is not None
    assert found.expected[0].gates.norm < 1e-12
    assert verdict(spec, lambda x: x * 3.0 + 1.0, 1)["ok"]
    assert not verdict(spec, lambda x: x * 3.0 + 1.001, 1)["ok"]


TIED = InputSpec("x", (17, 61), dist="randint", args={"low": 0, "high": 30})
SMALL = InputSpec("x", (17, 61), dist="randint", args={"low": 0, "high": 9})


def last_first(x: torch.Tensor, k: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The ``k`` largest of each row, of equal ones the last."""
    at = x.flip(-1).sort(dim=-1, descending=True, stable=True).indices[:, :k]
    at = x.shape[-1] - 1 - at
    return x.gather(-1, at), at


def test_other_positions_of_equal_values_are_right_where_pytorch_leaves_them_open() -> None:
    spec = make_spec("torch.topk(x, 5, dim=-1)", TIED)
    assert verdict(spec, lambda x: last_first(x, 5))["ok"]
    assert not verdict(spec, lambda x: (last_first(x, 5)[0], last_first(x, 5)[1] * 0))["ok"]  # one element five times
    assert not verdict(spec, lambda x: (last_first(x, 5)[0], last_first(x, 5)[1] - 61))["ok"]  # outside
    assert not verdict(spec, lambda x: (last_first(x, 5)[0], (last_first(x, 5)[1] + 1) % 61))["ok"]
    for reference in ("torch.sort(x, -1, descending=True)[1]", "torch.argsort(x, -1, descending=True).int()"):
        found = verdict(
            make_spec(reference, TIED),
            lambda x, r=reference: last_first(x, 61)[1].to(eval(r, {"torch": torch, "x": x}).dtype),
        )
        assert found["ok"], found["detail"]
    assert verdict(make_spec("torch.kthvalue(x, 9, -1)[1] + 0", SMALL), lambda x: torch.kthvalue(x, 9, -1)[1])["ok"]
    other = verdict(
        make_spec("torch.kthvalue(x, 30, 0)", InputSpec("x", (61, 17), dist="randint", args={"low": 0, "high": 9})),
        other_kth,
    )
    assert other["ok"], other["detail"]


def other_kth(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The last position of the 30th smallest value of each column."""
    value = x.sort(0).values[29]
    return value, 60 - (x == value).flip(0).int().argmax(0)


def test_promised_positions_stay_exact() -> None:
    """``argmax``, ``max(dim)`` and stable sorts say which of equal elements they take."""
    last = lambda x: last_first(x, 1)[1][:, 0]  # noqa: E731
    assert not verdict(make_spec("x.argmax(-1)", TIED), last)["ok"]
    assert not verdict(make_spec("x.max(-1)", TIED), lambda x: (x.amax(-1), last(x)))["ok"]
    stable = make_spec("torch.sort(x, dim=-1, descending=True, stable=True)", TIED)
    assert not verdict(stable, lambda x: last_first(x, 61))["ok"]
    assert verdict(stable, lambda x: torch.sort(x, dim=-1, descending=True, stable=True))["ok"]


def test_positions_of_computed_values_may_differ_by_their_rounding_only() -> None:
    spec = make_spec("torch.topk(torch.softmax(x * 1e-4, -1), 3)[1]", InputSpec("x", (64, 4096)))
    assert verdict(spec, lambda x: torch.topk(torch.exp(x * 1e-4) / torch.exp(x * 1e-4).sum(-1, keepdim=True), 3)[1])[
        "ok"
    ]
    assert not verdict(spec, lambda x: torch.topk(x, 4)[1][:, 1:])["ok"]


def test_an_unsorted_topk_is_a_set() -> None:
    spec = make_spec("torch.topk(x, 5, sorted=False)", InputSpec("x", (64, 100)))
    assert verdict(spec, lambda x: tuple(t.flip(-1) for t in torch.topk(x, 5)))["ok"]
    assert not verdict(spec, lambda x: tuple(t[:, 1:] for t in torch.topk(x, 6)))["ok"]


def test_one_long_sum_after_the_other_passes_among_half_a_million() -> None:
    """Products of length 1024 added up in order, in float32: their errors are spread normally, and the largest of many is large."""
    spec = make_spec("a @ b", InputSpec("a", (512, 1024)), InputSpec("b", (1024, 1024)), args="a, b")

    def in_order(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        total = torch.zeros(512, 1024)
        for k in range(1024):
            total += a[:, k : k + 1] * b[k]
        return total

    found = verdict(spec, in_order)
    assert found["ok"], found["detail"]
