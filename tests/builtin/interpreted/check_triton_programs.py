"""Random pointwise and row programs through the Triton emitter, against the loop IR's own interpreter.

Collected only by tests/builtin/test_triton_processes.py, in a process of its own where TRITON_INTERPRET is set.
"""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.errors import EmitError
from agent.proposers.builtin import triton
from agent.proposers.builtin.plan import Choice
from evaluators.ir.expr import Expr, affine, axis, cast, const, load, op, reduced, scanned
from evaluators.ir.interpret import interpret
from evaluators.ir.kernel import Axis, Buffer, Kernel, Pass, Program, Reduction, Scan, Store
from knowledge.exemplars import load_all
from tests.builtin.candidates import load_candidate

EXEMPLARS = {e.name: e for e in load_all() if e.language == "triton"}
SMOOTH = "neg abs tanh sigmoid erf sin cos sqrt1 log1 exp1 square".split()
PAIRS = "add sub mul min max".split()
ROWS, COLS = 5, 37


def unary(name: str, x: Expr) -> Expr:
    """Well-conditioned forms, so that rounding in one place cannot decide the result."""
    one = const(1.0, "f32")
    if name == "sqrt1":
        return op("sqrt", op("add", op("abs", x), one))
    if name == "log1":
        return op("log", op("add", op("abs", x), one))
    if name == "exp1":
        return op("exp", op("neg", op("abs", x)))
    if name == "square":
        t = op("tanh", x)
        return op("mul", t, t)
    return op(name, x)


@st.composite
def values(draw: st.DrawFn, leaves: list[Expr]) -> Expr:
    """An expression over some of ``leaves``, with comparisons, integer arithmetic and constants."""
    pool = [*leaves, const(draw(st.floats(-2, 2, width=32)), "f32")]
    for _ in range(draw(st.integers(1, 6))):
        kind = draw(st.sampled_from(("unary", "pair", "choose", "index")))
        a, b = draw(st.sampled_from(pool)), draw(st.sampled_from(pool))
        if kind == "unary":
            pool.append(unary(draw(st.sampled_from(SMOOTH)), a))
        elif kind == "pair":
            pool.append(op(draw(st.sampled_from(PAIRS)), a, b))
        elif kind == "choose":
            pool.append(op("where", op("lt", leaves[0], const(0.25, "f32")), a, b))
        else:
            by = const(draw(st.integers(1, 9)), "i64")
            shifted = op("sub", axis("r"), const(draw(st.integers(0, 4)), "i64"))
            part = op(draw(st.sampled_from(("mod", "floordiv"))), shifted, by)
            pool.append(op("mul", cast(part, "f32"), const(0.125, "f32")))
    return op("add", pool[-1], leaves[0])


def program(kernel: Kernel, shape: tuple[int, ...]) -> Program:
    """Inputs x[r, c], y[c] and z[r], output t."""
    buffers = {
        "x0": Buffer("x0", (ROWS, COLS), "float32", "input", 0),
        "x1": Buffer("x1", (COLS,), "float32", "input", 1),
        "x2": Buffer("x2", (ROWS,), "int64", "input", 2),
        "t0": Buffer("t0", shape, "float32", "output", 0),
    }
    return Program("p", buffers, (kernel,), ("t0",), "tensor", 3)


def agree(p: Program, name: str, **knobs: int) -> None:
    """The emitted module and the interpreter give the same numbers."""
    generator = torch.Generator().manual_seed(3)
    x = torch.randn(ROWS, COLS, generator=generator)
    inputs = [x, torch.randn(COLS, generator=generator), torch.randint(0, COLS, (ROWS,), generator=generator)]
    exemplar = EXEMPLARS[name]
    plan = {k.name: Choice(exemplar, {**exemplar.defaults, **knobs}) for k in p.kernels}
    source = triton.render_module(p, ("a", "b", "c"), plan)
    assert source == triton.render_module(p, ("a", "b", "c"), plan)
    got = load_candidate(source).ModelNew()(*inputs)
    torch.testing.assert_close(got, interpret(p, inputs)[0], rtol=2e-5, atol=2e-5, equal_nan=True)


X = load("x0", affine(0, {"r": COLS, "c": 1}), "f32")
Y = load("x1", affine(0, {"c": 1}), "f32")
GATHERED = load("x0", affine(0, {"r": COLS}, {load("x2", affine(0, {"r": 1}), "i64"): 1}), "f32")
R, C = Axis("r", ROWS), Axis("c", COLS)


