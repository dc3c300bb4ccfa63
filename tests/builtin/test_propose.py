"""The built-in proposer: what it says where there is nothing for it to write."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from agent.errors import NothingToPropose
from agent.proposers.base import Context
from agent.proposers.builtin.propose import BuiltinProposer
from evaluators import targets
from evaluators.spec.from_live import from_module


def context(call: Callable[..., Any], *inputs: Tensor, languages: tuple[str, ...] = ("cpp",)) -> Context:
    return Context(
        spec=from_module(call, inputs),
        target=targets.load("cpu-x86-64"),
        languages=languages,
        phase="draft",
        step=0,
        ids=("r.0.0",),
        seed=0,
        passages=(),
    )


def test_a_reference_that_is_all_left_to_pytorch_is_said_to_be() -> None:
    asked = context(lambda x: torch.sort(x).values, torch.randn(4, 8))
    with pytest.raises(NothingToPropose, match=r"^sort is left to PyTorch: there is nothing to generate"):
        BuiltinProposer().propose(asked, 1)


def test_a_language_that_the_proposer_does_not_write_is_named() -> None:
    asked = context(lambda x: x + 1, torch.randn(4, 8), languages=("cutedsl",))
    with pytest.raises(NothingToPropose, match="writes cpp and triton, not cutedsl"):
        BuiltinProposer().propose(asked, 1)
