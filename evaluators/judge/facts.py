"""What was measured of a candidate beside its time, as typed facts, and the one word for what holds it back with the facts that say so.

Each fact has a source and a confidence: ``measured`` by the judge or the kernel, ``counted`` from the program, ``reported`` by a compiler
or by the candidate's own process, ``derived`` from others by arithmetic and a target's data sheet.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from evaluators.target import Target
from evaluators.verdict import Roofline, Timing

Confidence = Literal["measured", "counted", "reported", "derived"]
_REGISTERS, _THREADS = 65536, 2048
"""Registers and threads of one streaming multiprocessor, the same for all NVIDIA targets from compute capability 8.0 on but 8.6 and 8.9."""


@dataclass(frozen=True)
class Fact:
    """One figure: ``value`` in ``unit`` (empty for a plain number or a share), where it is from and how sure it is."""

    metric: str
    value: float
    unit: str
    source: str
    confidence: Confidence
    about: str = ""
    """Which kernel or loop it is about; empty for the whole candidate."""

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    def __str__(self) -> str:
        value = f"{self.value:.0%}" if self.unit == "share" else f"{self.value:.4g} {self.unit}".rstrip()
        about = f" of {self.about}" if self.about else ""
        return f"{self.metric.replace('_', ' ')}{about}: {value} ({self.confidence}: {self.source})"


TOLD = ("facts", "because", "loops")
"""Entries of a verdict's resources that facts are kept in."""


def known(resources: Mapping[str, Any]) -> list[Fact]:
    """The facts that a verdict's resources hold."""
    return [Fact(**plain) for plain in resources.get("facts") or ()]


def of_work(timing: Timing | None, bound: Roofline | None) -> list[Fact]:
    """Facts from the roofline's counts and a measured time."""
    if bound is None:
        return []
    found = [
        Fact("compulsory_bytes", bound.bytes, "B", "inputs once, outputs once", "counted"),
        Fact("operations", bound.operations, "", "loop IR", "counted"),
    ]
    if bound.bytes:
        found.append(Fact("intensity", bound.operations / bound.bytes, "op/B", "loop IR", "counted"))
    if timing is not None:
        seconds = timing.candidate_ms / 1e3
        found.append(
            Fact("bandwidth", bound.bytes / seconds / 1e9, "GB/s", "compulsory bytes over the time", "derived")
        )
        if bound.fraction is not None:
            found.append(Fact("roofline", bound.fraction, "share", f"{bound.limit} bound of the target", "derived"))
        if timing.event_ms is not None:
            outside = max(timing.candidate_ms - timing.event_ms, 0.0)
            found.append(Fact("outside_the_device", outside, "ms", "wall clock beyond device events", "measured"))
    return found


def of_threads(ready_ns: int, wall_s: float, calls: int, threads: int, faults: int) -> list[Fact]:
    """Facts from timed batches on a CPU. A thread that waits for a processor, because other work has it, counts as busy."""
    if not wall_s or not calls:
        return []
    return [
        Fact(
            "threads_busy",
            min(ready_ns / 1e9 / wall_s / threads, 1.0),
            "share",
            "processor time in batches",
            "measured",
        ),
        Fact("page_faults", faults / calls, "per call", "the kernel's count", "measured"),
    ]


def of_kernels(kernels: Sequence[Mapping[str, Any]], target: Target) -> list[Fact]:
    """Facts from the resources of device kernels: spills, occupancy, how much of the last wave of blocks stays idle."""
    found: list[Fact] = []
    for kernel in kernels:
        name = str(kernel.get("name", ""))[:60]
        spills, registers, programs = kernel.get("spills"), kernel.get("registers"), kernel.get("programs")
        if spills:
            found.append(Fact("spills", spills, "words", "compiler", "reported", name))
        warps, shared = kernel.get("num_warps") or 0, kernel.get("shared_bytes") or 0
        if target.vendor != "nvidia" or not registers or not warps:
            continue
        threads = warps * target.warp_size
        live = min(
            _REGISTERS // max(registers * threads, 1), _THREADS // threads,
            target.shared_memory_bytes // shared if shared else 32,
        )  # fmt: skip
        found.append(
            Fact(
                "occupancy", live * threads / _THREADS, "share", "registers, threads and shared memory", "derived", name
            )
        )
        if programs and live:
            waves = programs / (live * target.compute_units)
            found.append(Fact("waves", waves, "", "programs over what is live at once", "derived", name))
            if waves > 1:
                idle = 1 - waves / math.ceil(waves)
                found.append(Fact("tail_idle", idle, "share", "the last wave of blocks", "derived", name))
    return found


def of_loops(report: Sequence[Mapping[str, Any]]) -> list[Fact]:
    """Facts from a C++ compiler's vectorisation report: bytes of a vector per loop, 0 where one was not vectorised."""
    return [
        Fact("vector_width", loop["bytes"], "B", loop["why"] or "compiler", "reported", f"the loop at {loop['place']}")
        for loop in report
    ]
