"""Candidate: one kernel source with where it came from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Twin:
    """The same schedule written for smaller sizes: what stands for a kernel that is specialised for sizes too large to interpret.

    ``dims`` are the spec's dims it is written for; ``changed`` names knobs that these sizes do not admit, "k0.BLOCK 128 → 64" style.
    """

    dims: Mapping[str, int]
    source: str
    changed: str = ""


@dataclass(frozen=True)
class Candidate:
    """One kernel, as a self-contained Python module that defines ``ModelNew``.

    ``id`` derives from (run, step, draw), so a step that runs again after a crash names the same candidate. ``chunk_ids`` are
    the passages it was given; ``knobs`` and ``exemplar`` are set by proposers that fill a skeleton.
    """

    id: str
    language: str
    source: str
    proposer: str
    parents: tuple[str, ...] = ()
    step: int = 0
    phase: str = "draft"
    exemplar: str | None = None
    knobs: Mapping[str, Any] = field(default_factory=dict)
    chunk_ids: tuple[str, ...] = ()
    prompt_ref: str | None = None
    reply_ref: str | None = None
    note: str = ""
    """One line: what this candidate tries, for example "num_warps 4 → 8 (spill)"."""
    twin: Twin | None = None
    """Only where the target is absent."""
