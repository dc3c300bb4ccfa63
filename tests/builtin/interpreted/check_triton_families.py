"""Every Triton schedule family on every starter spec it fits, run by Triton's interpreter at small awkward shapes.

Collected only by tests/builtin/test_triton_processes.py, in a process of its own where TRITON_INTERPRET is set.
"""

from __future__ import annotations

import random
from dataclasses import replace
from functools import cache
from typing import Any

import pytest
import torch

from agent.errors import EmitError
from agent.proposers.builtin import space, triton
from agent.proposers.builtin.plan import Choice
from evaluators.ir.pattern import classify
from evaluators.ir.trace import trace
from evaluators.languages.triton_interpreter import repair
from evaluators.spec import load
from evaluators.spec.inputs import make_inputs
from evaluators.spec.kernel_spec import Dim, KernelSpec
from evaluators.spec.model import build_model, signature, to_float64
from knowledge.exemplars import Exemplar, load_all
from tests.builtin.candidates import run_candidate

repair()
SMALL = {
    "pointwise_chain": {"M": 5, "N": 70},
    "residual_rmsnorm_swiglu": {"M": 3, "D": 70},
    "layernorm": {"M": 5, "N": 70},
    "rmsnorm_dim1": {"B": 2, "C": 5, "H": 3, "W": 7},
    "softmax": {"M": 3, "N": 300},
    "colsum": {"M": 70, "N": 37},
    "sum_of_squares": {"N": 5000},
    "cumsum": {"M": 3, "N": 300},
    "cross_entropy": {"M": 19, "V": 150},
    "gemm_bias_gelu": {"M": 64, "N": 128, "K": 128},
    "bmm_small": {"B": 6, "M": 5, "N": 7, "K": 9},
    "embedding_bag": {"R": 50, "D": 20, "B": 6, "L": 4},
    "mapid": {"N": 300},
    "jagged_mean": {"T": 60, "R": 6, "D": 12},
}
CHEAP = {"BLOCK": 512, "BLOCK_R": 2, "BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 32, "SPLIT": 4, "PER": 2, "BLOCK_C": 32}
"""Few program instances: the interpreter takes about a millisecond for each."""


@cache
def problem(name: str, dtype: str) -> tuple[KernelSpec, Any, Any, list[Any], torch.Tensor, float]:
    """Spec, program, model, inputs, float64 result and the reference's own error."""
    spec = load(f"starter/{name}", dtype=dtype, profile="cpu")
    spec = replace(spec, dims={k: Dim(SMALL[name].get(k, d.value), 0, 1 << 40) for k, d in spec.dims.items()})
    model, inputs = build_model(spec, "cpu"), make_inputs(spec, 1, "cpu")
    model64, inputs64 = to_float64(model, inputs)
    want = model64(*inputs64).double()
    return spec, trace(spec), model, inputs, want, distance(model(*inputs), want)


def distance(got: torch.Tensor, want: torch.Tensor) -> float:
    """Relative Frobenius distance."""
    return float((got.double() - want).norm() / want.norm().clamp_min(1e-30))


def points(exemplar: Exemplar, facts: dict[str, Any]) -> list[dict[str, Any]]:
    """Up to two admissible knob settings: the nearest to a cheap one, and a random one."""
    wanted = {n: CHEAP[n] if CHEAP.get(n) in k.values else k.default for n, k in exemplar.knobs.items()}
    if exemplar.name == "row_cooperative":
        wanted["SPLIT"] = 1
    found = [space.repaired(exemplar, wanted, facts), space.sample(exemplar, facts, random.Random(7))]
    return [p for i, p in enumerate(found) if p is not None and p not in found[:i]]


def plans(name: str, dtype: str) -> list[dict[str, Choice]]:
    """For each kernel in turn, every schedule that fits it, with the other kernels on their first."""
    program = problem(name, dtype)[1]
    per: list[list[Choice]] = []
    for kernel in program.kernels:
        facts = {**triton.facts(kernel, program), "shared_limit": 232448}
        fitting = [e for e in load_all() if e.language == "triton" and classify(kernel) in e.patterns]
        per.append([Choice(e, p) for e in fitting for p in points(e, facts)])
    names = [k.name for k in program.kernels]
    first = [choices[0] for choices in per]
    return [dict(zip(names, [*first[:i], c, *first[i + 1 :]], strict=True)) for i, cs in enumerate(per) for c in cs]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("name", SMALL)
def test_every_fitting_schedule_computes_the_reference(name: str, dtype: str) -> None:
    spec, program, model, inputs, want, own = problem(name, dtype)
    tried = plans(name, dtype)
    assert tried
    limit = max(2 * own, {"float32": 5e-7, "bfloat16": 3e-3}[dtype])  # the interpreter's running sums are sequential
    for plan in tried if dtype == "float32" else tried[:2]:
        source = triton.render_module(program, signature(spec), plan)
        error = distance(run_candidate(source, model, inputs), want)
        shown = {k: (c.exemplar.name, dict(c.knobs)) for k, c in plan.items()}
        assert error <= limit, f"{shown}: error {error:.2e}, limit {limit:.2e}"


def test_a_schedule_that_cannot_carry_a_kernel_says_so() -> None:
    spec, program, *_ = problem("cross_entropy", "float32")
    split = next(e for e in load_all() if e.name == "split_reduce" and e.language == "triton")
    plan = {k.name: Choice(split, split.defaults) for k in program.kernels}
    with pytest.raises(EmitError, match="exactly one pass"):
        triton.render_module(program, signature(spec), plan)
