"""The question a step asks the knowledge base, made from what is known at that moment."""

from __future__ import annotations

from knowledge.runs.records import Run, Step
from retrieval.passage import Query

SITUATION = {
    "memory_bound": "memory bound: raise achieved bandwidth, vectorise loads, fewer passes over memory, coalesced access",
    "compute_bound": "compute bound: use matrix units, better tiling, more operations per byte, cheaper instructions",
    "latency_bound": "latency bound: expose more parallelism, unroll, overlap loads with work",
    "launch_bound": "launch bound: fuse kernels, fewer launches, less work outside the kernel",
    "low_occupancy": "low occupancy: smaller blocks, fewer registers, split the reduction over more programs",
    "spill": "register spills: smaller tiles, more warps, fewer live values",
    "compile_error": "debugging compile errors",
    "mismatch": "debugging wrong results: numerics, masks, indexing, accumulation",
    "runtime_error": "debugging crashes: out of bounds access, alignment, memory",
    "timeout": "debugging hangs and very slow kernels",
}
"""Diagnosis → the words under which documents treat it."""


def query(run: Run, languages: tuple[str, ...], step: Step) -> Query:
    """Operators, target, phase and diagnosis as free text and as filters. A first draft asks how such operators are scheduled."""
    what = ", ".join(dict.fromkeys((*run.patterns, *run.operators))) or run.spec.description or run.spec.name
    parts = [
        f"{what} kernel in {' or '.join(languages)} on {run.target.name} ({run.target.architecture}), {run.spec.dtype}"
    ]
    if step.diagnosis in SITUATION:
        parts.append(SITUATION[step.diagnosis])
    elif step.phase in ("draft", "crossover"):
        parts.append("schedule, blocking, tuning")
    return Query(
        text=". ".join(parts),
        families=run.target.families,
        languages=languages,
        operators=run.operators,
        patterns=run.patterns,
        phase=step.phase,
        diagnosis=step.diagnosis,
    )
