"""Random compositions of pointwise operators, views, reductions and scans trace to programs that mean the same."""

from __future__ import annotations

from typing import Any

import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import Tensor

from tests.ir.test_trace import agree, program_of

UNARY = [torch.tanh, torch.sigmoid, torch.abs, torch.neg, torch.relu, lambda v: v * v, lambda v: v + 0.5]
SHAPES = [(3, 4, 6), (1, 8, 9), (2, 6, 2)]


def _step(draw: st.DrawFn, x: Tensor, first: Tensor) -> Any:
    """One operator as (function of (x, first)); chosen so that every intermediate stays small and finite."""
    kind = draw(
        st.sampled_from(["unary", "reduce", "keepdim", "permute", "merge", "slice", "cumsum", "softmax", "mix"])
    )
    d = draw(st.integers(0, x.dim() - 1))
    if kind == "reduce" and x.dim() > 1:
        fold = draw(st.sampled_from([torch.sum, torch.mean, torch.amax]))
        return lambda v, f: fold(v, d)
    if kind == "keepdim":
        return lambda v, f: v - v.mean(d, keepdim=True)
    if kind == "permute":
        return lambda v, f: v.movedim(d, 0)
    if kind == "merge" and x.dim() > 1:
        return lambda v, f: v.flatten(0, 1)
    if kind == "slice" and x.shape[d] > 1:
        return lambda v, f: v.narrow(d, 1, v.shape[d] - 1)
    if kind == "cumsum":
        return lambda v, f: v.cumsum(d)
    if kind == "softmax":
        return lambda v, f: v.softmax(d)
    if kind == "mix":
        return lambda v, f: v * f.mean()
    unary = draw(st.sampled_from(UNARY))
    return lambda v, f: unary(v)


@st.composite
def compositions(draw: st.DrawFn) -> tuple[Any, Tensor]:
    x = torch.randn(draw(st.sampled_from(SHAPES)), generator=torch.Generator().manual_seed(draw(st.integers(0, 99))))
    steps = []
    value = x
    for _ in range(draw(st.integers(1, 5))):
        step = _step(draw, value, x)
        steps.append(step)
        value = step(value, x)

    def fn(first: Tensor) -> Tensor:
        v = first
        for s in steps:
            v = s(v, first)
        return v

    return fn, x


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(compositions())
def test_random_compositions_agree_with_eager(case: tuple[Any, Tensor]) -> None:
    fn, x = case
    agree(program_of(fn, [x]), fn, [x])
