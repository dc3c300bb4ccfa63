"""The baseline's process: makes PyTorch's calls in timed batches, on the same input sets as the candidate, and nothing else.

Run as ``python -m evaluators.judge.timing.baseline FD [compile]``; the word has it import the compiler beforehand, while candidates are
checked. What makes the inputs and judges results is another process, the oracle's: one
that was busy with them a moment ago would have its first calls done sooner than the candidate's, which comes from standing still.
"""

from __future__ import annotations

import functools
import importlib
import os
import shutil
import sys
import tempfile
import time
from typing import Any

import torch

from evaluators.errors import JudgeError
from evaluators.judge.memory import wire
from evaluators.judge.processes.device import set_up
from evaluators.judge.processes.serving import serve
from evaluators.judge.worker.batch import Batcher
from evaluators.judge.worker.results import deliver
from evaluators.spec.calls import WithGradients, build_call
from evaluators.spec.kernel_spec import KernelSpec

_CACHES = ("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR")


class Baseline:
    """State of the baseline's process for one spec on one device."""

    def __init__(self) -> None:
        self.device = torch.device("cpu")
        self.spec: KernelSpec
        self.batcher: Batcher
        self.seed = 0
        self.dims: dict[str, int] | None = None
        self.place: Any = None
        """Where the shared block of the input sets is."""
        self.compiled: Any = None
        self.places: dict[int, list[Any]] = {}

    def open(self, message: dict[str, Any], fds: list[int]) -> dict[str, Any]:
        """Take the spec, as the oracle does."""
        self.spec = KernelSpec.from_json(message["spec"])
        self.device = set_up(message["device"], message["threads"], self.spec.precision)
        self.seed, self.dims = message["seed"], message["dims"]
        self.batcher = Batcher(self.device, message["flush_bytes"])
        return {}

    @functools.cached_property
    def model(self) -> Any:
        """The reference with the oracle's parameters: made from the same seed."""
        return build_call(self.spec, self.device, seed=self.seed, dims=self.dims)

    def stock(self, message: dict[str, Any], fds: list[int]) -> dict[str, Any]:
        """Take over the input sets."""
        (block,) = wire.attach(message["blocks"][:1], fds)
        self.place = block.device
        self.batcher.stock(message, block)
        return {}

    def renew(self, message: dict[str, Any], fds: list[int]) -> dict[str, Any]:
        """Fetch the input sets again, where they have to be copied to the device."""
        self.batcher.renew()
        self._settle()
        return {}

    def compile(self, message: dict[str, Any], fds: list[int]) -> dict[str, Any]:
        """Compile the reference with torch.compile and run it; ``failed`` says why it could not.

        What was compiled before is kept on disk, and a process that was killed may have left something broken there: what fails is tried
        once more without it, and where that works the rest is thrown away.
        """
        begin = time.perf_counter()
        mode = None if message["mode"] == "default" else message["mode"]
        failed = self._compile(mode)
        if failed:
            from torch._inductor import config as inductor
            from torch._inductor.runtime.cache_dir_utils import default_cache_dir

            torch.compiler.reset()
            kept = {name: os.environ.pop(name, "") for name in _CACHES}
            os.environ.update({name: tempfile.mkdtemp(dir=os.getcwd()) for name in _CACHES})
            # Headers compiled beforehand lie elsewhere, in a place that is settled when the compiler is imported.
            with inductor.patch(cpp_cache_precompile_headers=False):
                again = self._compile(mode)
            if again:
                return {"failed": again}
            for path in filter(None, [*kept.values(), os.path.join(default_cache_dir(), "precompiled_headers")]):
                shutil.rmtree(path, ignore_errors=True)
        return {"seconds": time.perf_counter() - begin}

    def _compile(self, mode: str | None) -> str:
        try:
            self.compiled = compiled(self.model, mode)
            with torch.no_grad():
                self.compiled(*self.batcher.sets[0])
                self.compiled(*self.batcher.sets[0])
            self._settle()
        except Exception as error:
            self.compiled = None
            return f"{type(error).__name__}: {str(error)[:300]}"
        return ""

    def time(self, message: dict[str, Any], fds: list[int]) -> dict[str, Any]:
        """A batch of calls, each on another input set; results are kept until the next one."""
        model = self.compiled if message["baseline"] == "compile" else self.model
        if model is None:
            raise JudgeError("the compiled baseline was asked for before it was made")
        self.batcher.batch(model, message)
        return {}

    def collect(self, message: dict[str, Any], fds: list[int]) -> dict[str, Any]:
        """Hand the last batch's results over as the candidate does, but to places of this process's own; ``drop`` lets all of it go."""
        for number, result in self.batcher.last.items():
            if number not in self.places:
                tensors: list[Any] = []
                wire.flatten(result, tensors)
                self.places[number] = [torch.empty(t.shape, dtype=t.dtype, device=self.place) for t in tensors]
            deliver(result, {"outputs": self.places[number]})
        if message["drop"]:
            self.batcher.last.clear()
            self.places.clear()
        return {}

    def events(self, message: dict[str, Any], fds: list[int]) -> dict[str, Any]:
        """Device-event milliseconds of the last batch."""
        return {"events_ms": self.batcher.events_ms()}

    def _settle(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize()


def compiled(model: Any, mode: str | None) -> Any:
    """The reference compiled; where it comes with gradients, its forward pass is, and PyTorch compiles what is backward of that."""
    if isinstance(model, WithGradients):
        return WithGradients(torch.compile(model.inner, mode=mode), model.upstream)
    return torch.compile(model, mode=mode)


if __name__ == "__main__":
    if "compile" in sys.argv[2:]:
        importlib.import_module("torch._inductor.compile_fx")
    baseline = Baseline()
    serve(int(sys.argv[1]), lambda message, fds: (getattr(baseline, message["op"])(message, fds), []))
