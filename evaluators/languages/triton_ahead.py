"""Compile a Triton candidate's launches for a GPU that is not there.

``ModelNew`` runs on fake tensors of the target's device type; every launch is compiled for the target instead of run. Triton's own
argument specialisation is used, with a driver object that only knows the target.
"""

from __future__ import annotations

import contextlib
import math
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch

from evaluators.languages.triton_resources import amd_resources, cuobjdump_resources


class TargetDriver:
    """What Triton asks of a driver when it compiles without running."""

    def __init__(self, backend: str, arch: Any, warp_size: int) -> None:
        from triton.backends.compiler import GPUTarget

        self.target = GPUTarget(backend, arch, warp_size)

    def get_current_target(self) -> Any:
        return self.target

    def get_current_device(self) -> int:
        return 0

    def get_current_stream(self, device: int = 0) -> int:
        return 0

    def get_active_torch_device(self) -> Any:
        return torch.device("cuda", 0)


class Launches:
    """Launches recorded from one forward pass, each compiled once per distinct kernel binary."""

    def __init__(self) -> None:
        self.kernels: dict[str, dict[str, Any]] = {}

    def run(self, function: Any, shipped_run: Any, args: tuple[Any, ...], grid: Any, kwargs: dict[str, Any]) -> Any:
        """Compile the launch ``function[grid](*args, **kwargs)`` and note its resources."""
        from triton.runtime.jit import MockTensor

        def mock(value: Any) -> Any:
            return MockTensor(value.dtype, list(value.shape)) if isinstance(value, torch.Tensor) else value

        compiled = shipped_run(
            function,
            *map(mock, args),
            grid=grid,
            warmup=True,
            **{k: mock(v) for k, v in kwargs.items() if k != "warmup"},
        )
        if compiled.hash not in self.kernels:
            named = {**dict(zip(function.arg_names, args, strict=False)), **kwargs}
            extent = grid(named) if callable(grid) else grid
            self.kernels[compiled.hash] = {"name": compiled.name, "programs": math.prod(extent), **resources(compiled)}
        return compiled


@contextlib.contextmanager
def recording(driver: TargetDriver, compute_units: int, shared_bytes: int) -> Iterator[Launches]:
    """Replace launching by compiling, inside."""
    from triton.runtime import autotuner, jit
    from triton.runtime import driver as runtime

    from evaluators.languages.triton_interpreter import first_config

    launches = Launches()
    shipped_run, shipped_tuner = jit.JITFunction.run, autotuner.Autotuner.run
    shipped_properties = torch.cuda.get_device_properties

    def run(self: Any, *args: Any, grid: Any, warmup: bool = False, **kwargs: Any) -> Any:
        return launches.run(self, shipped_run, args, grid, kwargs)

    properties = SimpleNamespace(
        multi_processor_count=compute_units,
        shared_memory_per_block_optin=shared_bytes,
        warp_size=driver.target.warp_size,
    )
    runtime.set_active(driver)
    jit.JITFunction.run, autotuner.Autotuner.run = run, first_config
    torch.cuda.get_device_properties = lambda *_: properties
    try:
        yield launches
    finally:
        jit.JITFunction.run, autotuner.Autotuner.run = shipped_run, shipped_tuner
        torch.cuda.get_device_properties = shipped_properties


def resources(compiled: Any) -> dict[str, Any]:
    """Resources of one compiled kernel: warps, stages, shared memory bytes, registers per thread, spills (in 4-byte words)."""
    meta = compiled.metadata
    found: dict[str, Any] = {
        "num_warps": getattr(meta, "num_warps", None),
        "num_stages": getattr(meta, "num_stages", None),
        "shared_bytes": int(meta.shared),
    }
    if "cubin" in compiled.asm:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "kernel.cubin"
            path.write_bytes(compiled.asm["cubin"])
            with contextlib.suppress(OSError, subprocess.SubprocessError):
                found |= cuobjdump_resources(path)
    elif "amdgcn" in compiled.asm:
        found |= amd_resources(compiled.asm["amdgcn"])
    return found


def place(model: torch.nn.Module, device: torch.device, dtype: torch.dtype) -> None:
    """Put a model's tensors on ``device``, the floating ones as ``dtype``.

    ``Module.to`` exchanges the contents of fake parameters, which fails where anything else refers to them; here each is replaced.
    """
    placed: dict[int, Any] = {}  # tied parameters stay one
    for part in model.modules():
        for table in (part._parameters, part._buffers):
            for name, tensor in table.items():
                if tensor is None:
                    continue
                if id(tensor) not in placed:
                    moved = tensor.detach().to(
                        device=device, dtype=dtype if tensor.is_floating_point() else tensor.dtype
                    )
                    is_parameter = isinstance(tensor, torch.nn.Parameter)
                    placed[id(tensor)] = (tensor, torch.nn.Parameter(moved, False) if is_parameter else moved)
                table[name] = placed[id(tensor)][1]


def compile_ahead(message: dict[str, Any], import_text: Callable[[str], Any]) -> list[dict[str, Any]]:
    """Run the candidate in ``message`` (source, constructor arguments, described inputs, target figures) on fake tensors.

    ``import_text`` makes a module of the source. Gives one entry per distinct kernel. Whatever the candidate or the compiler raises
    passes through.
    """
    from torch._subclasses.fake_tensor import FakeTensorMode

    from evaluators.judge.memory import wire

    target = message["target"]
    driver = TargetDriver(target["backend"], target["arch"], target["warp_size"])
    with recording(driver, target["compute_units"], target["shared_bytes"]) as launches:
        module = import_text(message["source"])
        with FakeTensorMode(allow_non_fake_inputs=True), torch.no_grad():
            device = torch.device("cuda", 0)
            args, kwargs = wire.rebuild(message["arguments"], []), wire.rebuild(message["keywords"], [])
            with device:
                model = module.ModelNew(*args, **kwargs)
            place(model, device, getattr(torch, message["dtype"]))
            model.train(message["mode"] == "train")
            tensors = [
                torch.empty_strided(t["shape"], t["stride"], dtype=getattr(torch, t["dtype"]), device=device)
                for t in message["inputs"]
            ]
            model(*wire.rebuild(message["tree"], tensors))
    return list(launches.kernels.values())
