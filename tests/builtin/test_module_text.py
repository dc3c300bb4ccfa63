"""The Python around the kernels: whatever arguments and parameters are called, the text is accepted and computes the reference."""

from __future__ import annotations

import inspect
import unicodedata
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from agent.proposers.builtin.cpp import render_module
from agent.proposers.builtin.module import Rendered, argument_names, assemble
from evaluators import languages
from evaluators.ir.kernel import Program
from evaluators.ir.trace import trace_module
from evaluators.languages.review import FORBIDDEN_NAMES, review
from tests.builtin.candidates import load_candidate, run_candidate
from tests.builtin.test_cpp_families import choices
from tests.ir.test_trace import program_of

# Words that the text itself uses, buffers, what Python or the review gives a meaning, and what is no identifier at all.
NASTY = sorted(FORBIDDEN_NAMES) + """
    torch tl triton math numpy self cls super x0 x1 x2 y0 y1 k0 k1 p0 q0 grid range len list raise lambda class None True __debug__
    __class__ __secret _ __ forward ModelNew ValueError _launch _native _processors _workspace LOADER SOURCES kernel tensors int print
    größe ﬁ 1x x-1 x.y a(b) type match _argument0 _argument1 input_ x0_ argument_""".split() + ["", "a b", "\n", '"', "{x}"]  # fmt: skip
VALUES = [torch.tensor([1.0, 2.0, 3.0]), torch.tensor([10.0, 20.0, 30.0]), torch.tensor([0.5, 0.25, 0.125])]


def three(a: Tensor, b: Tensor, c: Tensor) -> Tensor:
    return (a - 2 * b) * c


@pytest.fixture(scope="module")
def program() -> Program:
    return program_of(three, VALUES)


names = st.lists(st.one_of(st.sampled_from(NASTY), st.text(max_size=6)), min_size=3, max_size=3)


@settings(max_examples=300, deadline=None)
@given(names=names)
def test_no_name_of_an_argument_can_break_the_text(program: Program, names: list[str]) -> None:
    """Launch lines that use a module-level function, a local variable and a builtin stand for what the emitters write."""
    (output,) = program.outputs
    preamble = "import torch\n\n\ndef _launch(to, *given):\n    to.copy_((given[0] - 2 * given[1]) * given[2])\n"
    launch = ("grid = [x0, x1, x2]", f"_launch({output}, *list(grid))")
    source = assemble(program, names, preamble, {k.name: Rendered("", launch) for k in program.kernels})
    review(source)
    space: dict[str, Any] = {}
    exec(source, space)
    assert torch.equal(space["ModelNew"]()(*VALUES), three(*VALUES))


@given(names=st.lists(st.one_of(st.sampled_from(NASTY), st.text(max_size=6)), max_size=6))
def test_argument_names_are_distinct_as_python_compares_them(names: list[str]) -> None:
    made = argument_names(names, {"self", "torch", "x0"})
    assert len({unicodedata.normalize("NFKC", n) for n in made}) == len(names)
    assert not {"self", "torch", "x0"} & {*made}
    compile(f"class C:\n    def forward(self, {', '.join(made)}): pass", "signature", "exec")


def test_a_name_that_means_nothing_here_is_kept(program: Program) -> None:
    """Callers may name arguments; ``input`` is what PyTorch's own modules call theirs."""
    for names in (("input", "weight", "eps"), ("query", "mask", "scale")):
        source = render_module(program, names, choices(program, "kept")[0])
        languages.get("cpp").check(source)
        assert tuple(inspect.signature(load_candidate(source).ModelNew.forward).parameters)[1:] == names


def test_arguments_named_like_buffers_and_modules_reach_their_own_kernel_operand(program: Program) -> None:
    """Compiled: ``x1`` is the name of another argument's buffer, ``torch`` of a module that forward uses."""
    source = render_module(program, ("x1", "torch", "x0"), choices(program, "nasty")[0])
    languages.get("cpp").check(source)
    torch.testing.assert_close(load_candidate(source).ModelNew()(*VALUES), three(*VALUES))


class Awkward(nn.Module):
    """Parameters at paths with numbers in them, a parameter called like a constant's attribute, an integer buffer, infinities."""

    def __init__(self) -> None:
        super().__init__()
        self.deep = nn.ModuleList([nn.ModuleList([nn.ModuleList([nn.LayerNorm(4)])])])
        self._q3 = nn.Parameter(torch.full((4,), 3.0))
        self.inner = nn.Module()
        self.inner.register_buffer("steps", torch.tensor([1, 2, 3, 4]))

    def forward(self, input: Tensor) -> Tensor:
        mask = torch.tensor([0.0, float("-inf"), 0.0, float("inf")])
        x = self.deep[0][0][0](input) * self._q3
        return torch.minimum(x * self.inner.steps, mask + 5)


def test_parameters_and_constants_of_any_name_and_value_are_found() -> None:
    model, x = Awkward().eval(), torch.randn(6, 4)
    program = trace_module(model, (x,), "awkward")
    source = render_module(program, ("input",), choices(program, "awkward")[0])
    assert "_q3_" in source, "the parameter's name is meant to be the constant's"
    languages.get("cpp").check(source)
    torch.testing.assert_close(run_candidate(source, model, [x]), model(x), atol=1e-5, rtol=1e-5)
