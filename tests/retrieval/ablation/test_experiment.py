"""Running a plan: every run once, whatever interrupts it; each block under one judge; failures kept and tried again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from evaluators.spec.kernel_spec import KernelSpec
from retrieval.ablation.design import Arm
from retrieval.ablation.experiment import Run, Step, perform
from retrieval.ablation.plan import Plan, parse
from retrieval.ablation.records import Outcome, Record, Records
from retrieval.errors import PlanError

SPECS = [KernelSpec(name=n, source="yaml", reference="") for n in ("a", "b")]


def plan(**change: object) -> Plan:
    data = {
        "factors": {"structure": [True, False], "moves": [True, False]},
        "specs": ["a"],
        "evaluations": 3,
        "seeds": 2,
    }
    return parse(data | change, "plan.yaml", "plan")


class Bench:
    """Notes every run and every block; stops or fails where told."""

    def __init__(self, stop_at: int = -1, fail_at: int = -1) -> None:
        self.runs: list[tuple[str, int, str]] = []
        self.blocks: list[tuple[str, int]] = []
        self.stop_at, self.fail_at = stop_at, fail_at
        self.steps: list[Step] = []

    def run(self, arm: Arm, spec: KernelSpec, seed: int) -> Outcome:
        if len(self.runs) == self.stop_at:
            raise KeyboardInterrupt
        self.runs.append((spec.name, seed, arm.name))
        if len(self.runs) - 1 == self.fail_at:
            raise RuntimeError("no luck")
        return Outcome(2.0, [1.0, 2.0], 2)

    @contextmanager
    def block(self, spec: KernelSpec, seed: int) -> Iterator[Run]:
        self.blocks.append((spec.name, seed))
        yield self.run

    def go(self, folder: Path) -> Records:
        records = Records(folder)
        records.begin(plan(), ["a", "b"], "cpu")
        perform(plan(), SPECS, records, self.block, self.steps.append)
        return records


def test_every_run_once_in_the_recorded_order(tmp_path: Path) -> None:
    bench = Bench()
    found = bench.go(tmp_path / "x").read()
    assert len(set(bench.runs)) == len(bench.runs) == 16
    assert len(bench.blocks) == 4
    assert [r.key for r in found] == bench.runs
    for spec, seed in bench.blocks:
        block = [r for r in found if (r.spec, r.seed) == (spec, seed)]
        assert [r.position for r in block] == [0, 1, 2, 3]
        assert len({r.sitting for r in block}) == 1
    assert found[0].curve == (1.0, 2.0, 2.0), "a search that ended early keeps its best"
    assert (bench.steps[-1].done, bench.steps[-1].total) == (16, 16)


@pytest.mark.parametrize("at", range(0, 16, 3))
def test_an_interrupted_plan_repeats_nothing(tmp_path: Path, at: int) -> None:
    first, second, third = Bench(stop_at=at), Bench(), Bench()
    with pytest.raises(KeyboardInterrupt):
        first.go(tmp_path / "x")
    records = second.go(tmp_path / "x")
    assert len(set(first.runs + second.runs)) == len(first.runs) + len(second.runs) == 16
    whole = Bench()
    whole.go(tmp_path / "whole")
    assert first.runs + second.runs == whole.runs, "the order is that of a plan never interrupted"
    third.go(tmp_path / "x")
    assert third.runs == []
    assert len(records.read()) == 16


def test_a_line_cut_off_by_a_kill_is_done_again(tmp_path: Path) -> None:
    records = Bench().go(tmp_path / "x")
    content = records.path.read_bytes()
    records.path.write_bytes(content[:-20])
    again = Bench()
    again.go(tmp_path / "x")
    assert len(again.runs) == 1
    assert [r.key for r in records.read()] == [r.key for r in Bench().go(tmp_path / "whole").read()]


def test_a_failed_run_does_not_end_the_plan_and_is_tried_again(tmp_path: Path) -> None:
    bench = Bench(fail_at=5)
    records = bench.go(tmp_path / "x")
    assert [r.error for r in records.read() if r.error] == ["no luck"]
    assert len(records.read()) == 16
    again = Bench()
    again.go(tmp_path / "x")
    assert again.runs == [bench.runs[5]]
    assert not any(r.error for r in records.read())


def test_a_block_that_cannot_be_opened_fails_its_runs(tmp_path: Path) -> None:
    @contextmanager
    def block(spec: KernelSpec, seed: int) -> Iterator[Run]:
        if spec.name == "a":
            raise RuntimeError("no judge")
        yield Bench().run

    records = Records(tmp_path)
    records.begin(plan(), ["a", "b"], "cpu")
    perform(plan(), SPECS, records, block, lambda _: None)
    assert sorted({(r.spec, r.error) for r in records.read()}) == [("a", "no judge"), ("b", "")]


def test_a_result_that_cannot_be_written_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_self: Records, _record: Record) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Records, "append", full)
    with pytest.raises(OSError, match="No space"):
        Bench().go(tmp_path)


def test_another_plan_may_not_write_into_the_same_folder(tmp_path: Path) -> None:
    records = Bench().go(tmp_path / "x")
    with pytest.raises(PlanError, match="--name"):
        records.begin(plan(evaluations=4), ["a", "b"], "cpu")
    assert records.plan() == plan()
