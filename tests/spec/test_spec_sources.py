"""Each source of a spec gives a model that computes what was written: YAML, KernelBench file, ATen overload, live module."""

from __future__ import annotations

import gc
import inspect
import traceback
import weakref
from pathlib import Path

import pytest
import torch
from torch import nn

from evaluators.errors import SpecError
from evaluators.spec import KernelSpec, load
from evaluators.spec.from_live import from_module
from evaluators.spec.inputs import make_inputs
from evaluators.spec.model import build_model, check, signature, to_float64
from evaluators.spec.running import reference_namespace
from evaluators.spec.suites import root


def write(tmp_path: Path, text: str) -> str:
    file = tmp_path / "spec.yaml"
    file.write_text(text)
    return str(file)


def test_parameters_are_attributes_of_the_model_and_follow_the_dims(tmp_path: Path) -> None:
    spec = load(
        write(
            tmp_path,
            """
dims: {K: {cpu: 4, gpu: 8, range: [1, 16]}, N: 3}
inputs: {x: [2, K], flag: {dtype: python, args: {value: true}}}
parameters: {w: {shape: [K, N]}, p: {shape: [N], dtype: int64, dist: permutation}}
reference: |
  def reference(w, x, p, scale=2.0, *, flag):
      return (x @ w)[:, p] * scale if flag else x
""",
        )
    )
    assert signature(spec) == ("x", "flag")
    model = build_model(spec, "cpu")
    assert {n: tuple(p.shape) for n, p in model.named_parameters()} == {"w": (4, 3), "p": (3,)}
    x, flag = make_inputs(spec, 0, "cpu")
    assert flag is True
    assert torch.equal(model(x, flag), (x @ model.w)[:, model.p] * 2.0)
    larger = build_model(spec, "cpu", dims={"K": 9})
    assert larger.w.shape == (9, 3)
    assert reference_namespace(spec)["Model"](K=5).w.shape == (5, 3)


def test_a_class_may_take_dims_in_its_constructor(tmp_path: Path) -> None:
    spec = load(
        write(
            tmp_path,
            """
dims: {D: 6}
mode: train
inputs: {x: [3, D]}
parameters: {"weight": [D]}
reference: |
  class Model(nn.Module):
      def __init__(self, D):
          super().__init__()
          self.weight = nn.Parameter(torch.ones(D))
      def forward(self, x):
          return x * self.weight
""",
        )
    )
    model = build_model(spec, "cpu", seed=3)
    assert model.training
    assert not torch.equal(model.weight, torch.ones(6))
    assert torch.equal(model.weight, build_model(spec, "cpu", seed=3).weight)


def test_a_module_attribute_is_read_from_beside_the_spec(tmp_path: Path) -> None:
    (tmp_path / "ops.py").write_text(
        "import torch\n\ndef other(x):\n    return x\n\n\ndef double(x):\n    return x * 2\n"
    )
    spec = load(write(tmp_path, "inputs: {x: [4]}\nreference: ops:double\n"))
    x = make_inputs(spec, 0, "cpu")[0]
    assert torch.equal(build_model(spec, "cpu")(x), x * 2)
    with pytest.raises(SpecError, match="no function or class 'triple' there; it defines other, double"):
        load(write(tmp_path, "inputs: {x: [4]}\nreference: ops:triple\n"))
    (tmp_path / "ops.py").write_text("from . import x\n\ndef double(x):\n    return x * 2\n")
    with pytest.raises(SpecError, match="relative import"):
        load(write(tmp_path, "inputs: {x: [4]}\nreference: ops:double\n"))


def test_small_numbers_need_no_dot(tmp_path: Path) -> None:
    spec = load(
        write(tmp_path, "inputs: {x: [4]}\ntolerance: {atol: 1e-5, rtol: 0}\nreference: |\n  def f(x): return x\n")
    )
    assert spec.tolerance is not None
    assert spec.tolerance.atol == 1e-5


def test_errors_in_a_reference_show_its_source(tmp_path: Path) -> None:
    spec = load(write(tmp_path, "inputs: {x: [4]}\nreference: |\n  def f(x):\n      return x.no_such_method()\n"))
    model = build_model(spec, "cpu")
    assert "x.no_such_method()" in inspect.getsource(reference_namespace(spec)["f"])
    with pytest.raises(AttributeError) as caught:
        model(*make_inputs(spec, 0, "cpu"))
    assert "return x.no_such_method()" in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize(
    "cast", ["x.float()", "x.to(torch.float32)", "torch.softmax(x, 0, dtype=torch.float32)", "x + torch.ones(4)"]
)
def test_the_oracle_is_float64_through_casts_in_the_reference(tmp_path: Path, cast: str) -> None:
    spec = load(
        write(tmp_path, f"inputs: {{x: [4]}}\nreference: |\n  def f(x):\n      return ({cast}).exp().to(x.dtype)\n")
    )
    model = build_model(spec, "cpu")
    oracle, wide = to_float64(model, make_inputs(spec, 0, "cpu"))
    exact = oracle(*wide)
    assert exact.dtype == torch.float64
    assert not torch.equal(exact, exact.float().double())
    assert torch.get_default_dtype() == torch.float32


