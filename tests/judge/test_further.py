"""Beyond a spec's own inputs and sizes: hard inputs, other sizes of the declared ranges, races that luck hides."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
import torch

from evaluators.judge.judge import Judge
from evaluators.judge.oracle import hard, sizes
from evaluators.spec.kernel_spec import Dim, InputSpec, KernelSpec
from evaluators.spec.model import build_model
from tests.judge.conftest import CPU, MODEL, ROW_SUM, make_spec, native
from tests.judge.test_judging import QUICK

DEVICE = torch.device("cpu")
DIMS = {"M": Dim(64, 1, 512), "N": Dim(300, 1, 4096)}


def ranged(result: str = "x.sum(-1)", dist: str = "normal") -> KernelSpec:
    """A spec with declared ranges."""
    return make_spec(result, InputSpec("x", ("M", "N"), dist=dist), dims=DIMS)


@pytest.fixture(scope="module")
def judge() -> Iterator[Judge]:
    with Judge(ranged(), CPU, QUICK) as found:
        yield found


def test_a_kernel_that_takes_its_sizes_from_the_inputs_is_right_elsewhere(judge: Judge) -> None:
    found = judge.evaluate(native(), timed=False)
    assert found.status == "correct", found.message
    assert "right at 4 other sizes (M=" in found.message
    assert "right on harder inputs (signed, heavy-tailed" in found.message


def test_a_kernel_for_one_size_that_does_not_say_so_is_wrong(judge: Judge) -> None:
    fixed = native(ROW_SUM.replace("c < cols", "c < 300"))
    found = judge.evaluate(fixed, timed=False)
    assert found.status in ("mismatch", "crash")
    assert "right at its own sizes, wrong at M=" in found.message
    assert "raise an error for sizes that the kernel is not written for" in found.message


def test_a_kernel_for_one_size_that_says_so_is_right_and_the_verdict_says_it_too(judge: Judge) -> None:
    refusing = MODEL.replace(
        "        y =",
        "        if x.shape != (64, 300):\n            raise ValueError('written for 64 rows of 300')\n        y =",
    )
    found = judge.evaluate(native(ROW_SUM.replace("c < cols", "c < 300"), refusing))
    assert found.status == "correct", found.message
    assert "for its own sizes only: at M=" in found.message
    assert "it raises ValueError: written for 64 rows of 300" in found.message
    assert found.timing is not None


def test_a_vector_loop_that_is_entered_at_other_sizes_only_is_checked_there() -> None:
    loop = """
