"""Every C++ exemplar computes what PyTorch does, compiled and run, on awkward shapes: ones, primes, tails, empty segments, broadcasts.

The bar is the judge's: at most twice PyTorch's own distance from a float64 oracle, above a floor of a few roundoffs.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from agent.proposers.builtin.cpp import facts, render_module
from agent.proposers.builtin.plan import Choice
from evaluators.ir.kernel import Program
from evaluators.judge.oracle.accuracy import errors
from knowledge.exemplars import Exemplar, load_all
from tests.builtin.candidates import load_candidate
from tests.ir.test_trace import program_of

EXEMPLARS = load_all(Path(__file__).parents[2] / "corpora" / "kernels" / "cpp")
GENERATOR = torch.Generator().manual_seed(7)


def normal(*shape: int) -> Tensor:
    return torch.randn(shape, generator=GENERATOR)


def offsets(*lengths: int) -> Tensor:
    return torch.tensor([0, *lengths]).cumsum(0)


def bag(table: Tensor, at: Tensor, starts: Tensor) -> Tensor:
    return F.embedding_bag(at, table, starts, mode="sum", include_last_offset=True)


def rms_over_channels(x: Tensor) -> Tensor:
    return x * torch.rsqrt(x.square().mean(1, keepdim=True) + 1e-6)


Case = tuple[str, Callable[..., Any], list[Tensor]]
FLOATING: list[Case] = [
    ("chain with a column operand", lambda x, s: torch.tanh(x * s) * torch.sigmoid(x) + x, [normal(5, 37), normal(37)]),
    ("one element", lambda x: torch.exp(x) + 1, [normal(1)]),
    ("row operand, prime extents", lambda x, s: F.gelu(x) - s, [normal(3, 7, 101), normal(7, 1)]),
    (
        "comparison and choice",
        lambda x, y: torch.where(x > y, x * 2, torch.minimum(x, y) - 1),
        [normal(67), normal(67)],
    ),
    ("softmax", lambda x: x.softmax(-1), [normal(5, 137)]),
    ("softmax of one column", lambda x: x.softmax(-1), [normal(9, 1)]),
    ("layer norm", lambda x, w, b: F.layer_norm(x, (45,), w, b), [normal(2, 3, 45), normal(45), normal(45)]),
    ("norm over channels", rms_over_channels, [normal(2, 5, 3, 7)]),
    ("tall column sum", lambda x: x.sum(0), [normal(1000, 37)]),
    ("short column mean", lambda x: x.mean(0), [normal(9, 5)]),
    ("middle axis maximum", lambda x: x.amax(1), [normal(3, 11, 29)]),
    ("variance of everything", lambda x: x.var(), [normal(100, 1003)]),
    ("sum of squares", lambda x: (x * x).sum(), [normal(70001)]),
    ("row sums", lambda x: (x * 0.5).sum(-1), [normal(7, 333)]),
    ("cumulative sum", lambda x: x.cumsum(-1), [normal(3, 77)]),
    ("cumulative maximum and reversal", lambda x: x.flip(-1).cumsum(-1).flip(-1), [normal(2, 40)]),
    ("batched small products", lambda x, y: x @ y, [normal(3, 5, 9), normal(3, 9, 21)]),
    (
        "product with bias and activation",
        lambda x, w, b: torch.relu(x @ w + b),
        [normal(33, 70), normal(70, 65), normal(65)],
    ),
    ("product with a transposed weight", lambda x, w: x @ w.t(), [normal(40, 100), normal(50, 100)]),
    (
        "embedding bag",
        bag,
        [normal(50, 20), torch.randint(0, 50, (23,), generator=GENERATOR), offsets(0, 5, 0, 17, 1, 0)],
    ),
    (
        "cross entropy",
        lambda x, t: F.cross_entropy(x, t, ignore_index=-100),
        [normal(13, 57), torch.tensor([3, -100, 56, 0, 5, 6, 7, -100, 8, 9, 10, 11, 12])],
    ),
]
EXACT: list[Case] = [
    ("integers", lambda x, y: (x // 3 + y) % 5 - x * y, [torch.arange(-20, 21), torch.arange(41)]),
    ("any and all", lambda x: (x > 2).any(-1) | (x > -3).all(-1), [normal(6, 50)]),
    ("bucketize", lambda x, b: torch.bucketize(x, b, right=True), [torch.arange(100), torch.tensor([5, 10, 50, 70])]),
    ("gather", lambda x, i: x[i], [normal(31), torch.randint(0, 31, (45,), generator=GENERATOR)]),
]


def choices(program: Program, seed: str) -> list[dict[str, Choice]]:
    """One plan per admissible exemplar at its defaults, and one with knobs drawn at random."""
    draw = random.Random(seed)
    per_kernel: list[list[tuple[str, Choice]]] = []
    for kernel in program.kernels:
        about = facts(kernel, program)
        found: list[tuple[str, Choice]] = []
        for e in EXEMPLARS:
            if about["pattern"] in e.patterns and e.admits(e.defaults, about):
                found += [(kernel.name, Choice(e, e.defaults)), (kernel.name, Choice(e, drawn(e, about, draw)))]
        assert found, f"no exemplar admits {kernel.name}: {about}"
        per_kernel.append(found)
    count = max(map(len, per_kernel), default=0)
    return [dict(found[i % len(found)] for found in per_kernel) for i in range(count)]


def drawn(e: Exemplar, about: dict[str, int | str], draw: random.Random) -> dict[str, Any]:
    """Random admissible knobs."""
    for _ in range(50):
        knobs = {name: draw.choice(knob.values) for name, knob in e.knobs.items()}
        if not e.violated(knobs, about):
            return knobs
    return dict(e.defaults)


def outputs(program: Program, plan: dict[str, Choice], inputs: list[Tensor]) -> list[Tensor]:
    names = tuple(f"a{i}" for i in range(len(inputs)))
    got = load_candidate(render_module(program, names, plan)).ModelNew()(*inputs)
    return list(got) if isinstance(got, tuple) else [got]


def described(plan: dict[str, Choice]) -> str:
    return "; ".join(f"{n}: {c.exemplar.name} {dict(c.knobs)}" for n, c in plan.items())


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["float32", "bfloat16"])
@pytest.mark.parametrize("case", FLOATING, ids=[c[0] for c in FLOATING])
def test_agrees_with_the_oracle(case: Case, dtype: torch.dtype) -> None:
    name, fn, given = case
    inputs = [t.to(dtype) if t.is_floating_point() else t for t in given]
    program = program_of(fn, inputs)
    reference = fn(*inputs)
    oracle = fn(*[t.double() if t.is_floating_point() else t for t in inputs])
    own = errors(reference, oracle)
    floor = 2.0**-20 if dtype == torch.float32 else 2.0**-8
    plans = choices(program, name)
    for plan in plans if dtype == torch.float32 else plans[:1]:
        (got,) = outputs(program, plan, inputs)
        assert got.dtype == reference.dtype
        assert got.shape == reference.shape
        found = errors(got, oracle)
        assert found.norm <= max(2 * own.norm, floor), f"{described(plan)}: {found}, PyTorch {own}"
        assert found.element <= max(2 * own.element, 4 * floor), f"{described(plan)}: {found}, PyTorch {own}"


@pytest.mark.parametrize("case", EXACT, ids=[c[0] for c in EXACT])
def test_integers_and_truth_values_are_exact(case: Case) -> None:
    name, fn, inputs = case
    program = program_of(fn, inputs)
    reference = fn(*inputs)
    for plan in choices(program, name):
        (got,) = outputs(program, plan, inputs)
        assert got.dtype == reference.dtype
        assert torch.equal(got, reference), described(plan)


def test_nan_and_infinity_pass_through_folds_as_in_pytorch() -> None:
    x = torch.tensor([[1.0, float("nan"), 3.0] * 30, [float("-inf")] * 90, [1.0, float("inf"), 2.0] * 30])
    for fn in (lambda v: v.amax(-1), lambda v: v.sum(-1), lambda v: torch.maximum(v, v.flip(0))):
        program = program_of(fn, [x])
        (got,) = outputs(program, choices(program, "nan")[0], [x])
        torch.testing.assert_close(got, fn(x), equal_nan=True)
