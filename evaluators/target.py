"""Target: the accelerator a kernel is for. One YAML file each under corpora/targets; the loader is in evaluators.targets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal


@dataclass(frozen=True)
class Target:
    """Figures a schedule and a roofline need.

    Bandwidth is GB/s (1e9 bytes), rates are TFLOP/s per dtype name (``"float32"``, ``"bfloat16"``, ``"tensor_float32"``), sizes are
    bytes. ``families`` orders the knowledge that applies, nearest first, for example ``("nvidia-h200", "nvidia-hopper", "nvidia", "gpu")``.
    """

    name: str
    kind: Literal["cpu", "gpu"]
    vendor: str
    architecture: str
    families: tuple[str, ...]
    memory_bandwidth_gbs: float
    peak_tflops: Mapping[str, float]
    languages: tuple[str, ...]
    compute_units: int
    warp_size: int
    l2_bytes: int
    shared_memory_bytes: int
    memory_bytes: int
    caches: Mapping[str, int] = field(default_factory=dict)
    """Bytes of ``l1`` (per core or compute unit), ``l2`` and ``l3`` (whole device, or as one core sees it on a CPU) where known."""
    toolchain: Mapping[str, Any] = field(default_factory=dict)
    device_name_pattern: str = ""
    """Regular expression on the device's reported name, used by ``--target auto``."""
    sources: tuple[str, ...] = ()
    present: bool = False
    """Whether this machine has the device, so that candidates can be run and timed on it."""

    @property
    def device(self) -> str:
        """torch device type: ``"cpu"`` or ``"cuda"`` (ROCm builds of PyTorch use the same name)."""
        return "cpu" if self.kind == "cpu" else "cuda"
