"""What the local x86-64 processor is: read from the system, its memory bandwidth measured once."""

from __future__ import annotations

import json
import os
import platform
import re
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

_FEATURES = (
    "avx",
    "avx2",
    "fma",
    "f16c",
    "avx512f",
    "avx512bw",
    "avx512vl",
    "avx512_bf16",
    "avx512_fp16",
    "amx_tile",
    "amx_bf16",
    "avx_vnni",
)
_POOLED = 8
_APART_SECONDS = 120.0
_TRY_SECONDS = 0.6
_BELIEVED = 2.0
_BEYOND = 128 << 20
"""Bytes that no last-level cache of one processor is taken to hold, where it does not say how large it is."""


@dataclass(frozen=True)
class LocalCpu:
    """The processor this program runs on. Sizes in bytes, clock in GHz, ``features`` as Linux names them.

    ``cores`` are the ones this process may use. ``clock_source`` says whether the clock is the hardware maximum or the nominal one.
    """

    name: str
    cores: int
    clock_ghz: float
    clock_source: str
    features: tuple[str, ...]
    caches: dict[str, int]
    memory_bytes: int

    @property
    def vector_bits(self) -> int:
        """Widest vector register."""
        return 512 if "avx512f" in self.features else 256 if "avx" in self.features else 128

    def peak_tflops(self) -> dict[str, float]:
        """Nominal peaks: cores x clock x lanes x 2 operations x 2 fused multiply-add units.

        bfloat16 counts AMX tiles (1024 multiply-adds per clock and core) or AVX512-BF16 (twice float32) where present; elsewhere it
        is computed in float32, at float32's rate.
        """
        per_lane = 4 if "fma" in self.features else 2
        single = self.cores * self.clock_ghz * self.vector_bits / 32 * per_lane / 1e3
        half = single * (2 if "avx512_bf16" in self.features else 1)
        if "amx_bf16" in self.features:
            half = self.cores * self.clock_ghz * 2048 / 1e3
        return {
            "float64": single / 2,
            "float32": single,
            "bfloat16": half,
            "float16": single * (2 if "avx512_fp16" in self.features else 1),
        }


def is_x86() -> bool:
    """Whether this machine is an x86-64."""
    return platform.machine().lower() in ("x86_64", "amd64")


def detect() -> LocalCpu:
    """Read /proc and /sys; on systems without them, what Python knows."""
    info = _read("/proc/cpuinfo")

    def field(key: str) -> str:
        return next(iter(re.findall(rf"^{key}\s*:\s*(.+)$", info, re.M)), "")

    maximum = _read("/sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq").strip()
    clock = float(maximum) / 1e6 if maximum else float(field("cpu MHz") or 0) / 1e3
    flags = set(field("flags").split())
    memory = re.search(r"MemTotal:\s*(\d+)", _read("/proc/meminfo"))
    return LocalCpu(
        name=field("model name") or platform.processor() or "x86-64",
        cores=len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1,
        clock_ghz=clock or 2.0,
        clock_source="maximum" if maximum else "as reported" if clock else "assumed",
        features=tuple(f for f in _FEATURES if f in flags),
        caches=_caches(),
        memory_bytes=int(memory[1]) * 1024 if memory else 0,
    )


def _caches() -> dict[str, int]:
    """Data cache sizes as core 0 sees them: own l1 and l2, shared l3."""
    found: dict[str, int] = {}
    for index in sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        size = re.match(r"(\d+)([KMG])", _read(index / "size"))
        if size and _read(index / "type").strip() != "Instruction":
            found[f"l{_read(index / 'level').strip()}"] = (
                int(size[1]) * {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}[size[2]]
            )
    return found