@settings(max_examples=20, deadline=None, derandomize=True)
@given(values([X, Y, GATHERED]), st.sampled_from(("pointwise_flat", "pointwise_tile")))
def test_pointwise(value: Expr, name: str) -> None:
    kernel = Kernel("k0", (R, C), (Pass((), stores=(Store("t0", affine(0, {"r": COLS, "c": 1}), value),)),))
    agree(program(kernel, (ROWS, COLS)), name, **({"BLOCK": 512} if name == "pointwise_flat" else {"BLOCK_R": 2}))


@settings(max_examples=20, deadline=None, derandomize=True)
@given(
    values([X, Y, GATHERED]),
    st.sampled_from(("sum", "max", "min", "any", "all")),
    st.sampled_from(("row_resident", "row_looped", "split_reduce")),
    st.booleans(),
)
def test_row_reductions_and_what_follows(value: Expr, fold: str, name: str, norm: bool) -> None:
    kind = "bool" if fold in ("any", "all") else "f32"
    folded = op("gt", value, const(0.0, "f32")) if kind == "bool" else value
    reduction = Reduction("s0", fold, folded, kind)  # type: ignore[arg-type]
    result = cast(reduced("s0", kind), "f32")  # type: ignore[arg-type]
    if norm and name != "split_reduce":
        store = Store("t0", affine(0, {"r": COLS, "c": 1}), op("add", op("mul", X, result), Y))
        passes = (Pass((C,), (reduction,)), Pass((C,), stores=(store,)))
        shape: tuple[int, ...] = (ROWS, COLS)
    else:
        passes = (
            Pass((C,), (reduction,)),
            Pass((), stores=(Store("t0", affine(0, {"r": 1}), op("add", result, GATHERED)),)),
        )
        shape = (ROWS,)
    knobs = {
        "row_resident": {"BLOCK_R": 2},
        "row_looped": {"BLOCK": 1024, "BLOCK_R": 2},
        "split_reduce": {"SPLIT": 4, "BLOCK": 1024},
    }
    agree(program(Kernel("k0", (R,), passes), shape), name, **knobs[name])


@settings(max_examples=6, deadline=None, derandomize=True)
@given(values([X, Y]), st.booleans())
def test_scans(value: Expr, reverse: bool) -> None:
    scan = Scan("n0", "sum", unary("tanh", value), "f32", reverse)
    store = Store("t0", affine(0, {"r": COLS, "c": 1}), op("add", scanned("n0", "f32"), Y))
    kernel = Kernel("k0", (R,), (Pass((C,), scans=(scan,), stores=(store,)),))
    agree(program(kernel, (ROWS, COLS)), "scan_looped", BLOCK=512, BLOCK_R=2)


def test_an_operator_without_a_triton_form_is_named() -> None:
    value = op("atan2", X, Y)
    kernel = Kernel("k0", (R, C), (Pass((), stores=(Store("t0", affine(0, {"r": COLS, "c": 1}), value),)),))
    with pytest.raises(EmitError, match="atan2"):
        agree(program(kernel, (ROWS, COLS)), "pointwise_flat", BLOCK=512)


def test_infinities_and_nans_reach_softmax_as_in_pytorch() -> None:
    rows = torch.randn(ROWS, COLS)
    rows[0, 3], rows[1, 5], rows[2, :], rows[3, 7] = float("inf"), float("nan"), float("-inf"), float("-inf")
    peak = Reduction("s0", "max", X, "f32")
    shifted = op("exp", op("sub", X, reduced("s0", "f32")))
    result = op("div", shifted, reduced("s1", "f32"))
    store = Store("t0", affine(0, {"r": COLS, "c": 1}), result)
    passes = (Pass((C,), (peak,)), Pass((C,), (Reduction("s1", "sum", shifted, "f32"),)), Pass((C,), stores=(store,)))
    p = program(Kernel("k0", (R,), passes), (ROWS, COLS))
    inputs = [rows, torch.zeros(COLS), torch.zeros(ROWS, dtype=torch.int64)]
    for name, knobs in (("row_resident", {}), ("row_looped", {"BLOCK": 1024}), ("row_cooperative", {"SPLIT": 1})):
        plan = {"k0": Choice(EXEMPLARS[name], {**EXEMPLARS[name].defaults, **knobs})}
        got = load_candidate(triton.render_module(p, ("a", "b", "c"), plan)).ModelNew()(*inputs)
        torch.testing.assert_close(got, torch.softmax(rows, 1), rtol=2e-5, atol=2e-5, equal_nan=True)
