"""Device time is shared out by whose kernels took it, and only what is seen of libraries counts against a candidate."""

from __future__ import annotations

import pytest
import torch

from evaluators.judge.processes import replies
from evaluators.judge.whose.attribution import attribute, record

SOURCE = """
import triton
from triton import jit


@triton.jit
def mine(x): ...


@triton.autotune(configs=[], key=[])
@jit
def tuned(x): ...


def host(x): ...
"""


def test_time_goes_to_own_kernels_libraries_and_copies() -> None:
    seen = [
        {"name": "mine", "launches": 2, "ms": 3.0},
        {"name": "tuned", "launches": 1, "ms": 1.0},
        {"name": "void cutlass::Kernel2<gemm>", "launches": 1, "ms": 5.0},
        {"name": "host", "launches": 1, "ms": 0.5},
        {"name": "Memcpy DtoD (Device -> Device)", "launches": 1, "ms": 0.5},
    ]
    found = attribute(seen, SOURCE)
    assert found is not None
    assert (found["own"], found["library"], found["memory"]) == (0.4, 0.55, 0.05)
    assert found["kernels"][0] == "void cutlass::Kernel2<gemm>: 50.0%, library"


@pytest.mark.parametrize("seen", [[], [{"name": "mine", "launches": 1, "ms": 0.0}]])
def test_nothing_is_said_where_nothing_was_seen(seen: list[dict[str, object]]) -> None:
    assert attribute(seen, SOURCE) is None


@pytest.mark.parametrize("reply", [{}, {"kernels": 3}, {"kernels": [3]}, {"kernels": [{"name": 3}]}])
def test_a_reply_of_another_form_is_refused(reply: dict[str, object]) -> None:
    with pytest.raises(replies.Malformed):
        replies.read("profile", reply)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device on this machine")
def test_library_kernels_of_a_call_are_seen() -> None:
    a = torch.randn(512, 512, device="cuda")
    found = attribute(record(lambda: a @ a), SOURCE)
    assert found is not None
    assert found["library"] > 0.9