def test_the_oracle_leaves_memory_as_soon_as_it_is_not_used() -> None:
    """Without a garbage collection: copies of large parameters would pile up until the next one."""
    spec = load("layernorm")
    oracle, _ = to_float64(build_model(spec, "cpu"), make_inputs(spec, 0, "cpu"))
    held = weakref.ref(next(oracle.parameters()))
    gc.collect()
    gc.disable()
    try:
        del oracle
        assert held() is None
    finally:
        gc.enable()


def test_kernelbench_form() -> None:
    spec = load(str(root() / "examples" / "kernelbench_gelu.py"))
    assert (spec.mode, spec.inputs, signature(spec)) == ("train", None, ("x",))
    assert load("kernelbench_gelu") == spec
    model = build_model(spec, "cpu", seed=1)
    (x,) = make_inputs(spec, 1, "cpu")
    state = torch.random.get_rng_state()
    assert torch.equal(x, make_inputs(spec, 1, "cpu")[0])
    assert torch.equal(model.linear.weight, build_model(spec, "cpu", seed=1).linear.weight)
    assert torch.equal(state, torch.random.get_rng_state())
    assert model(x).shape == (1024, 1024)
    half = load("kernelbench_gelu", dtype="bfloat16")
    assert make_inputs(half, 1, "cpu")[0].dtype == build_model(half, "cpu").linear.weight.dtype == torch.bfloat16
    assert make_inputs(spec, 0, "meta")[0].device.type == "meta"


def test_kernelbench_file_without_its_parts(tmp_path: Path) -> None:
    file = tmp_path / "problem.py"
    file.write_text("class Model: pass\n")
    with pytest.raises(SpecError, match=r"problem.py: get_inputs: is not defined"):
        load(str(file))
    file.write_text("class Model(:\n")
    with pytest.raises(SpecError, match=r"problem.py: line 1: "):
        load(str(file))


PROBLEM = """
import torch
import torch.nn as nn

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.steps = [s.item() for s in torch.linspace(0, 1, 3)]
    def forward(self, x, h0=None):
        return x * self.steps[1]

def get_inputs():
    return [torch.rand(4)]

def get_init_inputs():
    return []
"""


def test_constructors_that_read_values_and_optional_arguments(tmp_path: Path) -> None:
    file = tmp_path / "problem.py"
    file.write_text(PROBLEM)
    spec = load(str(file))
    assert signature(spec) == ("x",)
    assert build_model(spec, "meta")(*make_inputs(spec, 0, "meta")).shape == (4,)
    check(spec)


def test_check_finds_the_line_that_does_not_fit(tmp_path: Path) -> None:
    spec = load(
        write(tmp_path, "inputs: {x: [4, 3]}\nreference: |\n  def f(x):\n      y = x + 1\n      return x @ y\n")
    )
    with pytest.raises(SpecError, match=r"spec.yaml: reference: line 8: RuntimeError: "):
        check(spec)
    file = tmp_path / "problem.py"
    file.write_text(PROBLEM.replace("return [torch.rand(4)]", "return [torch.rnd(4)]"))
    with pytest.raises(SpecError, match=r"problem.py: reference: line 13: get_inputs: AttributeError: "):
        check(load(str(file)))
    file.write_text("import no_such_module\n" + PROBLEM)
    with pytest.raises(SpecError, match=r"reference: line 1: ModuleNotFoundError: .*; install it"):
        check(load(str(file)))


@pytest.mark.parametrize(
    "name",
    [
        "aten::softmax.int",
        "aten::addmm",
        "aten::cumsum",
        "aten::native_layer_norm",
        "aten::where.self",
        "aten::max_pool2d",
        "aten::sum.dim_IntList",
    ],
)
def test_aten_overloads_run_on_guessed_inputs(name: str) -> None:
    spec = load(name)
    assert spec.source == "aten"
    out = build_model(spec, "meta")(*make_inputs(spec, 0, "meta"))
    assert out is not None