extern "C" void kernel(const float* x, float* y, int rows, int cols) {
    for (int r = 0; r < rows; ++r) {
        double sum = 0;
        int c = 0;
        for (; c + 32 <= cols; c += 32)
            for (int k = 0; k < 31; ++k) sum += x[(long)r * cols + c + k];
        for (; c < cols; ++c) sum += x[(long)r * cols + c];
        y[r] = (float)sum;
    }
}
"""
    spec = make_spec("x.sum(-1)", InputSpec("x", ("M", "N")), dims={"M": Dim(64, 1, 512), "N": Dim(21, 1, 4096)})
    with Judge(spec, CPU, QUICK) as judge:
        assert "wrong at M=" in judge.evaluate(native(loop), timed=False).message
        assert judge.evaluate(native(loop.replace("k < 31", "k < 32")), timed=False).status == "correct"


def test_sizes_are_drawn_within_ranges_and_budget_where_the_reference_works() -> None:
    spec = make_spec(
        "x.view(x.shape[0] // 4, -1).sum(0)",
        InputSpec("x", ("M", "N")),
        dims={"M": Dim(64, 4, 512), "N": Dim(300, 1, 40)},
    )
    for seed in range(5):
        found = sizes.draw(spec, seed, 4, 1 << 10)
        assert 1 <= len(found) <= 4
        for drawn in found:
            assert 4 <= drawn["M"] <= 512
            assert 1 <= drawn["N"] <= 40
            assert drawn["M"] * drawn["N"] <= 1 << 10
    assert sizes.draw(make_spec("x", InputSpec("x", (3,))), 1, 4, 1 << 10) == []


WRONG_ON_HARD = [
    # Kind 28: a variance without the mean, which is nearly right where the mean is nearly 0. In bfloat16 nothing is seen of it.
    ("x.var(-1, unbiased=False)", "x.square().mean(-1)", "normal", "bfloat16"),
    # Kind 30: a ReLU left out where all inputs are positive.
    ("torch.relu(x)", "x * 1.0", "uniform", "float32"),
    # A softmax without its largest element overflows.
    ("torch.softmax(x * 4, -1)", "torch.exp(x * 4) / torch.exp(x * 4).sum(-1, keepdim=True)", "normal", "float32"),
    ("torch.clamp(x, -6, 6)", "x * 1.0", "normal", "float32"),
]


@pytest.mark.parametrize(("reference", "wrong", "dist", "dtype"), WRONG_ON_HARD)
def test_hard_inputs_tell_apart_what_usual_ones_do_not(reference: str, wrong: str, dist: str, dtype: str) -> None:
    spec = replace(make_spec(reference, InputSpec("x", (64, 2048), dist=dist)), dtype=dtype)  # type: ignore[arg-type]
    case = first_hard(spec)
    assert case is not None
    x = case.inputs[0]
    right = build_model(spec, DEVICE)(x.clone())
    assert case.expected[0].judge(right, None).ok
    found = case.expected[0].judge(eval(wrong, {"torch": torch, "x": x}), None)
    assert not found.ok


def first_hard(spec: KernelSpec, seed: int = 3) -> object:
    """The case of the hardest inputs that say something."""
    return hard.hardest(spec, build_model(spec, DEVICE), DEVICE, None, seed)


def test_hard_inputs_keep_to_the_domain_of_the_reference() -> None:
    """Logarithms stay finite, borders that a spec declares are kept, and what is no continuous number is left alone."""
    case = first_hard(make_spec("torch.log(x + 1e-6)", InputSpec("x", (64, 100), dist="uniform")))
    assert case is not None
    assert "signs as they were" in case.words  # type: ignore[attr-defined]
    bounded = make_spec("torch.log(x)", InputSpec("x", (64, 100), dist="uniform", args={"low": 0.5, "high": 1.0}))
    assert first_hard(bounded) is None
    labels = make_spec("x * 2", InputSpec("x", (64,), dtype="int64", dist="randint", args={"high": 10}))
    assert list(hard.variants(labels, 3, DEVICE, None)) == []


def test_structure_of_a_problem_file_s_own_inputs_is_kept() -> None:
    reference = (
        "import torch\n\nclass Model(torch.nn.Module):\n    def forward(self, a, b, s):\n        return torch.tril(a @ b)\n\n"
        "def get_inputs():\n    a = torch.rand(32, 32)\n    return [torch.tril(a), a + a.T, torch.sort(torch.randn(50)).values]\n\n"
        "def get_init_inputs():\n    return []\n"
    )
    spec = replace(make_spec("x"), reference=reference, inputs=None, source="kernelbench")
    for _, (lower, symmetric, ordered) in hard.variants(spec, 3, DEVICE, None):
        assert torch.equal(lower, lower.tril())
        assert torch.equal(symmetric, symmetric.T)
        assert torch.equal(ordered, ordered.sort().values)


RACE = """
#include <thread>
#include <vector>

extern "C" void kernel(const float* x, float* y, int rows, int cols) {
    for (int r = 0; r < rows; ++r) y[r] = 0;
    static int calls = 0;
    for (int r = 0; r < rows; ++r) {
        double sum = 0;
        for (int c = 0; c < cols; ++c) sum += x[(long)r * cols + c];
        y[r] = (float)sum;
    }
    if (++calls == 7) y[rows - 1] += 1;  // stands for a race that is lost once in a while
}
"""


def test_a_result_that_is_wrong_once_in_a_while_is_found_where_threads_are_used() -> None:
    with Judge(row_spec(), CPU, QUICK) as judge:
        found = judge.evaluate(native(RACE), timed=False)
        assert found.status == "nondeterministic"
        assert "calls in a row on the same inputs" in found.message
        assert "the last place of axis 0" in found.message
        right = judge.evaluate(native(RACE.replace("+= 1;", "+= 0;")), timed=False)
        assert right.status == "correct"
        assert "calls in a row" in right.message


def row_spec() -> KernelSpec:
    """Without ranges."""
    return make_spec("x.sum(-1)", InputSpec("x", (8, 30)))
