"""The C++ emitter itself: documented errors of the math functions, deterministic text, named errors, random programs."""

from __future__ import annotations

import ctypes
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from torch import Tensor

from agent.errors import EmitError
from agent.proposers.builtin.cpp import facts, indented, render_module
from agent.proposers.builtin.cpp_prelude import FRAGMENTS, prelude
from agent.proposers.builtin.plan import Choice
from evaluators.ir.interpret import interpret
from evaluators.languages.cpp import FLAGS
from tests.builtin.test_cpp_families import EXEMPLARS, choices, outputs
from tests.ir.test_random_programs import compositions
from tests.ir.test_trace import program_of

ULP_LIMITS = {"exp": 1.0, "tanh": 4.0, "sigmoid": 4.0, "erf": 1.0, "log": 1.0, "expm1": 2.0}


def test_math_functions_keep_their_documented_error() -> None:
    """Largest error in units of the last place against float64, over normal results of a dense sweep."""
    x = torch.cat([torch.linspace(-20, 20, 40001), torch.logspace(-30, 1.9, 4001), -torch.logspace(-30, 1.9, 4001)])
    functions = {name: getattr(torch, name) for name in ULP_LIMITS}

    def fn(v: Tensor) -> tuple[Tensor, ...]:
        return tuple(f(v.abs() if name == "log" else v) for name, f in functions.items())

    program = program_of(fn, [x])
    for name, got in zip(functions, outputs(program, choices(program, "math")[0], [x]), strict=True):
        exact = functions[name](x.double().abs() if name == "log" else x.double())
        ulp = 2.0 ** (torch.frexp(exact.abs()).exponent.double() - 24)
        normal = (exact.abs() > 2.0**-120) & (exact.abs() < 1e38)
        worst = float(((got.double() - exact).abs() / ulp)[normal].max())
        assert worst <= ULP_LIMITS[name], f"{name}: {worst:.2f} ulp"


def test_math_functions_at_the_edges() -> None:
    x = torch.tensor([float("nan"), float("inf"), float("-inf"), 0.0, 1e-40, 88.8, -103.0, 200.0, -200.0] * 3)
    for fn in (torch.exp, torch.tanh, torch.sigmoid, torch.erf, torch.log, torch.sqrt):
        program = program_of(fn, [x])
        (got,) = outputs(program, choices(program, "edges")[0], [x])
        torch.testing.assert_close(got, fn(x), equal_nan=True, atol=1e-37, rtol=1e-6)


UNDERFLOW = """
#include <cfenv>

extern "C" int underflows(const float* x, float* y, int n) {
  using V = vec<float, BYTES / 4>;
  feclearexcept(FE_ALL_EXCEPT);
  for (int i = 0; i < n; i += BYTES / 4) {
    V v;
    __builtin_memcpy(&v, x + i, sizeof v);
    const V e = exp_(v);
    const V rest = e * splat<V>(0.01f);
    __builtin_memcpy(y + i, &rest, sizeof rest);
  }
  return fetestexcept(FE_UNDERFLOW) != 0;
}
"""


def test_masked_scores_do_not_underflow(tmp_path: Path) -> None:
    """exp of what a mask removed is zero without a subnormal on the way, which would cost several times all the rest."""
    source, library = tmp_path / "k.cpp", tmp_path / "k.so"
    source.write_text(prelude({"exp"}) + UNDERFLOW)
    subprocess.run(["g++", *FLAGS, str(source), "-o", str(library)], check=True)
    underflows = ctypes.CDLL(str(library)).underflows
    for masked in (float("-inf"), -1e9, -10000.0, torch.finfo(torch.float32).min):
        x = torch.tensor([0.0, masked] * 32)
        y = torch.empty(64)
        assert not underflows(ctypes.c_void_p(x.data_ptr()), ctypes.c_void_p(y.data_ptr()), 64), masked
        assert torch.equal(y, torch.tensor([1.0, 0.0] * 32) * 0.01)


def test_text_depends_on_the_plan_alone() -> None:
    x = torch.zeros(4, 70)
    program = program_of(lambda v: v.softmax(-1), [x])
    plan = choices(program, "text")[0]
    assert render_module(program, ("x",), plan) == render_module(program, ("x",), plan)


