"""The prelude's exponentials over their whole range: accurate, zero or infinite where they should be, and never by way of a subnormal."""

from __future__ import annotations

import ctypes
import subprocess
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from agent.proposers.builtin.cpp_prelude import prelude
from evaluators.languages.cpp import FLAGS

NAMES = {"exp": "exp_", "sigmoid": "sigmoid", "tanh": "tanh_", "expm1": "expm1_", "erf": "erf_"}
SMALLEST = torch.finfo(torch.float32).tiny
# Bits 1 and 4 of MXCSR: an operand was subnormal, a result was.
HARNESS = """
template <class V, class F> INLINE void sweep(const float* x, float* y, int n, F f) {
  for (int i = 0; i < n; i += lanes<V>::count) {
    V v;
    __builtin_memcpy(&v, x + i, sizeof v);
    const V r = f(v);
    __builtin_memcpy(y + i, &r, sizeof r);
  }
}
"""
EACH = """
extern "C" int sweep_{name}(const float* x, float* y, int n, int vectors) {{
  auto f = [](auto v) {{ return {function}(v); }};
#if defined(__x86_64__)
  _mm_setcsr(_mm_getcsr() & ~0x3fu);
#endif
  if (vectors) sweep<vec<float, BYTES / 4>>(x, y, n, f);
  else sweep<float>(x, y, n, f);
#if defined(__x86_64__)
  return _mm_getcsr() & 0x12;
#else
  return 0;
#endif
}}
"""
Call = Callable[[str, Tensor, bool], tuple[Tensor, int]]


@pytest.fixture(scope="module", params=[(), ("-mno-avx512f",)], ids=["native", "narrow"])
def call(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Call:
    """(function, values, in vectors) → (results, whether a subnormal was met), with and without 64-byte vectors."""
    folder = tmp_path_factory.mktemp("math")
    code = HARNESS + "".join(EACH.format(name=n, function=f) for n, f in NAMES.items())
    (folder / "k.cpp").write_text(prelude(NAMES) + code)
    command = ["g++", *FLAGS, *request.param, str(folder / "k.cpp"), "-o", str(folder / "k.so")]
    made = subprocess.run(command, check=False, capture_output=True, text=True)
    assert made.returncode == 0, made.stderr[:2000]
    library = ctypes.CDLL(str(folder / "k.so"))

    def call(name: str, x: Tensor, vectors: bool) -> tuple[Tensor, int]:
        y = torch.empty_like(x)
        met = getattr(library, f"sweep_{name}")(
            ctypes.c_void_p(x.data_ptr()), ctypes.c_void_p(y.data_ptr()), len(x), int(vectors)
        )
        return y, met

    return call


def values() -> Tensor:
    """The whole range of float32 but for tiny magnitudes, dense where results leave the normal numbers."""
    wide = torch.logspace(-12, 38, 20000)
    dense = torch.cat([torch.linspace(-110, -80, 60001), torch.linspace(-30, 30, 60001), torch.linspace(80, 92, 24001)])
    odd = torch.tensor([0.0, float("inf"), float("-inf"), -87.33654, -87.33655, -104.0, -103.97, 88.72283, 88.72284])
    found = torch.cat([wide, -wide, dense, odd, torch.full((64,), float("-inf"))])
    return torch.cat([found, torch.zeros(-len(found) % 16)])


@pytest.mark.parametrize("vectors", [True, False], ids=["vector", "scalar"])
@pytest.mark.parametrize("name", NAMES)
def test_no_subnormal_is_met(call: Call, name: str, vectors: bool) -> None:
    """Each costs a hundred cycles or more: a mask of -inf, or logits far below the maximum, would cost several times all the rest."""
    x = values()
    # Scalars one at a time: in a loop the compiler may compute both sides of a choice.
    for part in (x,) if vectors else x[::97].split(1):
        result, met = call(name, part.clone(), vectors)
        assert not met, part
        assert not ((result != 0) & (result.abs() < SMALLEST)).any(), part


@pytest.mark.parametrize("name", ["exp", "sigmoid"])
def test_accurate_over_the_whole_range(call: Call, name: str) -> None:
    """exp to 1 unit in the last place and sigmoid to 4 where the exact value is a normal number; below that, less than the smallest."""
    x = values()
    got, _ = call(name, x, True)
    exact = getattr(torch, name)(x.double())
    normal = (exact >= SMALLEST) & (exact <= torch.finfo(torch.float32).max)
    ulp = 2.0 ** (torch.frexp(exact).exponent.double() - 24)
    limit = {"exp": 1.0, "sigmoid": 4.0}[name]
    # sigmoid stops at exp(-87), which is as far from the exact value as zero is.
    saturated = normal if name == "exp" else normal & (x > -87)
    assert float(((got.double() - exact).abs() / ulp)[saturated].max()) <= limit
    below = exact < SMALLEST
    assert (got[below] == 0).all() if name == "exp" else (got[below] < 2 * SMALLEST).all()
    assert torch.isinf(got[exact > torch.finfo(torch.float32).max]).all()
    assert torch.isnan(call(name, torch.full((16,), float("nan")), True)[0]).all()
