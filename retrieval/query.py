"""A query composed from a run's context: text for the rankings, filters and structure for the rest."""

from __future__ import annotations

import re
from collections.abc import Sequence

from evaluators.spec.kernel_spec import KernelSpec
from evaluators.target import Target
from retrieval.passage import Query

SCHEDULES = {
    "pointwise": "elementwise map and gather",
    "row_reduce": "row reduction along contiguous columns",
    "row_norm": "row normalisation, softmax, layer norm",
    "column_reduce": "column reduction along a strided axis",
    "column_norm": "normalisation along a strided axis",
    "full_reduce": "reduction of a whole tensor to a scalar",
    "scan": "running fold, cumulative sum",
    "contraction": "matrix product",
    "segment": "ragged segment reduction by offsets",
}
SYMPTOMS = {
    "memory_bound": "memory bound: bandwidth, bytes moved, vector loads, fewer passes, cache reuse",
    "compute_bound": "compute bound: instruction throughput, matrix units, tiling, cheaper arithmetic",
    "latency_bound": "latency bound: more independent work, unrolling, parallelism",
    "launch_bound": "launch overhead: fewer and fused launches",
    "low_occupancy": "low occupancy: smaller blocks, fewer registers, split the reduction",
    "spill": "register spills: smaller tile, more warps, fewer live values",
    "compile_error": "compile error",
    "mismatch": "wrong result: masks, indexing, accumulation, numerics",
    "runtime_error": "crash: out of bounds, alignment, memory",
    "timeout": "too slow or does not end",
}
_NOISE = re.compile(r"0x[0-9a-fA-F]+|/\S+/|\b\d{4,}\b")
MESSAGE = 240
"""Characters of an error message that enter a query; its first lines say what it is about."""


def build_query(
    spec: KernelSpec,
    target: Target,
    languages: Sequence[str],
    phase: str = "draft",
    diagnosis: str = "unknown",
    operators: Sequence[str] = (),
    patterns: Sequence[str] = (),
    message: str = "",
) -> Query:
    """What to ask at this moment. ``operators`` and ``patterns`` are those of the traced program (empty where it
    cannot be traced); ``message`` is the last error, of which addresses, paths and long numbers are dropped."""
    what = [SCHEDULES.get(p, p) for p in dict.fromkeys(patterns)]
    parts = [
        f"{spec.name.replace('_', ' ')}: {', '.join(what) or 'custom'} kernel in {' or '.join(languages)} on {target.name} "
        f"({target.architecture}), {spec.dtype}"
    ]
    if spec.description:
        parts.append(spec.description)
    if operators:
        parts.append(f"operators {' '.join(operators)}")
    if diagnosis in SYMPTOMS:
        parts.append(SYMPTOMS[diagnosis])
    if message:
        parts.append(" ".join(_NOISE.sub(" ", message).split())[:MESSAGE])
    return Query(
        text=". ".join(parts),
        families=target.families,
        languages=tuple(languages),
        operators=tuple(operators),
        patterns=tuple(dict.fromkeys(patterns)),
        phase=phase,
        diagnosis=diagnosis,
    )
