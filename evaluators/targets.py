"""Targets: one YAML file each under ``corpora/targets``. A new accelerator is one new file."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StrictInt, ValidationError

from evaluators import local_cpu
from evaluators.errors import TargetError
from evaluators.forms import explain
from evaluators.home import home
from evaluators.reading import read_yaml
from evaluators.suggest import suggest
from evaluators.target import Target
from evaluators.verdict import Evaluation

Positive = Annotated[float, Field(gt=0)]
Size = Annotated[StrictInt, Field(ge=1)]
Names = Annotated[tuple[str, ...], BeforeValidator(lambda v: tuple(v) if isinstance(v, list) else v)]
Rate = Literal["float64", "float32", "tensor_float32", "bfloat16", "float16", "float8", "int8"]
LOCAL_CPU = "local-cpu"


class TargetForm(BaseModel):
    """A target file. Figures may be left out only where ``detect`` says how they are found."""

    model_config = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)

    description: str = ""
    kind: Literal["cpu", "gpu"]
    vendor: str
    architecture: str
    families: Names
    languages: Names
    warp_size: Size
    memory_bandwidth_gbs: Positive | None = None
    peak_tflops: dict[Rate, Positive] | None = None
    compute_units: Size | None = None
    l2_bytes: Size | None = None
    shared_memory_bytes: Size | None = None
    memory_bytes: Size | None = None
    caches: dict[Literal["l1", "l2", "l3"], Size] = Field(default_factory=dict)
    toolchain: dict[str, Any] = Field(default_factory=dict)
    device_name_pattern: str = ""
    sources: Names = ()
    detect: Literal["local-cpu"] | None = None


FIGURES = ("memory_bandwidth_gbs", "peak_tflops", "compute_units", "l2_bytes", "shared_memory_bytes", "memory_bytes")


def root() -> Path:
    """Folder of the shipped target files."""
    return Path(str(files("corpora") / "targets"))


def names() -> tuple[str, ...]:
    """Names of the shipped targets, which are their files' names."""
    return tuple(sorted(p.stem for p in root().glob("*.yaml")))


def load(name: str) -> Target:
    """Target by name, by the path of a YAML file, or ``auto`` for the local device; ``present`` where this machine has it.

    Raises TargetError for an unknown name or a malformed file.
    """
    if name == "auto":
        return detect()
    path = Path(name) if name.endswith((".yaml", ".yml")) else root() / f"{name}.yaml"
    if not path.is_file():
        if name.endswith((".yaml", ".yml")):
            raise TargetError(f"{name}: no such target file; known targets are {', '.join(names())}")
        hint = suggest(name, names())
        known = "" if hint.startswith("known") else f" Known are {', '.join(names())}."
        raise TargetError(f"unknown target {name!r}; {hint}{known}")
    return _load_file(path)


def detect() -> Target:
    """The local device: the first GPU where a target's pattern matches its name, else the CPU.

    Raises TargetError where no target describes this machine.
    """
    device = local_gpu()
    if device is not None:
        for name in names():
            form = _parse(root() / f"{name}.yaml")
            if form.device_name_pattern and re.search(form.device_name_pattern, device):
                return load(name)
    if not local_cpu.is_x86():
        raise TargetError(f"no target describes this machine; name one with --target: {', '.join(names())}")
    return load("cpu-x86-64")


@lru_cache(maxsize=1)
def local_gpu() -> str | None:
    """Name of the first GPU as PyTorch reports it, or None."""
    # Importing torch takes seconds: look for a driver first.
    if not any(Path(p).exists() for p in ("/dev/nvidiactl", "/dev/kfd", "/dev/dxg")) and os.name == "posix":
        return None
    import torch

    return str(torch.cuda.get_device_name(0)) if torch.cuda.is_available() else None


def _parse(path: Path) -> TargetForm:
    data = read_yaml(path, TargetError)
    if not isinstance(data, dict):
        raise TargetError(f"{path}: the file holds no mapping; write the fields of a target")
    try:
        form = TargetForm.model_validate(data)
    except ValidationError as e:
        raise TargetError(f"{path}: {explain(e, _fields, _wanted)}") from e
    try:
        re.compile(form.device_name_pattern)
    except re.error as e:
        raise TargetError(f"{path}: device_name_pattern: is no regular expression ({e}); fix it") from e
    if form.detect is None:
        for figure in FIGURES:
            if getattr(form, figure) is None:
                raise TargetError(f"{path}: {figure}: is missing; add it with its source")
        if not form.sources:
            raise TargetError(f"{path}: sources: is empty; say where the figures come from")
    return form


def _fields(path: Sequence[str]) -> list[str]:
    return ["l1", "l2", "l3"] if path and path[0] == "caches" else list(TargetForm.model_fields)


def _wanted(path: Sequence[str]) -> str | None:
    return {
        "families": "write a list of names",
        "languages": "write a list of names",
        "sources": "write a list of citations",
    }.get(path[0])


def _load_file(path: Path) -> Target:
    form = _parse(path)
    values: dict[str, Any] = form.model_dump(exclude={"description", "detect"})
    if form.detect == LOCAL_CPU:
        values |= _local_figures(path, form)
        present = True
    else:
        device = local_gpu() if form.kind == "gpu" else None
        present = (
            device is not None
            and bool(form.device_name_pattern)
            and re.search(form.device_name_pattern, device) is not None
        )
    return Target(name=path.stem, present=present, **values)


def witness(target: Target, evaluation: Evaluation) -> None:
    """Take note where a right kernel moved its bytes faster than the local processor's measured bandwidth, for the runs to come."""
    bound, timing = evaluation.roofline, evaluation.timing
    if "cpu" in target.toolchain and evaluation.status == "correct" and bound is not None and timing is not None:
        local_cpu.witness(local_cpu.detect(), home() / "bandwidth.json", bound.bytes, timing.candidate_ms)


def _local_figures(path: Path, form: TargetForm) -> dict[str, Any]:
    if not local_cpu.is_x86():
        raise TargetError(
            f"{path.stem}: describes the local x86-64 processor, and this machine has another; known targets are {', '.join(names())}"
        )
    cpu = local_cpu.detect()
    measured = local_cpu.bandwidth(cpu, home() / "bandwidth.json")
    facts = {
        "model": cpu.name,
        "features": list(cpu.features),
        "vector_bits": cpu.vector_bits,
        "clock_ghz": round(cpu.clock_ghz, 3),
        **measured,
    }
    return {
        # A kernel that only reads can beat the copy rate, so the bound is the better of the two.
        "memory_bandwidth_gbs": max(measured.values()),
        "peak_tflops": cpu.peak_tflops(),
        "compute_units": cpu.cores,
        "l2_bytes": cpu.caches.get("l2", 1 << 20),
        "shared_memory_bytes": cpu.caches.get("l1", 32 << 10),
        "memory_bytes": cpu.memory_bytes,
        "caches": cpu.caches,
        "toolchain": {**form.toolchain, "cpu": facts},
        "sources": (
            f"/proc/cpuinfo and /sys of this machine: {cpu.name}, {cpu.cores} cores, {cpu.vector_bits}-bit vectors, "
            f"{cpu.clock_ghz:.2f} GHz ({cpu.clock_source})",
            f"measured here: copy {measured['copy_gbs']} GB/s, read {measured['read_gbs']} GB/s, all cores, arrays beyond the caches"
            + (f"; a kernel moved {measured['kernel_gbs']} GB/s" if "kernel_gbs" in measured else ""),
            "peak rates: cores x clock x vector lanes x 2 units x 2 operations, nominal",
        ),
    }
