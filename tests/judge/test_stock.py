"""Input sets of timed batches: all different, different again in each turn, within what the spec describes, and judged rightly."""

from __future__ import annotations

import mmap
import os
from typing import Any

import pytest
import torch

from evaluators.judge.memory import arena, wire, wire_host
from evaluators.judge.oracle import cases, stock
from evaluators.spec.kernel_spec import InputSpec, KernelSpec
from evaluators.spec.model import build_model
from tests.judge.conftest import make_spec

CPU = torch.device("cpu")
X = InputSpec("x", (8, 33))


def stocked(spec: KernelSpec, count: int = 40) -> stock.Stock:
    model = build_model(spec, CPU)
    known = [cases.build_case(spec, model, CPU, 5 + k, None) for k in range(2)]
    layout = arena.Layout.of([wire.describe(t) for t in known[0].inputs], [wire.nbytes(t) for t in known[0].inputs])
    block, _ = wire_host.allocate(layout.pitch * count)
    return stock.Stock(spec, model, CPU, None, known, count, block, layout)


def inputs(made: stock.Stock, number: int) -> list[Any]:
    return [t.clone() for t in made.layout.views(made.block, number)]


def results(made: stock.Stock, number: int) -> list[Any]:
    flat: list[Any] = []
    wire.flatten(made.model(*wire.rebuild(made.known[0].argument_tree, inputs(made, number))), flat)
    return flat


