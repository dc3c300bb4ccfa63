"""The loop IR means what the reference means: traced programs, interpreted, agree with PyTorch eager."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from evaluators.errors import TraceError
from evaluators.ir.facts import work
from evaluators.ir.interpret import interpret
from evaluators.ir.kernel import LibraryCall, Program
from evaluators.ir.pattern import classify
from evaluators.ir.trace import trace_module


def randn(*shape: int) -> Tensor:
    generator = torch.Generator().manual_seed(sum(shape) + 1)
    return torch.randn(*shape, generator=generator)


def swiglu(x: Tensor, r: Tensor, w: Tensor) -> Tensor:
    a, b = F.rms_norm(x + r, (x.shape[-1],), w).chunk(2, -1)
    return F.silu(a) * b


TARGETS = torch.tensor([1, 2, -100, 4, 5, 31, 0, -100])
OFFSETS = torch.tensor([0, 3, 3, 10, 20])
BORDERS = torch.tensor([5, 15, 25, 35, 45, 55, 65, 75, 85, 95])
IDS = torch.arange(-20, 108)

CASES: dict[str, tuple[Callable[..., Any], list[Tensor], list[str]]] = {
    "pointwise with a per-column operand": (
        lambda x, s, b: torch.tanh(x * s + b) * torch.sigmoid(x) + x, [randn(16, 32), randn(32), randn(32)], ["pointwise"],
    ),
    "residual, rmsnorm and swiglu share one kernel": (swiglu, [randn(8, 32), randn(8, 32), randn(32)], ["row_norm"]),
    "layer norm": (lambda x, w, b: F.layer_norm(x, (32,), w, b), [randn(8, 32), randn(32), randn(32)], ["row_norm"]),
    "rms norm over channels": (
        lambda x: x * torch.rsqrt((x * x).mean(1, keepdim=True) + 1e-5), [randn(2, 8, 4, 4)], ["column_norm"],
    ),
    "group norm splits the channel axis": (lambda x: F.group_norm(x, 4), [randn(4, 16, 8)], ["row_norm"]),
    "softmax": (lambda x: F.softmax(x, -1), [randn(8, 32)], ["row_norm"]),
    "softmax over the first axis": (lambda x: F.softmax(x, 0), [randn(8, 32)], ["column_norm"]),
    "column sum": (lambda x: x.sum(0), [randn(8, 32)], ["column_reduce"]),
    "sum of squares": (lambda x: x.square().sum(), [randn(8, 32)], ["full_reduce"]),
    "variance": (lambda x: x.var(1), [randn(8, 32)], ["row_reduce"]),
    "any and all": (lambda x: ((x > 0).any(1), (x > -9).all(1)), [randn(8, 3)], ["row_reduce", "row_reduce"]),
    "cumulative sum": (lambda x: torch.cumsum(x, -1), [randn(8, 32)], ["scan"]),
    "reverse cumulative sum": (lambda x: x.flip(-1).cumsum(-1).flip(-1), [randn(4, 8)], ["scan", "pointwise"]),
    "cross entropy reads the logits once per pass of one kernel": (
        lambda x, t: F.cross_entropy(x, t, ignore_index=-100), [randn(8, 32), TARGETS], ["row_reduce", "full_reduce"],
    ),
    "matrix product with epilogue": (
        lambda x, w, b: F.gelu(x @ w + b, approximate="tanh"), [randn(8, 32), randn(32, 16), randn(16)], ["contraction"],
    ),
    "linear on three dims": (F.linear, [randn(2, 3, 8), randn(5, 8), randn(5)], ["contraction"]),
    "batched matrix product": (torch.bmm, [randn(4, 5, 6), randn(4, 6, 7)], ["contraction"]),
    "matrix vector product is a row reduction": (torch.mv, [randn(6, 9), randn(9)], ["row_reduce"]),
    "attention": (
        lambda q, k, v: F.softmax(q @ k.transpose(-1, -2) / 4.0, -1) @ v,
        [randn(2, 4, 8), randn(2, 4, 8), randn(2, 4, 8)],
        ["contraction", "row_norm", "contraction"],
    ),
    "embedding bag with an empty bag": (
        lambda w, i, o: F.embedding_bag(i, w, o, mode="sum"), [randn(64, 8), torch.arange(20) * 3, OFFSETS], ["segment"],
    ),
    "segment mean with an empty segment": (
        lambda v, o: torch.segment_reduce(v, "mean", offsets=o, axis=0, initial=0), [randn(20, 8), OFFSETS], ["segment"],
    ),
    "bucketize, gather and select": (
        lambda x, b, t: torch.where(x > 0, t[torch.bucketize(x, b).clamp(0, 9)], x), [IDS, BORDERS, torch.arange(10) * 7], ["pointwise"],
    ),
    "bucketize over many borders bisects": (
        lambda x, b: torch.bucketize(x, b, right=True), [randn(64), torch.linspace(-2, 2, 77)], ["pointwise"],
    ),
    "concatenation": (lambda a, b: torch.cat([a * 2, b], 1) + 1, [randn(4, 8), randn(4, 3)], ["pointwise"]),
    "padding": (lambda x: F.pad(x, (1, 2)) * 2, [randn(4, 8)], ["pointwise"]),
    "triangles": (lambda x: torch.triu(x) - torch.tril(x, -1), [randn(6, 6)], ["pointwise"]),
    "gather along the last axis": (lambda x, i: x.gather(1, i), [randn(4, 8), torch.arange(8).reshape(4, 2)], ["pointwise"]),
    "a convolution stays a library call": (
        lambda x, w: F.relu(F.conv2d(x, w)) + 1, [randn(2, 3, 8, 8), randn(4, 3, 3, 3)], ["pointwise"],
    ),
    "two norms along different axes": (
        lambda a: a / a.abs().sum(0, keepdim=True) / a.abs().sum(1, keepdim=True), [randn(4, 8)], ["column_reduce", "row_norm"],
    ),
    "an input returned as it is": (lambda x: (x, x + 1), [randn(4)], ["pointwise", "pointwise"]),
}  # fmt: skip


class Wrapped(nn.Module):
    def __init__(self, fn: Callable[..., Any]) -> None:
        super().__init__()
        self.fn = fn

    def forward(self, *args: Tensor) -> Any:
        return self.fn(*args)


def program_of(fn: Callable[..., Any], inputs: list[Tensor]) -> Program:
    return trace_module(Wrapped(fn), tuple(x.to("meta") for x in inputs), "case")


def agree(program: Program, fn: Callable[..., Any], inputs: list[Tensor]) -> None:
    expected = fn(*inputs)
    outputs = interpret(program, inputs)
    for got, want in zip(outputs, expected if isinstance(expected, tuple) else (expected,), strict=True):
        assert got.dtype == want.dtype
        torch.testing.assert_close(got, want, atol=2e-5, rtol=2e-5, equal_nan=True)


@pytest.mark.parametrize("name", CASES)
def test_traced_program_agrees_with_eager_and_fuses(name: str) -> None:
    """Same values as eager, in exactly the kernels a good fusion gives."""
    fn, inputs, patterns = CASES[name]
    program = program_of(fn, inputs)
    assert [classify(k) for k in program.kernels] == patterns
    agree(program, fn, inputs)


def test_half_precision_computes_wide() -> None:
    """bfloat16 inputs widen on load and round once, so the result is at least as close to float64 as eager's."""
    x = randn(8, 32).bfloat16()
    fn = CASES["softmax"][0]
    program = program_of(fn, [x])
    exact = fn(x.double())
    ours = (interpret(program, [x])[0].double() - exact).norm()
    assert interpret(program, [x])[0].dtype == torch.bfloat16
    assert ours <= (fn(x).double() - exact).norm() * 1.01


