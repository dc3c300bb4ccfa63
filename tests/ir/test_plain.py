"""A program that goes through JSON comes back as the same program."""

from __future__ import annotations

import json

import pytest
import torch

from evaluators.ir.kernel import Buffer, LibraryCall, Program, Ref
from evaluators.ir.plain import from_plain, to_plain
from evaluators.ir.trace import trace
from evaluators.spec import load


@pytest.mark.parametrize("name", ["layernorm", "softmax", "jagged_mean", "cumsum", "embedding_bag"])
def test_traced_programs_come_back(name: str) -> None:
    """Nodes are interned, so that equality here is identity of every expression."""
    program = trace(load(name))
    assert from_plain(json.loads(json.dumps(to_plain(program)))) == program


def test_every_kind_of_library_argument_comes_back() -> None:
    arguments = (Ref("x"), [Ref("x"), None], (1, 2.5, float("inf")), True, "sum", torch.float16, torch.strided)
    keywords = (("device", torch.device("cpu")), ("memory_format", torch.contiguous_format))
    call = LibraryCall("aten::anything", arguments, keywords, ("y",))
    buffers = {n: Buffer(n, (2, 3), "float32", "scratch", [[1, 2, 3], [4, 5, 6]]) for n in "xy"}
    program = Program("p", buffers, (call,), ("y",), "tensor", 1)
    assert from_plain(json.loads(json.dumps(to_plain(program)))) == program


@pytest.mark.parametrize("hostile", ["load", "_C", "no_such_thing"])
def test_a_name_gives_torch_values_only(hostile: str) -> None:
    call = LibraryCall("aten::anything", (torch.float16,), (), ())
    data = to_plain(Program("p", {}, (call,), (), "tensor", 0))
    data["steps"][0]["args"] = [{"torch": hostile}]
    with pytest.raises((ValueError, AttributeError)):
        from_plain(data)


def test_a_deep_expression_needs_no_deep_stack() -> None:
    from evaluators.ir.expr import affine as index
    from evaluators.ir.expr import axis, const, op
    from evaluators.ir.kernel import Axis, Kernel, Pass, Store

    value = axis("i")
    for n in range(5000):
        value = op("mul", op("add", value, const(n + 2, "i64")), const(3, "i64"))
    kernel = Kernel("k", (Axis("i", 4),), (Pass((), stores=(Store("y", index(0, {"i": 1}), value),)),))
    program = Program("deep", {"y": Buffer("y", (4,), "int64", "output", 0)}, (kernel,), ("y",), "tensor", 0)
    assert from_plain(json.loads(json.dumps(to_plain(program)))) == program