@pytest.mark.parametrize("count", [1, 2, 40, 600])
def test_no_two_sets_are_alike_and_every_turn_changes_all_it_uses(count: int) -> None:
    made = stocked(make_spec("x.sum(-1)", X), count)
    before = [inputs(made, k)[0] for k in range(count)]
    assert len({t.numpy().tobytes() for t in before}) == count
    used = max(1, count // 2)
    made.refresh(count - 1, used, [])
    after = [inputs(made, k)[0] for k in range(count)]
    touched = {(count - 1 + k) % count for k in range(used)}
    for k in range(count):
        assert torch.equal(before[k], after[k]) == (k not in touched)
    assert len({t.numpy().tobytes() for t in after}) == count


def test_tiny_tensors_and_whole_numbers_differ_from_set_to_set() -> None:
    """One number, and integers: windows of what little there is would be alike, or tell the rest by their first few."""
    numbers = InputSpec("i", (300,), "int64", "randint", {"low": 0, "high": 1000})
    spec = make_spec("x * s + i.sum()", X, InputSpec("s", (1,)), numbers, args="x, s, i")
    made = stocked(spec, 400)
    scalars = {float(inputs(made, k)[1]) for k in range(400)}
    assert len(scalars) > 390
    windows = [inputs(made, k)[2] for k in range(400)]
    pool = made.tensors[2].pool
    alike = [bool((pool.unfold(0, 300, 1) == w).all(1).any()) for w in windows[:20]]
    assert not any(alike)


def test_changes_reach_maxima_of_rows() -> None:
    """What is kept of a window's maxima is wrong for some row in nearly every set."""
    made = stocked(make_spec("x.amax(-1)", InputSpec("x", (4, 4096))), 40)
    moved = 0
    for k in range(40):
        x = inputs(made, k)[0].reshape(4, 4096)
        moved += bool((x.amax(-1) == made.tensors[0].extremes[0].reshape(-1, 1)).any())
    assert moved > 20


def test_values_stay_within_what_the_spec_describes() -> None:
    spec = make_spec(
        "w[i].sum(0) + torch.diff(o)[0] + p[0]",
        InputSpec("w", (50, 7), dist="uniform", args={"low": 2.0, "high": 3.0}),
        InputSpec("i", (20,), "int64", "randint", {"low": 10, "high": 50}),
        InputSpec("o", (5,), "int64", "offsets", {"total": 50}),
        InputSpec("p", (9,), "int64", "permutation"),
        args="w, i, o, p",
    )
    made = stocked(spec)
    for turn in range(5):
        made.refresh(turn * 7, 20, [])
        for k in range(40):
            w, i, o, p = inputs(made, k)
            assert 2.0 <= float(w.min()) <= float(w.max()) <= 3.0
            assert 10 <= int(i.min()) <= int(i.max()) < 50
            assert (int(o[0]), int(o[-1])) == (0, 50)
            assert bool((o.diff() >= 0).all())
            assert sorted(p.tolist()) == list(range(9))


def test_strides_and_gaps_are_kept() -> None:
    spec = make_spec("x.t().contiguous().t().sum(-1)", X)
    made = stocked(spec)
    assert inputs(made, 3)[0].stride() == made.known[0].inputs[0].stride()


@pytest.mark.parametrize(
    "result", ["x.sum(-1)", "torch.softmax(x, -1)", "(x > 0, x.exp())", "x.topk(3).indices", "x.half().float()"]
)
def test_right_results_pass_and_those_of_other_inputs_do_not(result: str) -> None:
    made = stocked(make_spec(result, X))
    made.refresh(0, 40, [4, 5])
    assert made.judge(4, results(made, 4))["ok"]
    assert not made.judge(5, results(made, 4))["ok"]
    old = results(made, 5)
    made.refresh(0, 40, [5])
    assert not made.judge(5, old)["ok"]


def test_what_is_not_quite_the_references_result_is_judged_by_the_rule() -> None:
    """A reference that rounds badly: results farther from it than twice its limits are right where they are near float64."""
    made = stocked(make_spec("(x + 3e4).sum(-1) - 99e4", X))
    made.refresh(0, 40, [7])
    exact = (inputs(made, 7)[0].double() + 3e4).sum(-1).sub(99e4).float()
    assert made.judge(7, [exact])["ok"]


def test_small_elements_that_are_wrong_are_found_by_a_thorough_look() -> None:
    made = stocked(make_spec("torch.cat([x[:4] * 1e-6, x[4:]])", X))
    made.refresh(0, 40, [4])
    (wrong,) = results(made, 4)
    wrong[:4] = 0.0
    assert made.judge(4, [wrong])["ok"]
    assert not made.judge(4, [wrong], thorough=True)["ok"]
    assert made.judge(4, results(made, 4), thorough=True)["ok"]


def test_inputs_that_were_written_to_are_found() -> None:
    made = stocked(make_spec("x.sum(-1)", X))
    made.refresh(0, 40, [4])
    right = results(made, 4)
    made.layout.views(made.block, 4)[0][2, 3] += 1e-3
    verdict = made.judge(4, right)
    assert (verdict["ok"], "input tensor 0 was modified" in verdict["detail"]) == (False, True)


def test_a_reference_that_changes_its_inputs_finds_them_restored_and_is_checked() -> None:
    made = stocked(make_spec("x.mul_(2).sum(-1)", X))
    for _ in range(3):
        made.refresh(0, 40, [4])
        assert float(inputs(made, 4)[0].abs().max()) < 8.0
        given = made.layout.views(made.block, 4)
        assert made.judge(4, [made.model(*given)])["ok"]
        assert not made.judge(4, [torch.zeros(8)])["ok"]
        given[0].mul_(2)
        right = made.known[0]
        assert right.inputs_may_change
        wrong = made.judge(4, [given[0].sum(-1) / 2])
        assert (wrong["ok"], "not as the reference leaves it" in wrong["detail"]) == (False, True)


@pytest.mark.parametrize(
    "result", ["torch.nn.functional.dropout(x, 0.5, True)", "torch.exp(x) * (torch.rand(()) + 0.5)", "x + torch.randn_like(x)",
               "torch.bernoulli(torch.full_like(x, 0.06))"],
)  # fmt: skip
def test_results_of_random_references_lie_about_where_its_own_do(result: str) -> None:
    """Other random numbers are fine, results of other inputs or none at all are not (where results depend on inputs)."""
    made = stocked(make_spec(result, InputSpec("x", (64, 33))))
    assert made.random
    made.refresh(0, 40, list(range(8)))
    assert all(made.judge(k, results(made, k))["ok"] for k in range(8))
    if "x," not in result.partition("full_like")[2]:
        stale = [made.judge(k, results(made, k + 20))["ok"] for k in range(8)]
        unwritten = [made.judge(k, [torch.zeros(64, 33)])["ok"] for k in range(8)]
        assert not any(stale)
        assert not any(unwritten)
    assert not stocked(make_spec("x.sum(-1)", X)).random


def test_a_problem_files_own_tensors_change_by_single_elements() -> None:
    reference = (
        "import torch\n\nclass Model(torch.nn.Module):\n    def forward(self, x, m):\n        return torch.softmax(x + m, -1)\n\n"
        "def get_inputs():\n    return [torch.randn(16, 64), torch.triu(torch.full((64, 64), -1e9), 1)[:16]]\n\n"
        "def get_init_inputs():\n    return []\n"
    )
    made = stocked(KernelSpec(name="probe", source="kernelbench", reference=reference))
    before = [inputs(made, k) for k in range(4)]
    made.refresh(0, 4, [])
    for k in range(4):
        changed = (inputs(made, k)[0] != before[k][0]).sum()
        assert 0 < int(changed) < 512  # of 1024: as many as make the result move, which is found by trying
        assert set(inputs(made, k)[1].unique().tolist()) <= {-1e9, 0.0}


def test_as_many_sets_as_a_fast_candidate_needs_and_memory_allows() -> None:
    assert stock.worth(1.0, 20.0, 1000, 1 << 30) == 160
    assert stock.worth(1e-3, 20.0, 1000, 1 << 30) == stock.MOST
    assert stock.worth(1.0, 20.0, 1 << 28, 1 << 30) == 4
    assert stock.worth(1.0, 20.0, 1 << 31, 1 << 30) == 1
    assert stock.worth(1e3, 20.0, 1000, 1 << 30) == 1


def test_values_of_independent_numbers_never_come_again() -> None:
    made = stocked(make_spec("x.exp()", X))
    seen: set[float] = set()
    for turn in range(6):
        made.refresh(turn * 5, 20, [])
        values = {v for k in range(20) for v in inputs(made, (turn * 5 + k) % 40)[0].flatten().tolist()}
        assert len(values & seen) < 0.05 * len(values)
        seen |= values


def test_nobody_else_can_write_to_frozen_blocks() -> None:
    block, fd = wire_host.allocate(1000, frozen=True)
    other = wire_host.attach(fd, 1000)
    block.fill_(7)
    assert bool((other == 7).all())
    with pytest.raises((OSError, PermissionError)):
        mmap.mmap(fd, 4096, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE)
    os.close(fd)
