"""torch.profiler traces (Chrome JSON): one unit per device kernel, or per operator where nothing ran on a device."""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any

from knowledge.documents import Document, Unit
from knowledge.errors import UnreadableDocumentError

KERNELS = 24
"""How many kernels are kept, by total time; the rest are summed up in one line."""
_FACTS = (
    ("grid", "grid"),
    ("block", "block"),
    ("registers per thread", "registers per thread"),
    ("shared memory", "shared memory bytes"),
    ("est. achieved occupancy %", "estimated occupancy %"),
)


def load(text: str, name: str) -> Document:
    """Facts per kernel: calls, total, median and shortest microseconds, share of device time, launch shape,
    registers, occupancy.

    Raises ``UnreadableDocumentError`` where the file is not such a trace.
    """
    try:
        data = json.loads(text)
    except (json.JSONDecodeError, RecursionError) as error:
        raise UnreadableDocumentError(name, f"not JSON: {error}") from None
    events = data.get("traceEvents") if isinstance(data, dict) else None
    if not isinstance(events, list):
        raise UnreadableDocumentError(name, "JSON, but no torch.profiler trace (no traceEvents)")
    for category in ("kernel", "cpu_op"):
        groups = _by_name(events, category)
        if groups:
            break
    else:
        raise UnreadableDocumentError(name, "the trace holds no kernel and no operator with a duration")
    devices = [d.get("name") for d in data.get("deviceProperties") or [] if isinstance(d, dict)]
    where = f" on {', '.join(sorted({str(d) for d in devices}))}" if devices else ""
    total = sum(e["dur"] for g in groups.values() for e in g)
    ranked = sorted(groups.items(), key=lambda item: -sum(e["dur"] for e in item[1]))
    noun = "device kernels" if category == "kernel" else "operators"
    units = [Unit("summary", 1, f"{len(ranked)} {noun}{where}, {total:.1f} µs in all.")]
    low = False
    for i, (kernel, calls) in enumerate(ranked[:KERNELS]):
        units.append(Unit(kernel[:120], 2 + i, _facts(kernel, calls, total)))
        occupancy = calls[0].get("args", {}).get("est. achieved occupancy %")
        low = low or (i == 0 and isinstance(occupancy, (int, float)) and occupancy < 25)
    if len(ranked) > KERNELS:
        rest = sum(e["dur"] for _, calls in ranked[KERNELS:] for e in calls)
        units.append(
            Unit("rest", 2 + KERNELS, f"{len(ranked) - KERNELS} further {noun}: {rest:.1f} µs ({rest / total:.1%}).")
        )
    return Document(
        name=name,
        kind="trace",
        title=f"Profile {PurePosixPath(name).stem}{where}",
        units=tuple(units),
        diagnoses=("low_occupancy",) if low else (),
    )


def _by_name(events: list[Any], category: str) -> dict[str, list[Mapping[str, Any]]]:
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for e in events:
        timed = isinstance(e, dict) and e.get("ph") == "X" and isinstance(e.get("dur"), (int, float)) and e["dur"] > 0
        if timed and str(e.get("cat", "")).lower() == category:
            groups.setdefault(str(e.get("name", "?")), []).append(e)
    return groups


def _facts(kernel: str, calls: list[Mapping[str, Any]], total: float) -> str:
    times = [float(c["dur"]) for c in calls]
    own = sum(times)
    parts = [
        f"{kernel}: {len(calls)} calls, {own:.1f} µs ({own / total:.1%}), "
        f"median {statistics.median(times):.2f} µs, shortest {min(times):.2f} µs"
    ]
    args = calls[0].get("args")
    if isinstance(args, Mapping):
        parts += [f"{label} {args[key]}" for key, label in _FACTS if key in args]
    return ", ".join(parts) + "."
