"""Default schedules at the starter suite's GPU shapes, compiled for absent GPUs: resources stay within the device's limits.

Collected only by tests/builtin/test_triton_processes.py, in a process of its own because it replaces Triton's driver.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch

from agent.proposers.builtin import space, triton
from agent.proposers.builtin.plan import Choice
from evaluators.ir.trace import trace
from evaluators.languages.triton_ahead import TargetDriver, recording
from evaluators.spec import load
from evaluators.spec.inputs import make_inputs
from evaluators.spec.model import signature
from knowledge.exemplars import load_all
from tests.builtin.candidates import load_candidate

HOPPER = (TargetDriver("cuda", 90, 32), 132, 232448)
CDNA3 = (TargetDriver("hip", "gfx942", 64), 304, 65536)


def compiled(name: str, dtype: str, exemplar: str, target: tuple[Any, int, int]) -> list[dict[str, Any]]:
    """Resources of every kernel of one spec under one schedule's default knobs."""
    spec = load(f"starter/{name}", dtype=dtype, profile="gpu")
    program = trace(spec)
    chosen = next(e for e in load_all() if e.language == "triton" and e.name == exemplar)
    plan = {}
    for kernel in program.kernels:
        facts = {**triton.facts(kernel, program), "shared_limit": target[2]}
        knobs = space.repaired(chosen, chosen.defaults, facts)
        assert knobs is not None
        plan[kernel.name] = Choice(chosen, knobs)
    module = load_candidate(triton.render_module(program, signature(spec), plan))
    with recording(*target) as launches, torch.device("meta"):
        module.ModelNew()(*make_inputs(spec, 0, "meta"))
    return list(launches.kernels.values())


@pytest.mark.parametrize(
    ("name", "dtype", "exemplar"),
    [
        ("pointwise_chain", "float32", "pointwise_tile"),
        ("layernorm", "float32", "row_resident"),
        ("softmax", "float32", "row_cooperative"),
        ("cross_entropy", "bfloat16", "row_looped"),
        ("colsum", "bfloat16", "column_reduce"),
        ("cumsum", "float32", "scan_looped"),
        ("embedding_bag", "float32", "segment_rows"),
        ("gemm_bias_gelu", "bfloat16", "contraction_copy"),
    ],
)
def test_defaults_fit_hopper_without_spilling(name: str, dtype: str, exemplar: str) -> None:
    kernels = compiled(name, dtype, exemplar, HOPPER)
    assert kernels
    for k in kernels:
        assert k["shared_bytes"] <= HOPPER[2]
        assert k.get("spills", 0) == 0, k


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_co_resident_programs_fit_one_multiprocessor(dtype: str) -> None:
    # four programs of 8 warps must share 65536 registers, or members of a group would wait for one that cannot start
    [kernel] = compiled("softmax", dtype, "row_cooperative", HOPPER)
    assert kernel["programs"] == 4 * HOPPER[1]
    assert kernel["num_warps"] * 32 * kernel["registers"] * 4 <= 65536, kernel
    # the row ahead and this one's results stay in registers but for a few words of addresses
    assert kernel["spills"] <= 8, kernel


@pytest.mark.parametrize(("name", "exemplar"), [("layernorm", "row_resident"), ("bmm_small", "contraction")])
def test_the_same_sources_compile_for_amd(name: str, exemplar: str) -> None:
    for k in compiled(name, "float32", exemplar, CDNA3):
        assert k["shared_bytes"] <= CDNA3[2]
