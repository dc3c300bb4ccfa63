"""Triton candidates without a GPU: review, compilation ahead of time, numerics in the interpreter."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
import torch

from evaluators import targets
from evaluators.candidate import Twin
from evaluators.errors import SourceRejected
from evaluators.judge.absent import shrink
from evaluators.judge.judge import Judge
from evaluators.judge.oracle.cases import elements
from evaluators.languages import triton, triton_interpreter
from evaluators.languages.triton_resources import amd_resources
from evaluators.spec.kernel_spec import Dim, InputSpec
from tests.judge.conftest import TRITON_ROW_SUM, make_spec
from tests.judge.conftest import triton as candidate

SPEC = make_spec("x.sum(-1)", InputSpec("x", ("B", "N")), dims={"B": Dim(8192, 1, 65536), "N": Dim(512, 2, 4096)})
DOT = """
import torch
import triton
import triton.language as tl


@triton.jit
def product(a, b, c, BLOCK: tl.constexpr):
    r = tl.arange(0, BLOCK)
    at = r[:, None] * BLOCK + r[None, :]
    tl.store(c + at, tl.dot(tl.load(a + at), tl.load(b + at)).to(c.dtype.element_ty))


class ModelNew(torch.nn.Module):
    def forward(self, a, b):
        c = torch.empty_like(a)
        product[(1,)](a, b, c, BLOCK=64)
        return c
"""


OWNING = """
import torch
import triton
import triton.language as tl


