"""Registers, spills and shared memory of compiled Triton kernels: from binaries, and from kernels loaded on a device."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any


def cuobjdump_resources(cubin: Path) -> dict[str, Any]:
    """``registers`` per thread and ``spills`` (4-byte words of local stack) of a cubin. Raises OSError where cuobjdump is missing."""
    import triton.backends.nvidia

    tool = Path(next(iter(triton.backends.nvidia.__path__))) / "bin" / "cuobjdump"
    text = subprocess.run(
        [str(tool), "-res-usage", str(cubin)], capture_output=True, text=True, timeout=20, check=True
    ).stdout
    found: dict[str, Any] = {}
    for name, pattern in (("registers", r"\bREG:(\d+)"), ("stack", r"\bSTACK:(\d+)")):
        match = re.search(pattern, text)
        if match:
            found[name] = int(match.group(1))
    if "stack" in found:
        found["spills"] = found.pop("stack") // 4
    return found


def amd_resources(assembly: str) -> dict[str, Any]:
    """``registers`` (vector), ``spills`` (spilled vector and scalar registers) and ``occupancy`` from AMD assembly text."""

    def number(pattern: str) -> int | None:
        match = re.search(pattern, assembly)
        return int(match.group(1)) if match else None

    found: dict[str, Any] = {"registers": number(r"\.vgpr_count:\s*(\d+)")}
    found["spills"] = (number(r"\.vgpr_spill_count:\s*(\d+)") or 0) + (number(r"\.sgpr_spill_count:\s*(\d+)") or 0)
    found["occupancy"] = number(r"; Occupancy:\s*(\d+)")
    return {k: v for k, v in found.items() if v is not None}


def loaded_kernels(module: Any) -> list[dict[str, Any]]:
    """Resources of every kernel that a candidate module compiled and loaded on the present device."""
    from triton.runtime.jit import JITFunction

    found = []
    for value in vars(module).values():
        function = value
        while not isinstance(function, JITFunction) and hasattr(function, "fn"):
            function = function.fn  # autotuners and heuristics wrap the function they tune
        if not isinstance(function, JITFunction):
            continue
        for cache in function.device_caches.values():
            for kernel in cache[0].values():
                found.append(_loaded(kernel))
    return found


def _loaded(kernel: Any) -> dict[str, Any]:
    meta = kernel.metadata
    entry = {
        "name": str(kernel.name),
        "num_warps": getattr(meta, "num_warps", None),
        "num_stages": getattr(meta, "num_stages", None),
        "shared_bytes": getattr(meta, "shared", None),
        "registers": getattr(kernel, "n_regs", None),
        "spills": getattr(kernel, "n_spills", None),
    }
    return {k: v for k, v in entry.items() if v is not None}
