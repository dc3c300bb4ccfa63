"""torch.profiler output as JSON: one unit per device kernel, or per operator where nothing ran on a device.

Two forms: the Chrome trace of ``export_chrome_trace``, and a table of ``key_averages()`` rows with ``name``,
``calls``, ``self_cpu_us`` or ``self_device_us`` and, where known, ``input_shapes``, beside free facts about the run
(device, dtype, shape).
"""

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
    if isinstance(data, dict) and isinstance(data.get("key_averages"), list):
        return _table(data, name)
    events = data.get("traceEvents") if isinstance(data, dict) else None
    if not isinstance(events, list):
        raise UnreadableDocumentError(name, "JSON, but no torch.profiler trace (no traceEvents, no key_averages)")
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
        targets=_families(category == "kernel", " ".join(map(str, devices))),
        diagnoses=("low_occupancy",) if low else (),
    )


def _families(on_device: bool, device: str) -> tuple[str, ...]:
    """What a profile is evidence about: processors of the kind it was taken on."""
    if not on_device:
        return ("cpu",)
    name = device.lower()
    vendor = "nvidia" if "nvidia" in name else "amd" if "amd" in name or "instinct" in name else None
    return (vendor,) if vendor else ("gpu",)


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


def _table(data: Mapping[str, Any], name: str) -> Document:
    """The document of a ``key_averages()`` table."""

    def own(row: Mapping[str, Any], key: str) -> float:
        value = row.get(key)
        return float(value) if isinstance(value, (int, float)) else 0.0

    rows = [r for r in data["key_averages"] if isinstance(r, dict) and "name" in r]
    clock = "self_device_us" if any(own(r, "self_device_us") > 0 for r in rows) else "self_cpu_us"
    ranked = sorted((r for r in rows if own(r, clock) > 0), key=lambda r: -own(r, clock))
    if not ranked:
        raise UnreadableDocumentError(name, "the table holds no row with self_cpu_us or self_device_us above 0")
    total = sum(own(r, clock) for r in ranked)
    about = ", ".join(
        f"{k} {v}" for k, v in data.items() if isinstance(v, (str, int, float, list)) and k != "key_averages"
    )
    units = [Unit("summary", 1, f"{len(ranked)} operators, {total:.1f} µs in all; {about}.")]
    for i, row in enumerate(ranked[:KERNELS]):
        calls = max(int(own(row, "calls")), 1)
        shapes = [s for s in row.get("input_shapes") or [] if s]
        units.append(
            Unit(
                str(row["name"])[:120],
                2 + i,
                f"{row['name']}: {calls} calls, {own(row, clock):.1f} µs ({own(row, clock) / total:.1%}), "
                f"{own(row, clock) / calls:.2f} µs per call{f', input shapes {shapes}' if shapes else ''}.",
            )
        )
    return Document(
        name=name,
        kind="trace",
        title=f"Profile {PurePosixPath(name).stem}",
        units=tuple(units),
        targets=_families(clock == "self_device_us", str(data.get("device", ""))),
    )