def _read(path: str | Path) -> str:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def bandwidth(cpu: LocalCpu, cache: Path) -> dict[str, float]:
    """Memory bandwidth in GB/s, ``copy_gbs`` (bytes read plus written) and ``read_gbs``, measured in two seconds on all cores.

    Kept in the JSON file ``cache`` per processor and core count. Other work on the machine can only lower a figure, so the first
    few measurements, at least two minutes apart, are pooled by their best; delete the file to start over. ``kernel_gbs`` is there
    where a kernel has moved its bytes faster than that (:func:`witness`).
    """
    known = _load(cache)
    record = known.get(_key(cpu), {"taken": 0, "at": 0.0})
    if record["taken"] == 0 or (record["taken"] < _POOLED and time.time() - record["at"] > _APART_SECONDS):
        fresh = _measure(cpu)
        best = {k: max(v, record.get(k, 0.0)) for k, v in fresh.items()}
        record = known[_key(cpu)] = {**record, **best, "taken": record["taken"] + 1, "at": time.time()}
        _save(cache, known)
    shown = {k: float(record[k]) for k in ("copy_gbs", "read_gbs")}
    seen = float(record.get("kernel_gbs", 0.0))
    return {**shown, "kernel_gbs": seen} if seen > max(shown.values()) else shown


def witness(cpu: LocalCpu, cache: Path, moved_bytes: int, milliseconds: float) -> None:
    """Note that a kernel moved its bytes in that time: no bound may say that it cannot.

    Only where they are more than the caches hold, and not so much faster that the kernel is the one to doubt.
    """
    known = _load(cache)
    record = known.get(_key(cpu))
    gbs = round(moved_bytes / (milliseconds * 1e6), 2)
    if record is None or moved_bytes < 2 * max(cpu.caches.get("l3", 0), _BEYOND):
        return
    measured = max(float(record[k]) for k in ("copy_gbs", "read_gbs"))
    if max(measured, float(record.get("kernel_gbs", 0.0))) < gbs <= _BELIEVED * measured:
        record["kernel_gbs"] = gbs
        _save(cache, known)


def _key(cpu: LocalCpu) -> str:
    return f"{cpu.name} x{cpu.cores}"


def _save(cache: Path, known: dict[str, Any]) -> None:
    cache.parent.mkdir(parents=True, exist_ok=True)
    partial = cache.with_suffix(f".{os.getpid()}.tmp")
    partial.write_text(json.dumps(known, indent=1), encoding="utf-8")
    partial.replace(cache)


def _load(cache: Path) -> dict[str, Any]:
    try:
        data = json.loads(cache.read_text(encoding="utf-8"))
        complete = {"copy_gbs", "read_gbs", "taken", "at"}
        return {k: v for k, v in data.items() if complete <= set(v)}
    except (OSError, ValueError, AttributeError, TypeError):
        # Absent or damaged: it only holds measurements, which are taken again.
        return {}


def _measure(cpu: LocalCpu) -> dict[str, float]:
    import numpy as np

    # Two arrays beyond the last-level cache, at most a quarter of the memory together.
    beyond = max(_BEYOND, cpu.caches.get("l3", 0))
    size = min(beyond, (cpu.memory_bytes or 4 << 30) // 8)
    source = np.ones(size // 8, dtype=np.float64)
    target = np.empty_like(source)
    cuts = np.linspace(0, source.size, cpu.cores + 1).astype(int)
    parts = [slice(a, b) for a, b in pairwise(cuts)]

    def best(work: Callable[[slice], Any]) -> float:
        with ThreadPoolExecutor(cpu.cores) as pool:
            list(pool.map(work, parts))  # the first touch of a page is not bandwidth
            times: list[float] = []
            while len(times) < 9 or sum(times) < _TRY_SECONDS:
                start = time.perf_counter()
                list(pool.map(work, parts))
                times.append(time.perf_counter() - start)
        return min(times)

    copy = best(lambda part: np.copyto(target[part], source[part]))
    read = best(lambda part: source[part].max())
    return {"copy_gbs": round(2 * source.nbytes / copy / 1e9, 2), "read_gbs": round(source.nbytes / read / 1e9, 2)}
