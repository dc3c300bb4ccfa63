"""The state machine's state: position and ids. Whatever has content (sources, prompts, verdicts) is in the run store."""

from __future__ import annotations

from typing import Any

from typing_extensions import (
    TypedDict,  # pydantic, and so the graph server, refuses typing.TypedDict before Python 3.12
)


class RunState(TypedDict, total=False):
    """What a checkpoint holds. Typed plain values, so that any serializer and LangGraph Studio can show them."""

    run_id: str
    """The run, which is also the LangGraph thread."""
    step: int
    """The turn of the loop being worked on, from 0."""
    phase: str
    """draft, debug, improve or crossover: what the step's candidates are made for."""
    parents: list[str]
    """Ids of the candidates the step starts from."""
    diagnosis: str
    """What the last verdicts say holds the search back; the next retrieval asks about it."""
    passages: list[str]
    """Chunk ids retrieved for the step."""
    prompt_ref: str
    """Object reference of the synthesized prompt; empty where no proposer reads one."""
    candidates: list[str]
    """Ids of the step's candidates, judged or about to be."""
    evaluations: int
    """Candidates judged so far in the run."""
    best: str
    """Id of the best candidate so far; empty while nothing is correct."""
    best_fitness: float
    """Its fitness: speedup over the stronger baseline, 0 where nothing was timed."""
    reflection: str
    """What the step taught, in a few lines."""
    ended: str
    """Why the search is over; empty while it goes on."""
    recommendation: str
    """Once over: ``kernel`` or ``baseline``."""


class ShareState(TypedDict):
    """What one branch of the fan-out gets: part of a step's draws, for one proposer."""

    run_id: str
    """The run."""
    step: int
    """The step."""
    proposer: str
    """Name of the proposer that makes these candidates."""
    draws: list[int]
    """Draw numbers to fill; candidate ids derive from (run, step, draw)."""


class StudioInput(TypedDict, total=False):
    """What a person types into Studio, or a client posts to the graph's server."""

    spec: str
    """Spec reference: a YAML or KernelBench file, a suite spec's name, or ``aten::name.overload``."""
    target: str
    """Target name, or ``auto`` (the default)."""
    settings: dict[str, Any]
    """Fields of ``agent.settings.RunSettings``."""
