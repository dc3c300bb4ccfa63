"""The built-in proposer: what it says where there is nothing for it to write, and the twins it writes for a device that is not here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import prod
from typing import Any

import pytest
import torch
from torch import Tensor

from agent.errors import NothingToPropose
from agent.proposers.base import Context
from agent.proposers.builtin.propose import BuiltinProposer
from agent.proposers.builtin.twin import LARGEST
from evaluators import languages, targets
from evaluators.spec import load
from evaluators.spec.from_live import from_module
from knowledge.exemplars import load_all
from retrieval.passage import Passage


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


def absent(name: str, *exemplars: str, phase: str = "draft") -> Context:
    """First drafts of a shipped spec for a GPU that is not here, with these exemplars retrieved."""
    found = [e for e in load_all() if e.language == "triton" and e.name in exemplars]
    assert len(found) == len(exemplars)
    passages = tuple(
        Passage(
            e.name, e.document, "kernel", e.name, "", "", 1.0, metadata={"language": e.language, "exemplar": e.name}
        )
        for e in found
    )
    return Context(
        spec=load(name, profile="gpu"),
        target=replace(targets.load("nvidia-h200"), present=False),
        languages=("triton",),
        phase=phase,
        step=0,
        ids=tuple(f"r.0.{i}" for i in range(8)),
        seed=0,
        passages=passages,
    )


def test_for_an_absent_device_the_same_plan_is_written_at_sizes_that_can_be_interpreted() -> None:
    """Same exemplar, same knobs unless the twin says otherwise, dims inside the spec's ranges; the kernel itself keeps its full size."""
    asked = absent("softmax", "row_cooperative", "row_looped")
    made = BuiltinProposer().propose(asked, 8)
    assert len({c.exemplar for c in made}) == 2
    for candidate in made:
        twin = candidate.twin
        assert twin is not None
        assert all(d.low <= twin.dims[n] <= d.value for n, d in asked.spec.dims.items())
        assert prod(twin.dims.values()) <= LARGEST < prod(d.value for d in asked.spec.dims.values())
        languages.get("triton").check(twin.source)
        assert str(list(twin.dims.values())) in twin.source
        assert str(list(twin.dims.values())) not in candidate.source
    assert all(not c.twin.changed for c in made if c.twin), "sizes were found that admit every knob"


def test_a_device_that_is_here_needs_no_twin() -> None:
    asked = absent("softmax", "row_cooperative", "row_looped")
    made = BuiltinProposer().propose(replace(asked, target=replace(asked.target, present=True)), 1)
    assert [c.twin for c in made] == [None]
