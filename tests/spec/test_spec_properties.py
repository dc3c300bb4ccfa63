"""Properties that hold for every spec, shape expression and generated input, not only for the shipped ones."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from evaluators.errors import SpecError
from evaluators.spec import shapes
from evaluators.spec.inputs import DISTS, make_inputs
from evaluators.spec.kernel_spec import Dim, InputSpec, KernelSpec, Tolerance

names = st.from_regex(r"[a-z_][a-z0-9_]{0,6}", fullmatch=True)
numbers = st.integers(-(2**40), 2**40) | st.floats(allow_nan=False, allow_infinity=False)
inputs = st.builds(
    InputSpec,
    name=names,
    shape=st.lists(st.integers(0, 2**40) | names, max_size=4).map(tuple),
    dtype=st.sampled_from(["float", "int64", "bool"]),
    dist=st.sampled_from(list(DISTS)),
    args=st.dictionaries(names, numbers | st.text(max_size=5), max_size=3),
)
specs = st.builds(
    KernelSpec,
    name=st.text(max_size=8),
    source=st.sampled_from(["yaml", "kernelbench", "aten", "live"]),
    reference=st.text(max_size=40),
    inputs=st.none() | st.lists(inputs, max_size=3).map(tuple),
    parameters=st.lists(inputs, max_size=2).map(tuple),
    dims=st.dictionaries(names, st.builds(Dim, *[st.integers(0, 2**40)] * 3), max_size=3),
    dtype=st.sampled_from(["float32", "bfloat16"]),
    tolerance=st.none() | st.builds(Tolerance, st.floats(0, 1), st.floats(0, 1)),
    state=st.none() | st.text(max_size=5),
)


@settings(deadline=None)
@given(specs)
def test_json_round_trip_keeps_a_spec_and_its_digest(spec: KernelSpec) -> None:
    again = KernelSpec.from_json(spec.to_json())
    assert again == spec
    assert again.digest == spec.digest


@settings(deadline=None)
@given(specs, st.text(max_size=5))
def test_digest_follows_content_and_not_the_file(spec: KernelSpec, text: str) -> None:
    from dataclasses import replace

    assert replace(spec, origin=text, description=text).digest == spec.digest
    assert replace(spec, reference=spec.reference + "#").digest != spec.digest


leaves = st.integers(0, 99).map(str) | st.sampled_from(["A", "B2", "_c"])
expressions = st.recursive(
    leaves,
    lambda e: (
        st.tuples(e, st.sampled_from(["+", "-", "*", "//"]), e).map(lambda t: f"({t[0]} {t[1]} {t[2]})")
        | e.map(lambda x: f"-{x}")
    ),
    max_leaves=8,
)


@settings(deadline=None)
@given(expressions, st.fixed_dictionaries({"A": st.integers(0, 9), "B2": st.integers(0, 9), "_c": st.integers(0, 9)}))
def test_shape_expressions_agree_with_python(text: str, dims: dict[str, int]) -> None:
    try:
        want = eval(text, {}, dict(dims))  # the text is generated from arithmetic only
    except ZeroDivisionError:
        with pytest.raises(ValueError, match="cannot be computed"):
            shapes.evaluate(text, dims)
        return
    assert shapes.evaluate(text, dims) == want
    assert set(shapes.names(text)) <= set(dims)


@pytest.mark.parametrize(
    "text", ["__import__('os')", "A.x", "A[0]", "A if B2 else 1", "[A]", "True", "'a'", "lambda: 1", "A; B2", "A < 3"]
)
def test_shape_expressions_are_arithmetic_only(text: str) -> None:
    with pytest.raises(ValueError, match=r"may use only|is not an expression"):
        shapes.evaluate(text, {"A": 1, "B2": 2})


def test_huge_powers_are_refused_at_once() -> None:
    with pytest.raises(ValueError, match="power"):
        shapes.evaluate("9**9**9", {})


def one(shape: tuple[int, ...], dtype: str, dist: str, seed: int = 0, **args: float) -> torch.Tensor:
    spec = KernelSpec("t", "yaml", "", (InputSpec("x", shape, dtype, dist, args),))
    return make_inputs(spec, seed, "cpu")[0]


@settings(deadline=None)
@given(st.integers(1, 200), st.integers(0, 5000), st.floats(0, 1), st.integers(0, 5))
def test_offsets_are_sorted_exact_and_as_empty_as_asked(segments: int, total: int, empty: float, seed: int) -> None:
    offsets = one((segments + 1,), "int64", "offsets", seed, total=total, empty=empty)
    lengths = offsets.diff()
    assert offsets.shape == (segments + 1,)
    assert offsets[0] == 0
    assert offsets[-1] == total
    assert (lengths >= 0).all()
    filled = min(max(round(segments * (1 - empty)), 1 if total else 0), segments, total)
    assert (lengths > 0).sum() == filled


EXAMPLES = {
    "normal": ("float", {"mean": 2.0, "std": 0.5}, lambda t: abs(t.mean() - 2) < 0.1 and abs(t.std() - 0.5) < 0.1),
    "uniform": ("float", {"low": -1, "high": 3}, lambda t: t.min() >= -1 and t.max() <= 3 and t.max() > 2.5),
    "zeros": ("float", {}, lambda t: (t == 0).all()),
    "ones": ("int32", {}, lambda t: (t == 1).all()),
    "constant": ("float", {"value": 1.5}, lambda t: (t == 1.5).all()),
    "randint": ("int64", {"low": 3, "high": 6}, lambda t: set(t.tolist()) == {3, 4, 5}),
    "permutation": ("int64", {}, lambda t: t.sort().values.tolist() == list(range(2000))),
    "bool": ("bool", {"p": 0.25}, lambda t: abs(t.float().mean() - 0.25) < 0.05),
    "offsets": ("int64", {"total": 9000, "empty": 0.1}, lambda t: (t.diff() >= 0).all()),
    "class_indices": (
        "int64",
        {"classes": 7, "ignore_index": -100, "ignore_fraction": 0.1},
        lambda t: set(t.tolist()) == {-100, *range(7)} and abs((t == -100).float().mean() - 0.1) < 0.04,
    ),
    "sorted_uniform": ("float", {"low": 0, "high": 9}, lambda t: (t.diff() >= 0).all() and t.max() <= 9),
}


@pytest.mark.parametrize("dist", EXAMPLES)
def test_each_distribution_is_what_it_says_and_repeats_by_seed(dist: str) -> None:
    dtype, args, holds = EXAMPLES[dist]
    made = one((2000,), dtype, dist, 5, **args)
    assert holds(made)
    assert torch.equal(made, one((2000,), dtype, dist, 5, **args))
    if dist not in ("zeros", "ones", "constant"):
        assert not torch.equal(made, one((2000,), dtype, dist, 6, **args))


def test_every_distribution_has_an_example_and_literals_pass_through() -> None:
    assert set(EXAMPLES) | {"literal"} == set(DISTS)
    spec = KernelSpec("t", "yaml", "", (InputSpec("k", (), "python", "literal", {"value": 3}),))
    assert make_inputs(spec, 0, "cpu") == [3]


def test_an_added_input_leaves_the_others_as_they_were() -> None:
    x, y = InputSpec("x", (5,)), InputSpec("y", (5,))
    alone = make_inputs(KernelSpec("t", "yaml", "", (x,)), 1, "cpu")[0]
    second, first = make_inputs(KernelSpec("t", "yaml", "", (y, x)), 1, "cpu")
    assert torch.equal(alone, first)
    assert not torch.equal(first, second)


def test_an_undeclared_dim_is_an_error() -> None:
    spec = KernelSpec("t", "yaml", "", (InputSpec("x", ("M",)),), dims={"M": Dim(3, 1, 9)})
    assert make_inputs(spec, 0, "cpu", {"M": 7})[0].shape == (7,)
    with pytest.raises(SpecError, match="t: dims: no dim 'N'; declared are M"):
        make_inputs(spec, 0, "cpu", {"N": 7})