@triton.jit
def scaled(x, w, b, s, t, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    gain = tl.load(w + at % 8).to(tl.float32)
    scale = tl.load(s + at % 8).to(tl.float32)
    shift = tl.load(t + at % 8).to(tl.float32)
    value = tl.load(x + at, mask=inside).to(tl.float32) * (gain * scale + shift)
    tl.store(y + at, value + tl.load(b + at % 8).to(tl.float32), mask=inside)


class Inner(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.b = torch.nn.Parameter(torch.empty(8))
        self.register_buffer("t", torch.empty(8, dtype=torch.int64))
        self.register_buffer("absent", None)


class ModelNew(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.w = torch.nn.Parameter(torch.empty(8))
        self.same = self.w
        self.inner = Inner()
        self.register_buffer("s", torch.empty(8))
        self.all = [self.w, self.inner.b]

    def forward(self, x):
        y = torch.empty_like(x)
        n = x.numel()
        scaled[(triton.cdiv(n, 64),)](x, self.same, self.inner.b, self.s, self.inner.t, y, n, BLOCK=64)
        return y
"""
OWNER = """
import torch


class Inner(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.b = torch.nn.Parameter(torch.randn(8))
        self.register_buffer("t", torch.arange(8))


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.w = torch.nn.Parameter(torch.randn(8))
        self.same = self.w
        self.inner = Inner()
        self.register_buffer("s", torch.randn(8))

    def forward(self, x):
        return x * (self.same * self.s + self.inner.t) + self.inner.b
"""


@pytest.fixture(scope="module")
def hopper() -> Iterator[Judge]:
    with Judge(SPEC, replace(targets.load("nvidia-h200"), present=False)) as judge:
        yield judge


def test_absent_device_is_checked_and_never_timed(hopper: Judge) -> None:
    found = hopper.evaluate(candidate())
    assert (found.status, found.fitness, found.timing) == ("checked", 0.0, None), found.message
    assert "nothing was timed" in found.message
    kernel = found.resources["kernels"][0]
    assert kernel["name"] == "row_sum"
    assert kernel["programs"] == 8192
    assert kernel["num_warps"] == 4
    assert kernel["registers"] > 0
    assert kernel["spills"] == 0
    assert found.accuracy is not None


def test_wrong_numerics_are_found_without_the_device(hopper: Judge) -> None:
    assert (
        hopper.evaluate(candidate(TRITON_ROW_SUM.replace("tl.sum(v, 0)", "tl.sum(v, 0) * 1.01"))).status == "mismatch"
    )


def test_compile_error_shows_the_kernel_line(hopper: Judge) -> None:
    found = hopper.evaluate(candidate(TRITON_ROW_SUM.replace("tl.sum(v, 0)", "tl.summ(v, 0)")))
    assert found.status == "compile_error"
    assert "summ" in found.message


def test_a_kernel_for_one_shape_only_is_checked_at_that_shape() -> None:
    fixed = TRITON_ROW_SUM.replace(
        "        y = torch.empty",
        "        if x.shape != (512, 512):\n            raise ValueError('specialised')\n        y = torch.empty",
    )
    spec = replace(SPEC, dims={"B": Dim(512, 1, 65536), "N": Dim(512, 2, 4096)})
    with Judge(spec, replace(targets.load("amd-mi300x"), present=False)) as judge:
        found = judge.evaluate(candidate(fixed))
    assert found.status == "checked", found.message
    assert "at full size" in found.message
    assert found.resources["kernels"][0]["occupancy"] > 0


def test_bfloat16_products_are_right_in_the_interpreter() -> None:
    spec = make_spec(
        "a @ b", InputSpec("a", (64, 64)), InputSpec("b", (64, 64), args={"std": 0.125}), args="a, b", dtype="bfloat16"
    )
    with Judge(spec, replace(targets.load("nvidia-a100"), present=False)) as judge:
        found = judge.evaluate(candidate(DOT))
        assert found.status == "checked", found.message
        over = judge.evaluate(candidate(DOT.replace("tl.dot(", "(0.9 * tl.dot(").replace(".to(c.", ").to(c.")))
        assert over.status == "mismatch"


ARITHMETIC = """
import torch
import triton
import triton.language as tl


@triton.jit
def mix(x, y, out, N: tl.constexpr):
    i = tl.arange(0, N)
    a = tl.load(x + i)
    b = tl.load(y + i)
    c = tl.where(a > b, a - b, a * b)
    tl.store(out + i, tl.maximum(c, a + b))


class ModelNew(torch.nn.Module):
    def forward(self, x, y):
        out = torch.empty_like(x)
        mix[(1,)](x, y, out, N=256)
        return out
"""


def test_bfloat16_arithmetic_without_casts_is_right_in_the_interpreter() -> None:
    spec = make_spec(
        "torch.maximum(torch.where(x > y, x - y, x * y), x + y)",
        InputSpec("x", (256,)), InputSpec("y", (256,)), args="x, y", dtype="bfloat16",
    )  # fmt: skip
    with Judge(spec, replace(targets.load("nvidia-a100"), present=False)) as judge:
        found = judge.evaluate(candidate(ARITHMETIC))
        assert found.status == "checked", found.message
        assert judge.evaluate(candidate(ARITHMETIC.replace("a - b", "b - a"))).status == "mismatch"


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_parameters_and_buffers_are_there_when_compiling_for_an_absent_device(dtype: str) -> None:
    """Plain, tied and nested parameters, one that the candidate also keeps in a list, buffers of both kinds and an empty one."""
    spec = replace(make_spec("x", InputSpec("x", (16, 8)), dtype=dtype), reference=OWNER)
    with Judge(spec, replace(targets.load("nvidia-h100"), present=False)) as judge:
        found = judge.evaluate(candidate(OWNING))
    assert found.status == "checked", found.message
    assert found.resources["kernels"][0]["name"] == "scaled"


def test_bfloat16_conversions_match_pytorch() -> None:
    values = torch.cat(
        [torch.randn(5000) * 10.0**e for e in range(-30, 30, 6)]
        + [torch.tensor([0.0, -0.0, float("inf"), float("nan")])]
    )
    bits = triton_interpreter.to_bfloat16(values.numpy())
    expected = values.to(torch.bfloat16)
    found = torch.from_numpy(bits.view(np.int16)).view(torch.bfloat16)
    assert torch.equal(found.nan_to_num(), expected.nan_to_num())
    back = torch.from_numpy(triton_interpreter.to_float32(bits))
    assert torch.equal(back.nan_to_num(), expected.float().nan_to_num())


def test_a_module_without_a_kernel_is_rejected() -> None:
    plain = "import torch\n\n\nclass ModelNew(torch.nn.Module):\n    def forward(self, x):\n        return x.sum(-1)\n"
    with pytest.raises(SourceRejected, match=r"no @triton.jit function"):
        triton.check(plain)


def test_shrinking_stays_inside_declared_ranges() -> None:
    spec = replace(SPEC, dims={"B": Dim(65536, 4096, 65536), "N": Dim(4096, 2, 4096)})
    dims = shrink(spec, lambda dims: elements(spec, dims))
    assert dims is not None
    assert all(spec.dims[k].low <= v <= spec.dims[k].high for k, v in dims.items())
    assert elements(spec, dims) < elements(spec, None)
    fixed = make_spec("x", InputSpec("x", (4096, 4096)))
    assert shrink(fixed, lambda dims: elements(fixed, dims)) is None


SPECIALISED = TRITON_ROW_SUM.replace(
    "        y = torch.empty",
    "        if x.shape != (8192, 512):\n            raise ValueError('specialised')\n        y = torch.empty",
)
TWIN = Twin({"B": 128, "N": 256}, SPECIALISED.replace("(8192, 512)", "(128, 256)"))


def test_a_kernel_for_large_sizes_only_is_checked_by_its_twin(hopper: Judge) -> None:
    """What was checked and what was only compiled is said; the figures of compilation are the full-size text's."""
    found = hopper.evaluate(replace(candidate(SPECIALISED), twin=TWIN))
    assert found.status == "checked", found.message
    assert found.accuracy is not None
    assert "the same schedule checked in Triton's interpreter at B=128, N=256 (2 seeds)" in found.message
    assert "the full-size text itself was compiled, not run" in found.message
    assert found.resources["kernels"][0]["programs"] == 8192
    changed = hopper.evaluate(replace(candidate(SPECIALISED), twin=replace(TWIN, changed="k0.BLOCK 512 → 256")))
    assert "the same schedule but for k0.BLOCK 512 → 256 checked" in changed.message


def test_a_twin_that_is_wrong_is_the_candidates_fault(hopper: Judge) -> None:
    wrong = replace(TWIN, source=TWIN.source.replace("tl.sum(v, 0)", "tl.sum(v, 0) * 1.01"))
    found = hopper.evaluate(replace(candidate(SPECIALISED), twin=wrong))
    assert (found.status, found.accuracy) == ("mismatch", None)
    assert "the same schedule at B=128, N=256: " in found.message
    banned = replace(TWIN, source="import os\n" + TWIN.source)
    assert "import of 'os'" in hopper.evaluate(replace(candidate(SPECIALISED), twin=banned)).message


def test_resources_from_amd_assembly() -> None:
    text = "  .vgpr_count:     42\n  .vgpr_spill_count: 3\n  .sgpr_spill_count: 1\n; Occupancy: 8\n"
    assert amd_resources(text) == {"registers": 42, "spills": 4, "occupancy": 8}
