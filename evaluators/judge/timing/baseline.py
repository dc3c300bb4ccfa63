"""The baseline's process: makes PyTorch's calls in timed batches, on the same input sets as the candidate, and nothing else.

Run as ``python -m evaluators.judge.timing.baseline FD``. What makes the inputs and judges results is another process, the oracle's: one
that was busy with them a moment ago would have its first calls done sooner than the candidate's, which comes from standing still.
"""

from __future__ import annotations

import functools
import sys
import time
from typing import Any

import torch

from evaluators.errors import JudgeError
from evaluators.judge.memory import arena, wire
from evaluators.judge.processes.serving import serve
from evaluators.judge.worker.batch import Batcher
from evaluators.judge.worker.results import deliver
from evaluators.spec.calls import WithGradients, build_call
from evaluators.spec.kernel_spec import KernelSpec


class Baseline:
    """State of the baseline's process for one spec on one device."""

    def __init__(self) -> None:
        self.device = torch.device("cpu")
        self.spec: KernelSpec
        self.batcher: Batcher
        self.seed = 0
        self.dims: dict[str, int] | None = None
        self.block: Any = None
        self.copied: Any = None
        """The input sets on the device, where their shared block is not."""
        self.arguments: list[Any] = []
        self.compiled: Any = None
        self.last: dict[int, Any] = {}
        self.places: dict[int, list[Any]] = {}

    def open(self, message: dict[str, Any], fds: list[int]) -> dict[str, Any]:
        """Take the spec, as the oracle does."""
        self.spec = KernelSpec.from_json(message["spec"])
        self.device = torch.device(message["device"])
        self.seed, self.dims = message["seed"], message["dims"]
        torch.set_num_threads(message["threads"])
        if self.device.type == "cuda":
            torch.cuda.init()
        if self.spec.precision == "ieee":
            torch.backends.cudnn.allow_tf32 = False
        self.batcher = Batcher(self.device, message["flush_bytes"])
        return {}

    @functools.cached_property
    def model(self) -> Any:
        """The reference with the oracle's parameters: made from the same seed."""
        return build_call(self.spec, self.device, seed=self.seed, dims=self.dims)

    def stock(self, message: dict[str, Any], fds: list[int]) -> dict[str, Any]:
        """Take over the input sets."""
        self.block = wire.attach(message["blocks"][:1], fds)[0]
        seen = self.block
        if self.block.device.type != self.device.type:
            seen = self.copied = self.block.to(self.device)
        layout = arena.Layout.from_json(message["layouts"][0])
        self.arguments = arena.arguments(message["tree"], layout, seen, message["count"])
        if not message["flush"]:
            self.batcher.spare_flushes()
        int(self.block[::4096].sum())  # maps every page of it: no timed call has to
        return {}

    def renew(self, message: dict[str, Any], fds: list[int]) -> dict[str, Any]:
        """Fetch the input sets again, where they have to be copied to the device."""
        if self.copied is not None:
            self.copied.copy_(self.block)
            self._settle()
        return {}

    def compile(self, message: dict[str, Any], fds: list[int]) -> dict[str, Any]:
        """Compile the reference with torch.compile and run it; ``failed`` says why it could not."""
        begin = time.perf_counter()
        try:
            self.compiled = compiled(self.model, None if message["mode"] == "default" else message["mode"])
            with torch.no_grad():
                self.compiled(*self.arguments[0])
                self.compiled(*self.arguments[0])
            self._settle()
        except Exception as error:
            self.compiled = None
            return {"failed": f"{type(error).__name__}: {str(error)[:300]}"}
        return {"seconds": time.perf_counter() - begin}

    def time(self, message: dict[str, Any], fds: list[int]) -> dict[str, Any]:
        """A batch of calls, each on another input set; results are kept until the next one."""
        model = self.compiled if message["baseline"] == "compile" else self.model
        if model is None:
            raise JudgeError("the compiled baseline was asked for before it was made")
        self.last.clear()
        call = None if message["empty"] else model
        self.last = self.batcher.run(call, self.arguments, message["calls"], message["offset"])
        return {}

    def collect(self, message: dict[str, Any], fds: list[int]) -> dict[str, Any]:
        """Hand the last batch's results over as the candidate does, but to places of this process's own; ``drop`` lets all of it go."""
        for number, result in self.last.items():
            if number not in self.places:
                tensors: list[Any] = []
                wire.flatten(result, tensors)
                self.places[number] = [torch.empty(t.shape, dtype=t.dtype, device=self.block.device) for t in tensors]
            deliver(result, {"outputs": self.places[number]})
        if message["drop"]:
            self.last.clear()
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
    baseline = Baseline()
    serve(int(sys.argv[1]), lambda message, fds: (getattr(baseline, message["op"])(message, fds), []))
