"""Whose kernels took a GPU's time during a call, by PyTorch's profiler (CUPTI's activity records) in the worker.

A worker's word, so it only ever counts against a candidate: library kernels that are seen did run.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from evaluators.languages.triton import kernel_names

_MEMORY = ("Memcpy", "Memset")
_SHOWN = 12
MOSTLY = 0.5
"""Share of the time from which on a call's work counts as the library's."""


def record(call: Callable[[], Any]) -> list[dict[str, Any]]:
    """Device kernels of one call: name, number of launches, milliseconds in all. Runs in the worker; the device must be idle before."""
    import torch
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CUDA]) as seen:
        call()
        torch.cuda.synchronize()
    kernels: dict[str, list[float]] = {}
    for event in seen.events():
        if event.device_type == torch.autograd.DeviceType.CUDA:
            entry = kernels.setdefault(event.name, [0.0, 0.0])
            entry[0] += 1
            entry[1] += event.device_time / 1e3
    return [{"name": n, "launches": int(c), "ms": ms} for n, (c, ms) in kernels.items()]


def mostly_libraries(shares: Mapping[str, Any]) -> str:
    """That libraries do the work, where most of the device time is theirs; else empty."""
    share = shares.get("library", 0.0)
    return f"compute libraries do the work ({share:.0%} of the time)" if share > MOSTLY else ""


def attribute(kernels: Sequence[Mapping[str, Any]], source: str) -> dict[str, Any] | None:
    """Shares of the device time in the candidate's ``own`` kernels, in ``library`` ones, and in copies and fills (``memory``), with the
    largest kernels; None where no kernel was seen."""
    own = kernel_names(ast.parse(source))
    times = {"own": 0.0, "library": 0.0, "memory": 0.0}
    rows = []
    for kernel in kernels:
        name, ms = str(kernel.get("name", "")), float(kernel.get("ms") or 0.0)
        kind = "own" if name in own else "memory" if name.startswith(_MEMORY) else "library"
        times[kind] += ms
        rows.append((ms, kind, name))
    whole = sum(times.values())
    if not whole:
        return None
    shares: dict[str, Any] = {kind: round(ms / whole, 4) for kind, ms in times.items()}
    shares["kernels"] = [
        f"{name[:80]}: {ms / whole:.1%}, {kind}" for ms, kind, name in sorted(rows, reverse=True)[:_SHOWN]
    ]
    return shares
