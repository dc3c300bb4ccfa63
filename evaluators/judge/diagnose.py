"""From what was measured to one word that steers the next search step.

A failure is named after its status. For a correct, timed candidate the first rule that holds decides:
1. registers spilled → ``spill``;
2. under 20 µs on a GPU, at most half of it explained by the roofline → ``launch_bound``;
3. at least 60% of the roofline → the roofline's own limit: ``memory_bound`` or ``compute_bound``;
4. fewer than one block per compute unit, or shared memory that lets only one block of at most 4 warps live → ``low_occupancy``;
5. under 10% of the roofline → ``latency_bound``;
6. otherwise the roofline's limit again: nearer to it than to anything else.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from evaluators.target import Target
from evaluators.verdict import Diagnosis, Roofline, Timing

OF_STATUS: Mapping[str, Diagnosis] = {
    "source_rejected": "compile_error",
    "compile_error": "compile_error",
    "load_error": "runtime_error",
    "crash": "runtime_error",
    "out_of_memory": "runtime_error",
    "timeout": "timeout",
    "wrong_shape": "mismatch",
    "wrong_dtype": "mismatch",
    "mismatch": "mismatch",
    "nondeterministic": "mismatch",
}
"""What is wrong with a broken candidate, by its status: the statuses that a repair may cure. Tampering is not repaired, and
infrastructure trouble is not the candidate's."""
_LAUNCH_MS = 0.02


def diagnose(
    status: str, target: Target, timing: Timing | None, roofline: Roofline | None, resources: Mapping[str, Any]
) -> Diagnosis:
    """The diagnosis of an evaluation; see the module's rules."""
    if status in OF_STATUS:
        return OF_STATUS[status]
    kernels = resources.get("kernels") or []
    if any((k.get("spills") or 0) > 0 for k in kernels):
        return "spill"
    if timing is None or roofline is None or roofline.fraction is None:
        return "unknown"
    limit: Diagnosis = "memory_bound" if roofline.limit == "memory" else "compute_bound"
    if target.kind == "gpu" and timing.candidate_ms < _LAUNCH_MS and roofline.fraction < 0.5:
        return "launch_bound"
    if roofline.fraction >= 0.6:
        return limit
    if target.kind == "gpu" and any(_starved(k, target) for k in kernels):
        return "low_occupancy"
    return "latency_bound" if roofline.fraction < 0.1 else limit


def _starved(kernel: Mapping[str, Any], target: Target) -> bool:
    programs = kernel.get("programs")
    shared = kernel.get("shared_bytes") or 0
    few = programs is not None and programs < target.compute_units
    crowded = (
        target.shared_memory_bytes > 0
        and 2 * shared > target.shared_memory_bytes
        and (kernel.get("num_warps") or 8) <= 4
    )
    return bool(few or crowded)
