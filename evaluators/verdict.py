"""Evaluation: the judge's verdict on one candidate on one target. Plain data, JSON-serialisable."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

Status = Literal[
    "correct",
    "checked",  # numerics and compilation verified, but the target is absent: nothing was timed
    "source_rejected",
    "compile_error",
    "load_error",
    "crash",
    "timeout",
    "out_of_memory",
    "wrong_shape",
    "wrong_dtype",
    "mismatch",
    "nondeterministic",
    "tampering",
    "infrastructure",
]

Diagnosis = Literal[
    "memory_bound", "compute_bound", "latency_bound", "launch_bound", "low_occupancy", "spill", "tail",
    "compile_error", "mismatch", "runtime_error", "timeout", "unknown",
]  # fmt: skip


@dataclass(frozen=True)
class Accuracy:
    """Errors against the float64 oracle. ``error`` and ``reference_error`` are relative Frobenius norms (dimensionless)."""

    error: float
    reference_error: float
    max_abs_error: float
    seeds: int
    detail: str = ""


_GONE = ("warm_ms",)
"""Fields of timings that were recorded once."""


@dataclass(frozen=True)
class Timing:
    """Paired timing. Times are milliseconds per call, medians over batches; ``samples`` are per-batch (baseline, candidate).

    ``ratio`` is the median over pairs of baseline time / candidate time, against the stronger baseline; ``low`` and ``high``
    are its 95% bootstrap interval. ``baselines`` maps "eager" and "compile" to their own medians.
    """

    candidate_ms: float
    baseline: str
    baselines: Mapping[str, float]
    ratio: float
    low: float
    high: float
    samples: tuple[tuple[float, float], ...]
    clock: str
    fresh_process: bool = False
    event_ms: float | None = None
    """The candidate's own device events, milliseconds per call; the time charged is never less, and the wall clock says how much more."""


@dataclass(frozen=True)
class Roofline:
    """Lower bound from counted bytes and operations. ``bound_ms`` in milliseconds; ``fraction`` = bound / measured."""

    bytes: int
    operations: int
    bound_ms: float
    limit: Literal["memory", "compute"]
    fraction: float | None
    bandwidth_gbs: float
    rate_tflops: float


@dataclass(frozen=True)
class Evaluation:
    """What the judge found. ``fitness`` is 0 unless the candidate is correct and was timed."""

    candidate_id: str
    target: str
    status: Status
    fitness: float
    message: str = ""
    accuracy: Accuracy | None = None
    timing: Timing | None = None
    roofline: Roofline | None = None
    diagnosis: Diagnosis = "unknown"
    resources: Mapping[str, Any] = field(default_factory=dict)
    isolation: str = ""
    phases: Mapping[str, float] = field(default_factory=dict)
    """Seconds spent in each phase of judging."""
    environment: Mapping[str, str] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Plain nested dict, ready for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Evaluation:
        """Inverse of :meth:`to_dict`."""
        d = dict(data)
        d["accuracy"] = Accuracy(**d["accuracy"]) if d.get("accuracy") else None
        if d.get("timing"):
            t = dict(d["timing"])
            t["samples"] = tuple((float(a), float(b)) for a, b in t["samples"])
            d["timing"] = Timing(**{k: v for k, v in t.items() if k not in _GONE})
        d["roofline"] = Roofline(**d["roofline"]) if d.get("roofline") else None
        return cls(**d)
