"""What the run store gives back: plain records, and how rows become them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import RowMapping

from evaluators.candidate import Candidate
from evaluators.spec.kernel_spec import KernelSpec
from evaluators.target import Target


@dataclass(frozen=True)
class Run:
    """One search. ``status`` is running, interrupted, finished or failed; ``reason`` says why it ended.

    ``recommendation`` is ``kernel``, ``baseline``, ``inconclusive`` or ``untimed`` once finished, and ``best`` the candidate it is about.
    """

    id: str
    spec: KernelSpec
    target: Target
    settings: Mapping[str, Any]
    operators: tuple[str, ...]
    patterns: tuple[str, ...]
    status: str
    reason: str
    recommendation: str | None
    best: str | None
    created: str
    finished: str | None


@dataclass(frozen=True)
class RunSummary:
    """A line of ``kernelevolve list``.

    ``ratio`` (with ``low`` and ``high``) is the confirmed speedup where there is one; ``fitness`` the best seen during the search.
    """

    id: str
    spec_name: str
    target: str
    status: str
    reason: str
    recommendation: str | None
    best: str | None
    created: str
    finished: str | None
    evaluations: int
    correct: int
    fitness: float
    ratio: float | None
    low: float | None
    high: float | None


@dataclass(frozen=True)
class Share:
    """Part of a step's draws given to one proposer in one call. ``draws`` are the draw numbers, which the candidates' ids derive from."""

    proposer: str
    draws: tuple[int, ...]


@dataclass(frozen=True)
class Step:
    """One turn of the state machine: the plan it follows, and once done, what was learnt.

    Durations are seconds; ``overhead_seconds`` is all of the step but proposing and judging.
    """

    run_id: str
    step: int
    phase: str
    parents: tuple[str, ...]
    siblings: tuple[str, ...]
    diagnosis: str
    shares: tuple[Share, ...]
    why: str
    prompt_ref: str | None = None
    prompt: Mapping[str, Any] | None = None
    reflection: str | None = None
    seconds: float | None = None
    propose_seconds: float | None = None
    judge_seconds: float | None = None
    overhead_seconds: float | None = None


@dataclass(frozen=True)
class Proposal:
    """What one share came to: candidates asked for, made, and dropped as repeats of an earlier source; ``error`` if it failed, ``final``
    where the proposer can do nothing for the spec, however often it is asked."""

    run_id: str
    step: int
    draw: int
    proposer: str
    asked: int
    made: int
    repeats: int
    error: str
    seconds: float
    final: bool = False


@dataclass(frozen=True)
class Retrieval:
    """What a step was given.

    ``passages`` are short citations (chunk_id, document, title, kind, locator, score); the whole ones are the JSON object ``passages_ref``.
    """

    run_id: str
    step: int
    query: Mapping[str, Any]
    passages: tuple[Mapping[str, Any], ...]
    passages_ref: str
    seconds: float


@dataclass(frozen=True)
class Cost:
    """One model call. ``dollars`` is None where the price is unknown."""

    run_id: str
    step: int
    proposer: str
    model: str
    prompt_tokens: int
    completion_tokens: int
    dollars: float | None
    seconds: float


@dataclass(frozen=True)
class Reply:
    """What a language model answered for one draw.

    ``attempt`` counts from 0; ``finish_reason`` is the server's word, ``stop`` for a whole reply. ``prompt_ref`` is the text that was sent.
    ``counted`` says who counted its tokens: ``server``, or ``estimate`` where the server sent no usage.
    """

    run_id: str
    step: int
    draw: int
    attempt: int
    model: str
    finish_reason: str
    counted: str
    prompt_ref: str
    reply_ref: str


@dataclass(frozen=True)
class PastKernel:
    """A kernel of an earlier run that may help a new spec.

    ``similarity`` is the Jaccard index of operators and patterns, 0 to 1; ``ratio`` its confirmed speedup.
    """

    candidate_id: str
    run_id: str
    spec_name: str
    similarity: float
    ratio: float


@dataclass(frozen=True)
class Ancestor:
    """A candidate above another one. ``depth`` is the least number of edges between them."""

    candidate_id: str
    depth: int = field(compare=False)


def now() -> str:
    """The current time, ISO 8601 UTC."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def target_to_dict(target: Target) -> dict[str, Any]:
    """Plain dict of a target, ready for JSON."""
    return asdict(target)


def target_from_dict(data: Mapping[str, Any]) -> Target:
    """Inverse of :func:`target_to_dict`, after JSON."""
    values: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in data.items()}
    return Target(**values)


def run_from(row: RowMapping) -> Run:
    """A row of ``runs``."""
    return Run(
        id=row["id"],
        spec=KernelSpec.from_json(row["spec"]),
        target=target_from_dict(row["target"]),
        settings=row["settings"],
        operators=tuple(row["operators"]),
        patterns=tuple(row["patterns"]),
        status=row["status"],
        reason=row["reason"],
        recommendation=row["recommendation"],
        best=row["best"],
        created=row["created"],
        finished=row["finished"],
    )


def candidate_from(row: RowMapping, source: str, parents: Sequence[str]) -> Candidate:
    """A row of ``candidates`` with its source text and its parents in order."""
    return Candidate(
        id=row["id"],
        language=row["language"],
        source=source,
        proposer=row["proposer"],
        parents=tuple(parents),
        step=row["step"],
        phase=row["phase"],
        exemplar=row["exemplar"],
        knobs=row["knobs"],
        chunk_ids=tuple(row["chunk_ids"]),
        prompt_ref=row["prompt_ref"],
        reply_ref=row["reply_ref"],
        note=row["note"],
    )


def step_from(row: RowMapping) -> Step:
    """A row of ``steps``."""
    values = dict(row)
    values["parents"] = tuple(row["parents"])
    values["siblings"] = tuple(row["siblings"])
    values["shares"] = tuple(Share(s["proposer"], tuple(s["draws"])) for s in row["shares"])
    return Step(**values)
