"""From what was measured to one word that steers the next search step, and the facts that say so.

A failure is named after its status. For a correct, timed candidate the first rule that holds decides:
1. registers spilled → ``spill``;
2. under 20 µs on a GPU, at most half of it explained by the roofline → ``launch_bound``;
3. at least 60% of the roofline → the roofline's own limit: ``memory_bound`` or ``compute_bound``;
4. on a GPU fewer than one block per compute unit, or shared memory that lets only one block of at most 4 warps live, on a CPU threads
   that are busy less than 60% of the time → ``low_occupancy``;
5. a last wave of blocks that stays idle for more than a quarter, among the first few waves → ``tail``;
6. under 10% of the roofline → ``latency_bound``;
7. otherwise the roofline's limit again: nearer to it than to anything else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from evaluators.judge.facts import Fact
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


_NEAR, _FAR, _BUSY, _TAIL, _FEW_WAVES = 0.6, 0.1, 0.6, 0.25, 4


def diagnose(
    status: str,
    target: Target,
    timing: Timing | None,
    roofline: Roofline | None,
    kernels: Sequence[Mapping[str, Any]],
    facts: Sequence[Fact] = (),
) -> tuple[Diagnosis, list[Fact]]:
    """The diagnosis of an evaluation, and which of its facts say so; see the module's rules."""
    if status in OF_STATUS:
        return OF_STATUS[status], []
    spills = [f for f in facts if f.metric == "spills"]
    if spills or any((k.get("spills") or 0) > 0 for k in kernels):
        return "spill", spills
    if timing is None or roofline is None or roofline.fraction is None:
        return "unknown", []
    limit: Diagnosis = "memory_bound" if roofline.limit == "memory" else "compute_bound"
    share = [f for f in facts if f.metric in ("roofline", "bandwidth", "intensity")]
    if target.kind == "gpu" and timing.candidate_ms < _LAUNCH_MS and roofline.fraction < 0.5:
        return "launch_bound", [f for f in facts if f.metric in ("outside_the_device", "roofline")]
    if roofline.fraction >= _NEAR:
        return limit, share
    idle = [f for f in facts if f.metric == "threads_busy" and f.value < _BUSY and target.compute_units > 1]
    if idle or (target.kind == "gpu" and any(_starved(k, target) for k in kernels)):
        return "low_occupancy", idle or [f for f in facts if f.metric in ("occupancy", "waves")]
    few = {f.about for f in facts if f.metric == "waves" and 1 < f.value < _FEW_WAVES}
    tail = [f for f in facts if f.metric == "tail_idle" and f.value > _TAIL and f.about in few]
    if tail:
        return "tail", tail
    scalar = [f for f in facts if f.metric == "vector_width" and not f.value]
    return ("latency_bound" if roofline.fraction < _FAR else limit), [*share, *scalar]


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
