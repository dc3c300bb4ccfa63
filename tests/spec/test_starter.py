"""The starter suite: every spec loads in both profiles at the sizes fixed for it, and its reference is right at small sizes
against float64, in float32 and bfloat16."""

from __future__ import annotations

import pytest
import torch

from evaluators.spec import load, load_suite
from evaluators.spec.inputs import make_inputs
from evaluators.spec.kernel_spec import KernelSpec
from evaluators.spec.model import build_model, signature, to_float64

SIZES = {  # (cpu, gpu) values of the dims
    "pointwise_chain": ({"M": 4096, "N": 4096}, {"M": 16384, "N": 8192}),
    "residual_rmsnorm_swiglu": ({"M": 2048, "D": 2048}, {"M": 16384, "D": 4096}),
    "layernorm": ({"M": 4096, "N": 2048}, {"M": 32768, "N": 4096}),
    "rmsnorm_dim1": ({"B": 8, "C": 64, "H": 128, "W": 128}, {"B": 64, "C": 64, "H": 256, "W": 256}),
    "softmax": ({"M": 2048, "N": 8192}, {"M": 4096, "N": 131072}),
    "colsum": ({"M": 8192, "N": 4096}, {"M": 65536, "N": 4096}),
    "sum_of_squares": ({"N": 2**24}, {"N": 2**29}),
    "cumsum": ({"M": 2048, "N": 8192}, {"M": 8192, "N": 65536}),
    "cross_entropy": ({"M": 1024, "V": 32000}, {"M": 8192, "V": 128256}),
    "gemm_bias_gelu": ({"M": 512, "N": 1024, "K": 1024}, {"M": 4096, "N": 4096, "K": 4096}),
    "bmm_small": ({"B": 4096, "M": 24, "N": 24, "K": 32}, {"B": 65536, "M": 32, "N": 32, "K": 64}),
    "embedding_bag": ({"R": 200_000, "D": 64, "B": 2**14, "L": 20}, {"R": 10_000_000, "D": 128, "B": 2**16, "L": 40}),
    "mapid": ({"N": 2**22, "K": 10}, {"N": 2**28, "K": 10}),
    "jagged_mean": ({"T": 2**20, "R": 2**14, "D": 64}, {"T": 2**25, "R": 2**19, "D": 64}),
}
TINY = {"M": 24, "N": 40, "K": 16, "D": 8, "B": 6, "C": 5, "H": 4, "W": 3, "V": 33, "R": 12, "L": 3, "T": 50}


def tiny(spec: KernelSpec) -> dict[str, int]:
    return {name: TINY[name] for name in spec.dims}


def test_the_suite_is_the_fourteen_specs() -> None:
    assert {s.name for s in load_suite("starter")} == set(SIZES)


@pytest.mark.parametrize("name", SIZES)
@pytest.mark.parametrize("profile", ["cpu", "gpu"])
def test_sizes_are_the_agreed_ones_and_meta_inputs_cost_nothing(name: str, profile: str) -> None:
    spec = load(f"starter/{name}", profile=profile)
    assert {k: d.value for k, d in spec.dims.items()} == SIZES[name][profile == "gpu"]
    assert spec.description
    model = build_model(spec, "meta")
    inputs = make_inputs(spec, 0, "meta")
    assert all(t.device.type == "meta" for t in [*inputs, *model.parameters()])
    assert len(inputs) == len(signature(spec))


@pytest.mark.parametrize("name", SIZES)
@pytest.mark.parametrize(("dtype", "limit"), [("float32", 2e-6), ("bfloat16", 2e-2)])
def test_reference_agrees_with_float64(name: str, dtype: str, limit: float) -> None:
    spec = load(name, dtype=dtype)
    dims = tiny(spec)
    model = build_model(spec, "cpu", seed=1, dims=dims)
    inputs = make_inputs(spec, 1, "cpu", dims)
    out = model(*inputs)
    oracle, wide = to_float64(model, inputs)
    want = oracle(*wide)
    if not out.is_floating_point():
        assert torch.equal(out, want)
        return
    # These two reduce to a loss or a norm, which stays float32.
    assert out.dtype == (torch.float32 if name in ("cross_entropy", "sum_of_squares") else getattr(torch, dtype))
    assert want.dtype == torch.float64
    assert torch.isfinite(out).all()
    assert (out.double() - want).norm() <= limit * want.norm()


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("name", SIZES)
def test_another_seed_would_not_pass(name: str, dtype: str) -> None:
    """A reference whose output hardly depends on its input would let a constant pass for a kernel."""
    spec = load(name, dtype=dtype)
    dims = {k: v if name != "sum_of_squares" else 2**20 for k, v in tiny(spec).items()}
    if name == "cross_entropy":
        dims = {"M": 256, "V": 500}
    outs = []
    for seed in (1, 2):
        outs.append(build_model(spec, "cpu", seed=1, dims=dims)(*make_inputs(spec, seed, "cpu", dims)).double())
    assert (outs[0] - outs[1]).norm() > 1e-4 * outs[0].norm()


def test_empty_rows_of_jagged_mean_give_zero() -> None:
    spec = load("jagged_mean")
    dims = {"T": 40, "R": 60, "D": 4}
    values, offsets = make_inputs(spec, 3, "cpu", dims)
    out = build_model(spec, "cpu", dims=dims)(values, offsets)
    empty = offsets.diff() == 0
    assert empty.any()
    assert (out[empty] == 0).all()
    assert (out[~empty] != 0).all()


def test_mapid_moves_ids_to_their_own_range() -> None:
    spec = load("mapid")
    ids, borders, base = make_inputs(spec, 3, "cpu", {"N": 500, "K": 10})
    out = build_model(spec, "cpu")(ids, borders, base)
    for i, o in zip(ids.tolist(), out.tolist(), strict=True):
        below = [k for k, b in enumerate(borders.tolist()) if b <= i]
        assert o == (i - borders.tolist()[below[-1]] + base.tolist()[below[-1]] if below else i)