def test_aten_arguments_from_yaml(tmp_path: Path) -> None:
    text = "aten: aten::mul.Scalar\ndims: {N: 7}\ninputs: {input: [N]}\nargs: {other: 3}\n"
    spec = load(write(tmp_path, text))
    x = make_inputs(spec, 0, "cpu")[0]
    assert torch.equal(build_model(spec, "cpu")(x), x * 3)
    with pytest.raises(SpecError, match=r"args\.othr: aten::mul\.Scalar takes no 'othr'; it takes input, other"):
        load(write(tmp_path, text.replace("other", "othr")))
    with pytest.raises(SpecError, match="does not accept these arguments"):
        load(write(tmp_path, "aten: aten::mm\ninputs: {input: [3, 4], mat2: [5, 6]}\n"))


class Block(nn.Module):
    """Nested parameters, buffers, a constant on a device, several outputs."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8))
        self.register_buffer("scale", torch.arange(8.0))

    def forward(self, x: torch.Tensor, k: int) -> dict[str, object]:
        y = self.net(x) * self.scale * k
        keep = torch.arange(8, device=x.device) > 3
        return {"y": torch.where(keep, y, float("-inf")), "parts": (y.sum(), [y.mean(0)])}


def test_live_module_is_written_out_with_its_state(tmp_path: Path) -> None:
    module = Block().eval()
    x = torch.randn(3, 4)
    spec = from_module(module, (x, 2), state_folder=tmp_path)
    assert KernelSpec.from_json(spec.to_json()) == spec
    assert signature(spec) == ("x", "k")
    model = build_model(spec, "cpu")
    want, got = module(x, 2), model(x, 2)
    assert torch.equal(want["y"], got["y"])
    assert torch.equal(want["parts"][1][0], got["parts"][1][0])
    again = from_module(module, (x, 2), state_folder=tmp_path)
    assert again.state == spec.state
    assert len(list(tmp_path.iterdir())) == 1
    Path(str(spec.state)).unlink()
    with pytest.raises(SpecError, match="cannot be read"):
        build_model(spec, "cpu")


def test_live_function_gets_inputs_like_its_examples(tmp_path: Path) -> None:
    def pooled(values: torch.Tensor, ids: torch.Tensor, offsets: torch.Tensor, on: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.embedding_bag(ids, values, offsets, mode="sum") * on

    examples = (
        torch.randn(50, 1) * 3 + 10,
        torch.randint(5, 40, (60,)),
        torch.tensor([0, 0, 7, 30, 60]),
        torch.tensor([True]),
    )
    spec = from_module(pooled, examples, state_folder=tmp_path)
    assert (spec.name, spec.state) == ("pooled", None)
    values, ids, offsets, on = make_inputs(spec, 0, "cpu")
    assert abs(float(values.mean()) - 10) < 3
    assert int(ids.min()) >= int(examples[1].min())
    assert int(ids.max()) <= int(examples[1].max())
    assert offsets[0] == 0
    assert offsets[-1] == 60
    assert on.dtype == torch.bool
    assert torch.isfinite(build_model(spec, "cpu")(values, ids, offsets, on)).all()


def test_live_module_in_bfloat16_keeps_its_dtype(tmp_path: Path) -> None:
    spec = from_module(nn.Linear(4, 4).bfloat16(), (torch.randn(2, 4, dtype=torch.bfloat16),), state_folder=tmp_path)
    assert spec.dtype == "bfloat16"
    assert build_model(spec, "cpu")(*make_inputs(spec, 0, "cpu")).dtype == torch.bfloat16


def test_what_cannot_be_exported_is_said_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=r"example_inputs\[0\]: is list; pass tensors") as caught:
        from_module(lambda x: x[0], ([torch.ones(2)],), state_folder=tmp_path)
    with pytest.raises(SpecError, match="cannot be exported") as caught:
        from_module(lambda x: x if x.sum() > 0 else -x, (torch.ones(2),), state_folder=tmp_path)
    assert "\n" not in str(caught.value)


def test_a_module_is_found_without_running_the_packages_above_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reading a spec runs nobody's code: not even that of the package a reference lies in."""
    package = tmp_path / "noisy_package" / "inner"
    package.mkdir(parents=True)
    (tmp_path / "noisy_package" / "__init__.py").write_text("raise SystemExit(9)\n")
    (package / "__init__.py").write_text("raise SystemExit(9)\n")
    (package / "kernels.py").write_text("def double(x):\n    return x * 2\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    spec = tmp_path / "elsewhere" / "spec.yaml"
    spec.parent.mkdir()
    spec.write_text("inputs: {x: [4]}\nreference: noisy_package.inner.kernels:double\n")
    assert "def double" in load(str(spec)).reference
    spec.write_text("inputs: {x: [4]}\nreference: noisy_package.absent:double\n")
    with pytest.raises(SpecError, match=r"no Python module 'noisy_package\.absent'"):
        load(str(spec))