REDUNDANT = [
    ("cpp_pointwise", lambda v: torch.tanh(v) + 1, (1500,), {"CHUNK": [2048, 65536]}),
    ("cpp_pointwise", lambda v: torch.tanh(v) + 1, (20,), {"UNROLL": [1, 4], "PREFETCH": [0, 1024]}),
    (
        "cpp_column_resident",
        lambda v: v * torch.rsqrt(v.square().mean(1, keepdim=True)),
        (2, 5, 63),
        {"TILE": [64, 4096]},
    ),
    ("cpp_row_resident", lambda v: v.softmax(-1), (64, 40), {"UNROLL": [2, 8]}),
    ("cpp_row_resident", lambda v: v.sum(-1), (64, 40), {"STREAM": [True, False], "PREFETCH": [True, False]}),
    ("cpp_scan", lambda v: v.cumsum(-1), (64, 40), {"UNROLL": [2, 8]}),
    ("cpp_split_reduce", lambda v: v.sum(), (3000,), {"CHUNK": [4096, 262144]}),
    ("cpp_split_reduce", lambda v: v.sum(-1), (64, 40), {"CHUNK": [4096, 262144], "UNROLL": [2, 8]}),
    ("cpp_product_direct", lambda v: v @ v.transpose(-1, -2), (4, 5, 9), {"MR": [6, 8]}),
    ("cpp_product_amx", lambda v: v @ v.t(), (64, 70), {"KC": [128, 256], "ROWS": [64, 512]}),
]


@pytest.mark.parametrize(("name", "fn", "shape", "knobs"), REDUNDANT, ids=lambda v: v if isinstance(v, str) else "")
def test_knobs_that_reach_beyond_what_there_is_change_nothing(
    name: str, fn: Any, shape: tuple[int, ...], knobs: dict[str, list[Any]]
) -> None:
    """Such values give one text, and so one candidate: a search must not credit "CHUNK × 2" with noise."""
    program = program_of(fn, [torch.ones(shape)])
    exemplar = next(e for e in EXEMPLARS if e.name == name)
    for knob, values in knobs.items():
        texts = {
            render_module(
                program, ("x",), {k.name: Choice(exemplar, {**exemplar.defaults, knob: v}) for k in program.kernels}
            )
            for v in values
        }
        assert len(texts) == 1, knob


def test_prelude_holds_only_what_is_used() -> None:
    assert "erf_" not in prelude({"exp"})
    assert prelude({"exp", "fold"}) == prelude({"fold", "exp"})
    assert set(FRAGMENTS) >= {n for f in FRAGMENTS.values() for n in f.needs}
    with pytest.raises(KeyError):
        prelude({"no such fragment"})


def test_an_unsupported_dtype_is_named() -> None:
    x = torch.zeros(8)
    program = program_of(lambda v: v + 1, [x])
    buffers = {n: replace(b, dtype="complex64") for n, b in program.buffers.items()}
    with pytest.raises(EmitError, match="complex64"):
        render_module(replace(program, buffers=buffers), ("x",), choices(program, "dtype")[0])


def test_a_schedule_that_does_not_fit_is_named() -> None:
    x = torch.zeros(4, 70)
    program = program_of(lambda v: v.softmax(-1), [x])
    wrong = next(e for e in EXEMPLARS if e.name == "cpp_product_direct")
    with pytest.raises(EmitError, match="cpp_product_direct"):
        render_module(program, ("x",), {program.kernels[0].name: Choice(wrong, wrong.defaults)})


def test_layout_follows_braces() -> None:
    assert indented("a {\nb;\n{ c; }\n}\n#if X\nd;\n#endif") == "a {\n  b;\n  { c; }\n}\n#if X\nd;\n#endif\n"


def test_facts_cover_every_name_in_constraints() -> None:
    """Constraints of every C++ exemplar can be read for any kernel."""
    x = torch.zeros(3, 4)
    for fn in (torch.tanh, lambda v: v.sum(), lambda v: v @ v.t(), lambda v: v.cumsum(-1)):
        program = program_of(fn, [x])
        for kernel in program.kernels:
            for e in EXEMPLARS:
                e.violated(e.defaults, facts(kernel, program))


@settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck), database=None)
@given(compositions())
def test_random_programs_mean_what_the_interpreter_says(case: tuple[Any, Tensor]) -> None:
    fn, x = case
    program = program_of(fn, [x])
    plan = choices(program, "random")[0]
    try:
        produced = outputs(program, plan, [x])
    except EmitError:  # a schedule may decline a program; it may never be wrong
        return
    for got, want in zip(produced, interpret(program, [x]), strict=True):
        torch.testing.assert_close(got, want, atol=2e-5, rtol=2e-5)
