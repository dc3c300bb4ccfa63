"""The generator of mutants, and a fixed sample of them through the judge; ``python -m tests.judge_corpora.mutants`` judges all."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.judge_corpora.honest import entries
from tests.judge_corpora.mutants import cpp_text, equivalent, python_text
from tests.judge_corpora.mutants.make import machine_code, mutants, originals
from tests.judge_corpora.mutants.run import OriginalRejected, judge_mutants
from tests.judge_corpora.record import SETTINGS

CPP = """extern "C" void run(const float* x, float* y, int rows, int cols) {
  for (int i = 0; i < rows; ++i) {
    float sum = 0.0f;
    for (int j = 0; j < cols; ++j) sum += x[i * cols + j] - 0.5f;
    y[i] = sum;
  }
}
"""
TRITON = """import torch
import triton
import triton.language as tl

@triton.jit
def run(x, y, cols, BLOCK: tl.constexpr):
    acc = 0.0
    for begin in range(0, cols, BLOCK):
        c = begin + tl.arange(0, BLOCK)
        acc += tl.sum(tl.load(x + c, mask=c < cols, other=0.0), 0)
    tl.store(y, acc)
"""


def test_mutations_of_cpp_are_the_named_bugs() -> None:
    found = {(m.kind, m.diff.splitlines()[-1].removeprefix("+ ")) for m in cpp_text.mutations(CPP)}
    assert {
        ("bound off by one", "for (int i = 0; i <= rows; ++i) {"),
        ("last element skipped", "for (int i = 0; i < rows - 1; ++i) {"),
        ("accumulation lost", "for (int j = 0; j < cols; ++j) sum = x[i * cols + j] - 0.5f;"),
        ("operands swapped", "for (int j = 0; j < cols; ++j) sum += 0.5f - x[i * cols + j];"),
        ("wrong size or stride", "for (int j = 0; j < cols; ++j) sum += x[i * rows + j] - 0.5f;"),
        ("term left out", "for (int j = 0; j < cols; ++j) sum += x[i * cols + j];"),
        ("uninitialised accumulator", "static thread_local float sum;"),
        ("narrow accumulator", "_Float16 sum = 0.0f;"),
        ("neighbour's element", "y[i + 1] = sum;"),
    } <= found


def test_mutations_of_triton_are_the_named_bugs() -> None:
    found = {(m.kind, m.diff.splitlines()[-1].removeprefix("+ ")) for m in python_text.mutations(TRITON)}
    assert {
        ("bound off by one", "acc += tl.sum(tl.load(x + c, mask=c <= cols, other=0.0), 0)"),
        ("mask left out", "acc += tl.sum(tl.load(x + c), 0)"),
        ("max for sum, or the like", "acc += tl.max(tl.load(x + c, mask=c < cols, other=0.0), 0)"),
        ("last block skipped", "for begin in range(0, cols - BLOCK, BLOCK):"),
        ("accumulation lost", "acc = tl.sum(tl.load(x + c, mask=c < cols, other=0.0), 0)"),
    } <= found


def test_a_change_without_effect_is_no_mutant() -> None:
    """Names and spaces leave the machine code as it is; a constant does not; what does not compile has none."""
    entry = next(e for e in entries() if e.name == "row_product")
    assert entry.native is not None
    code = machine_code(entry)
    assert code == machine_code(replace(entry, native=entry.native.replace("part", "piece") + "\n\n"))
    assert code != machine_code(replace(entry, native=entry.native.replace("1.0f, 1.0f", "2.0f, 1.0f")))
    assert machine_code(replace(entry, native=entry.native.replace("float part", "flaot part"))) is None


def test_there_are_enough_kernels_and_every_argument_is_about_a_mutant_that_exists() -> None:
    known = {e.name: e for e in originals()}
    assert len(known) >= 15
    for (name, digest), listed in equivalent.known().items():
        assert name in known, f"{name}: no such kernel"
        assert len(listed.argument) > 40, f"{name} {digest}: write why no input tells it from the original"


@pytest.mark.parametrize(("name", "count"), [("cumsum_blocks", 8), ("triton_colsum_fp16", 4)])
def test_mutants_are_killed(name: str, count: int) -> None:
    entry = next(e for e in originals() if e.name == name)
    found = judge_mutants(entry, count, replace(SETTINGS, run_s=10.0))
    verdicts = [r["verdict"] for r in found]
    assert verdicts.count("killed") >= count - 1, [r for r in found if r["verdict"] != "killed"]


def test_mutants_of_a_wrong_kernel_are_refused() -> None:
    entry = next(e for e in entries() if e.name == "row_product")
    assert entry.native is not None
    wrong = replace(entry, native=entry.native.replace("(part[2] * part[3])", "part[2]"))
    with pytest.raises(OriginalRejected, match="row_product: mismatch"):
        judge_mutants(wrong, 1, SETTINGS)


def test_kinds_take_turns_so_that_a_small_sample_is_broad() -> None:
    entry = next(e for e in originals() if e.name == "max_with_indices")
    kinds = [m.mutation.kind for m in mutants(entry, 8)]
    assert len(set(kinds)) >= 7
