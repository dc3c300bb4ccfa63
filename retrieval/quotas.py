"""How many passages of each kind a situation is given: the one table that decides it."""

from __future__ import annotations

from collections.abc import Mapping

FREE_PHASES = ("search", "chat")
"""Phases of a person's questions: the best passages of any kind."""

# Shares of a dozen, in the order in which the kinds are shown. Exemplars come first where a kernel is to be written;
# where something was measured or
# went wrong, advice about that comes first, but an exemplar for every pattern always has room (see ``quotas``).
_DRAFT = {"kernel": 5, "guidance": 3, "constraints": 2, "hardware": 2}
_CROSSOVER = {"kernel": 5, "guidance": 4, "constraints": 1, "hardware": 2}
_DEBUG = {"guidance": 4, "constraints": 3, "kernel": 4, "hardware": 1}
_IMPROVE = {"guidance": 4, "kernel": 4, "hardware": 3, "lesson": 1}
_BY_DIAGNOSIS: Mapping[str, Mapping[str, int]] = {
    "memory_bound": {"guidance": 4, "hardware": 3, "kernel": 4, "trace": 1},
    "compute_bound": {"guidance": 4, "hardware": 3, "kernel": 4, "trace": 1},
    "latency_bound": {"guidance": 5, "hardware": 2, "kernel": 4, "trace": 1},
    "launch_bound": {"guidance": 5, "hardware": 2, "kernel": 4, "trace": 1},
    "low_occupancy": {"guidance": 4, "hardware": 4, "kernel": 4},
    "spill": {"guidance": 4, "hardware": 4, "kernel": 4},
    "compile_error": _DEBUG,
    "mismatch": _DEBUG,
    "runtime_error": _DEBUG,
    "timeout": {"guidance": 5, "constraints": 2, "kernel": 4, "hardware": 1},
}
_BY_PHASE: Mapping[str, Mapping[str, int]] = {"draft": _DRAFT, "crossover": _CROSSOVER, "debug": _DEBUG}


def shares(phase: str, diagnosis: str) -> Mapping[str, int]:
    """The row of the table.

    A draft and a crossover are about schedules whatever was measured last; otherwise the diagnosis decides.
    """
    if phase in ("draft", "crossover"):
        return _BY_PHASE[phase]
    return _BY_DIAGNOSIS.get(diagnosis) or _BY_PHASE.get(phase, _IMPROVE)


def quotas(phase: str, diagnosis: str, k: int, schedules: int = 0) -> dict[str, int]:
    """Kind → passages, summing to ``k``: the table's row scaled by largest remainders. ``kernel`` is raised to one
    per pattern of the program) as far as half of ``k`` allows, at the cost of the kinds shown last. Phases of a
    person's questions have no quotas: empty."""
    if phase in FREE_PHASES or k <= 0:
        return {}
    row = shares(phase, diagnosis)
    total = sum(row.values())
    exact = {kind: k * share / total for kind, share in row.items()}
    out = {kind: int(x) for kind, x in exact.items()}
    left = k - sum(out.values())
    for kind in sorted(row, key=lambda kind: exact[kind] - out[kind], reverse=True)[:left]:
        out[kind] += 1
    wanted = min(schedules, max(k // 2, 1))
    for kind in reversed([kind for kind in row if kind != "kernel"]):
        while out["kernel"] < wanted and out[kind] > 0:
            out[kind] -= 1
            out["kernel"] += 1
    return out
