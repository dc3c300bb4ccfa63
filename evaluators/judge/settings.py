"""Settings of the judge: how much evidence it asks for, and how long it waits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class JudgeSettings:
    """Seconds are wall clock, ``*_ms`` milliseconds, memory bytes. Every field has a sound default."""

    seeds: int = 3
    """Input sets (seeds), all unknown to the candidate. Fewer where half the device's memory holds fewer."""
    other_sizes: int = 4
    """Other sizes within declared ranges at which a candidate is checked too; 0: none."""
    other_elements: int = 1 << 16
    """Elements of inputs and parameters together at such sizes, at most."""
    pairs: int = 11
    """Baseline/candidate pairs of timed batches."""
    min_pairs: int = 5
    watched: int = 4
    """Batches of the candidate, beside the timed ones and not told from them, that are stopped in the middle and looked at."""
    batch_ms_cpu: float = 20.0
    batch_ms_gpu: float = 20.0
    timing_budget_s: float = 4.0
    """Pairs are reduced, to ``min_pairs`` at least, where they would take longer than this."""
    compile_mode: str = "default"
    """torch.compile mode of the second baseline; ``"off"`` leaves it out, ``"max-autotune-no-cudagraphs"`` costs minutes."""
    compile_s: float = 400.0
    load_s: float = 60.0
    run_s: float = 60.0
    """Limit of one call of the candidate (its first on a GPU includes just-in-time compilation)."""
    interpreter_s: float = 60.0
    """Limit of one call in Triton's interpreter."""
    ahead_s: float = 90.0
    """Limit of compiling all of a candidate's kernels for an absent device."""
    memory_bytes: int = 8 << 30
    """What a worker on the CPU may map beyond its start; on a GPU, its host memory."""
    processes: int = 256
    """Descendants a worker may have at a time."""
    namespaces: bool = True
    """Give CPU workers namespaces of their own where the kernel allows."""
    file_bytes: int = 1 << 28
    """Size of a worker's largest file and, in a mount namespace of its own, of all its files together."""
    device_wait_s: float = 900.0
    """How long to wait while other judges on this machine use the device."""
    threads: int | None = None
    """CPU threads of candidate and baseline; ``None``: the target's compute units, at most what this process may use."""

    def limits(self, device: str) -> dict[str, Any]:
        """Limits of a worker on ``device``, as the zygote takes them."""
        memory = self.memory_bytes
        return {
            "memory_bytes": memory if device == "cpu" else 0,
            "resident_bytes": memory if device == "cpu" else 4 * memory,
            "processes": self.processes,
            "namespaces": self.namespaces and device == "cpu",
            "file_bytes": self.file_bytes,
            "files": device == "cpu",
        }