def test_parameters_and_buffers_keep_their_names() -> None:
    model = nn.Sequential(nn.Linear(8, 4), nn.BatchNorm1d(4)).eval()
    program = trace_module(model.to("meta"), (torch.empty(3, 8, device="meta"),), "names")
    names = {b.source for b in program.buffers.values() if b.role == "param"}
    assert {"0.weight", "0.bias", "1.running_mean", "1.running_var"} <= names


def test_convolution_is_listed_as_library_work() -> None:
    fn, inputs, _ = CASES["a convolution stays a library call"]
    assert [s.target for s in program_of(fn, inputs).steps if isinstance(s, LibraryCall)] == [
        "aten::convolution.default"
    ]


@pytest.mark.parametrize(
    ("fn", "inputs", "operations", "convolution"),
    [
        (lambda x, w: F.relu(F.conv2d(x, w, padding=1)), [(2, 4, 8, 8), (6, 4, 3, 3)], 2 * 2 * 6 * 64 * 4 * 9, True),
        (lambda x, w: F.conv2d(x, w, groups=2, stride=2), [(2, 4, 8, 8), (6, 2, 2, 2)], 2 * 2 * 6 * 16 * 2 * 4, True),
        (F.conv_transpose1d, [(2, 4, 8), (4, 3, 3)], 2 * 2 * 8 * 4 * 3 * 3, True),
        (lambda x: torch.sort(x).values, [(8, 8)], 0, False),
    ],
)
def test_what_is_left_to_pytorch_is_counted_as_work(
    fn: Callable[..., Any], inputs: list[tuple[int, ...]], operations: int, convolution: bool
) -> None:
    """Without it a convolution would look memory bound, at a bound no kernel can come near."""
    found = work(program_of(fn, [randn(*s) for s in inputs]))
    assert found.matmul == operations
    assert found.convolution == (operations if convolution else 0)
    assert found.operations >= operations


@pytest.mark.parametrize(
    ("fn", "says"),
    [
        (lambda x: x if x.sum() > 0 else -x, "cannot be traced"),
        (torch.nonzero, "cannot be traced"),
        (lambda x: (x + 1, 3), "beside tensors"),
        (lambda x: (x + 1, None), "beside tensors"),
    ],
)
def test_untraceable_references_say_so_in_one_line(fn: Callable[..., Any], says: str) -> None:
    with pytest.raises(TraceError) as caught:
        program_of(fn, [randn(4)])
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


def test_training_batch_norm_is_refused_because_it_updates_buffers() -> None:
    model = nn.BatchNorm1d(4).train()
    with pytest.raises(TraceError, match="in place"):
        trace_module(model.to("meta"), (torch.empty(3, 4, device="meta"),), "bn")
