"""The candidate's side: load a module, run it on inputs that the judge hands over, time batches on the judge's token.

Everything here shares a process with the candidate, so nothing here decides anything: results are judged elsewhere.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import importlib.util
import inspect
import mmap
import os
import sys
import time
import traceback
from typing import Any

import torch

from evaluators.judge.memory import arena, fence, page, wire
from evaluators.judge.processes.channel import Channel, Closed
from evaluators.judge.processes.device import set_up
from evaluators.judge.worker import batch
from evaluators.judge.worker.guard import Guard
from evaluators.judge.worker.recorder import Recorder
from evaluators.judge.worker.results import deliver
from evaluators.spec.calls import WithGradients


class Damage(Exception):
    """Memory outside of tensors was written to."""


class LoadError(Exception):
    """The candidate cannot be set up as the reference's replacement."""


class Worker:
    """State of one worker: the candidate's model and the cases it was handed."""

    def __init__(self, applied: str) -> None:
        self.applied = applied
        self.device = torch.device("cpu")
        self.models: dict[int, Any] = {}
        """The candidate's model at each place: 0 is where it is timed, others are other sizes."""
        self.module: Any = None
        self.cases: dict[int, dict[str, Any]] = {}
        self.delivered: list[list[Any]] = []
        """Where results of timed calls are handed over, where the judge cannot fetch them."""
        self.batcher: batch.Batcher
        self.page: page.Page | None = None
        self.sample: Any = None
        self.guarded = False
        """Whether allocations are guarded: on the CPU, outside of Triton's interpreter, which checks bounds itself."""

    def hello(self, message: dict[str, Any], fds: list[int]) -> dict[str, Any]:
        """Take over the page for progress; answer with the isolation that took effect, and where the judge's own word lies in this
        memory, by which it finds out whether it can read it."""
        self.page = page.Page(mmap.mmap(fds[0], 8 * page.PAGE_WORDS))
        os.close(fds[0])
        self.sample = ctypes.create_string_buffer(message["word"].encode())
        return {"isolation": self.applied, "sample": ctypes.addressof(self.sample)}

    def load(self, message: dict[str, Any], fds: list[int]) -> dict[str, Any]:
        """Import the candidate, construct ModelNew and copy the reference's parameters into it; at another place than the first, only the
        latter two."""
        if message["place"]:
            return self._construct(message, fds)
        self.device = set_up(message["device"], message["threads"], message["precision"])
        self.batcher = batch.Batcher(self.device, message["flush_bytes"], self.page)
        if message["interpreter"]:
            from evaluators.languages.triton_bounds import watch
            from evaluators.languages.triton_interpreter import repair

            repair()
            watch()
        self.guarded = self.device.type == "cpu" and not message["interpreter"]
        self.module = import_text(message["source"])
        return self._construct(message, fds)

    def _construct(self, message: dict[str, Any], fds: list[int]) -> dict[str, Any]:
        blocks = wire.attach(message["blocks"], fds)
        args = wire.rebuild(message["arguments"], [])
        kwargs = wire.rebuild(message["keywords"], [])
        if not inspect.isclass(getattr(self.module, "ModelNew", None)):
            raise LoadError("the module defines no class ModelNew")
        torch.manual_seed(message["seed"])
        # What a kernel reads beyond its parameters is NaN too.
        guard = Recorder(Guard(fence.SLACK)) if self.guarded else contextlib.nullcontext()
        with self.device, guard:
            model = self.module.ModelNew(*args, **kwargs)
        if not isinstance(model, torch.nn.Module):
            raise LoadError("ModelNew is no torch.nn.Module")
        model = model.to(device=self.device, dtype=getattr(torch, message["dtype"]))
        missing = copy_state(model, message["parameters"], blocks)
        model.train(message["mode"] == "train")
        if message["upstream"]:
            if missing:
                raise LoadError(
                    f"the spec asks for gradients of every parameter, and ModelNew has no {', '.join(missing[:6])}"
                )
            model = WithGradients(model, message["upstream"])
        self.models[message["place"]] = model
        return {"missing": missing}

    def case(self, message: dict[str, Any], fds: list[int]) -> dict[str, Any]:
        """Take over one set of inputs and the blocks for its outputs."""
        blocks = wire.attach(message["blocks"], fds)
        tensors = [wire.moved(wire.view(blocks[i], about), self.device) for i, about in enumerate(message["inputs"])]
        outputs = [wire.view(b, about) for b, about in zip(blocks[len(tensors) :], message["outputs"], strict=True)]
        self.cases[message["case"]] = {
            "arguments": wire.rebuild(message["tree"], tensors),
            "wires": blocks[: len(tensors)],
            "tensors": tensors,
            "outputs": outputs,
            "place": message["place"],
        }
        return {}

    def run(self, message: dict[str, Any], fds: list[int]) -> dict[str, Any]:
        """One call on a case, after filling freed memory with ``poison``; outputs go to the case's blocks."""
        case = self.cases[message["case"]]
        self.batcher.last.clear()
        gc.collect()
        poison(case["outputs"], self.device, message["poison"])
        torch.manual_seed(message["seed"])
        guard = Guard(message["poison"]) if message["record"] and self.guarded else None
        recorder = Recorder(guard) if message["record"] else None
        try:
            with torch.no_grad(), recorder or contextlib.nullcontext():
                result = self.models[case["place"]](*case["arguments"])
        finally:
            if self.device.type == "cpu":
                unpoison()
        if self.device.type == "cuda":
            torch.cuda.synchronize()
        reply = deliver(result, case)
        if guard is not None and (damage := guard.damage()):
            raise Damage(damage)
        if self.device.type == "cuda" and case["wires"] and case["wires"][0].device.type == "cpu":
            for block, tensor in zip(case["wires"], case["tensors"], strict=True):
                wire.copy_storage(wire.moved(tensor, "cpu"), block)
        return (
            reply if recorder is None else {**reply, "operators": recorder.computing(), "plumbing": recorder.plumbing}
        )

    def repeat(self, message: dict[str, Any], fds: list[int]) -> dict[str, Any]:
        """Calls in a row on a case, at most so many and so long; the result that lies farthest from the first one is handed over."""
        case = self.cases[message["case"]]
        model, end = self.models[case["place"]], time.monotonic() + message["seconds"]
        first: list[Any] = []
        worst, far, count = None, -1.0, 0
        with torch.no_grad():
            while count < message["most"] and (count < 2 or time.monotonic() < end):
                torch.manual_seed(message["seed"])
                result = model(*case["arguments"])
                count += 1
                found: list[Any] = []
                wire.flatten(result, found)
                first = first or [t.clone() for t in found]
                gap = max((distance(a, b) for a, b in zip(found, first, strict=True)), default=0.0)
                if gap > far:
                    # Its tensors may be memory that the next call writes to.
                    worst, far = deliver(result, case), gap
        return {**(worst or {}), "calls": count}

    def stock(self, message: dict[str, Any], fds: list[int]) -> dict[str, Any]:
        """Take over the input sets of timed calls, and the block for all their results where there is one."""
        blocks = wire.attach(message["blocks"], fds)
        layouts = [arena.Layout.from_json(plain) for plain in message["layouts"]]
        if message["deliver"]:
            self.delivered = [layouts[1].views(blocks[1], k) for k in range(message["count"])]
        self.batcher.page.outputs = message["outputs"]
        self.batcher.stock(message, blocks[0])
        return {}

    def renew(self, message: dict[str, Any], fds: list[int]) -> dict[str, Any]:
        """Fetch the input sets again, where they have to be copied to the device."""
        self.batcher.renew()
        return {}

    def time(self, message: dict[str, Any], fds: list[int]) -> dict[str, Any]:
        """A batch of calls, each on another input set; results are kept until the next one. With ``record``, which PyTorch operators
        did work in it."""
        recorder = Recorder() if message["record"] else None
        with recorder or contextlib.nullcontext():
            self.batcher.batch(self.models[0], message)
        return {} if recorder is None else {"operators": recorder.computing()}

    def events(self, message: dict[str, Any], fds: list[int]) -> dict[str, Any]:
        """Device-event milliseconds of the last batch."""
        return {"events_ms": self.batcher.events_ms()}

    def seed(self, message: dict[str, Any], fds: list[int]) -> dict[str, Any]:
        """Have Triton build its driver module into the cache folder, which later workers start from."""
        from triton.runtime import driver

        torch.cuda.init()
        return {"built": driver.active.utils is not None}

    def collect(self, message: dict[str, Any], fds: list[int]) -> dict[str, Any]:
        """Hand over the results of the last batch."""
        for number, result in self.batcher.last.items():
            deliver(result, {"outputs": self.delivered[number]})
        return {}

    def resources(self, message: dict[str, Any], fds: list[int]) -> dict[str, Any]:
        """Resource use of the candidate's compiled device kernels, where its language reports any."""
        from evaluators.languages.triton_resources import loaded_kernels

        return {"kernels": loaded_kernels(self.module)}

    def profile(self, message: dict[str, Any], fds: list[int]) -> dict[str, Any]:
        """Device kernels of one call on a case."""
        from evaluators.judge.whose.attribution import record

        arguments = self.cases[message["case"]]["arguments"]
        torch.cuda.synchronize()
        with torch.no_grad():
            return {"kernels": record(lambda: self.models[0](*arguments))}

    def check_ahead(self, message: dict[str, Any], fds: list[int]) -> dict[str, Any]:
        """Compile the candidate's launches for an absent device."""
        from evaluators.languages.triton_ahead import compile_ahead

        return {"kernels": compile_ahead(message, import_text)}


def import_text(source: str) -> Any:
    """Import candidate text as a module with a file of its own (Triton reads its functions' source from there)."""
    path = os.path.join(os.getcwd(), "candidate.py")
    with open(path, "w") as file:
        file.write(source)
    spec = importlib.util.spec_from_file_location("candidate", path)
    if spec is None or spec.loader is None:
        raise LoadError("the candidate's file cannot be imported")
    module = importlib.util.module_from_spec(spec)
    sys.modules["candidate"] = module
    spec.loader.exec_module(module)
    return module


def copy_state(model: Any, parameters: list[dict[str, Any]], blocks: list[Any]) -> list[str]:
    """Copy the reference's parameters and buffers by name and shape; gives the reference names the candidate does without.

    Raises :class:`LoadError` naming entries the reference lacks and entries of another shape.
    """
    own = {**dict(model.named_parameters()), **model.state_dict(keep_vars=True)}
    given = {p["name"]: p for p in parameters}
    extra = sorted(set(own) - set(given))
    if extra:
        raise LoadError(
            f"ModelNew has parameters that the reference lacks: {', '.join(extra[:6])}; the reference has: "
            f"{', '.join(sorted(given)[:12]) or 'none'}"
        )
    bad = [
        f"{n} is {list(own[n].shape)}, the reference's is {given[n]['shape']}"
        for n in own
        if list(own[n].shape) != given[n]["shape"]
    ]
    if bad:
        raise LoadError("parameter shapes differ: " + "; ".join(bad[:6]))
    with torch.no_grad():
        for name, tensor in own.items():
            tensor.copy_(wire.view(blocks[given[name]["block"]], given[name]))
    for tensor in model.parameters():
        tensor.requires_grad_(False)
    return sorted(set(given) - set(own))


def distance(value: Any, first: Any) -> float:
    """The largest difference between two results; infinite where NaN is in other places, or a shape is another."""
    if value.shape != first.shape:
        return float("inf")
    if not value.numel() or torch.equal(value, first):
        return 0.0
    gap = (value.double() - first.double()).abs()
    odd = gap.isnan() & ~(value.isnan() & first.isnan() | (value == first))
    return float("inf") if bool(odd.any()) else float(gap.nan_to_num(0.0).max())


def poison(like: list[Any], device: torch.device, byte: int) -> None:
    """Fill memory that the next allocations will likely get with one byte value, so that reads of what was never written show.

    On the CPU glibc is also asked to fill what it hands out, until :func:`unpoison`.
    """
    blocks = [
        torch.empty(t.numel() * t.element_size(), dtype=torch.uint8, device=device) for t in like for _ in range(2)
    ]
    for block in blocks:
        block.fill_(byte)
    if device.type == "cpu":
        _perturb(byte if byte != 0xFF else 0xFE)


def unpoison() -> None:
    """End glibc's filling of allocations: timing runs without it."""
    _perturb(0xFF)


def _perturb(byte: int) -> None:
    """Have malloc fill allocations with ``byte``; 0xFF turns that off (mallopt's M_PERTURB takes the complement, 0 meaning off)."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(-6, byte ^ 0xFF)


def classify(error: BaseException) -> str:
    """Which kind of failure an exception is."""
    text = str(error)
    if (
        isinstance(error, (MemoryError, torch.OutOfMemoryError))
        or "out of memory" in text
        or "can't allocate memory" in text
    ):
        return "out_of_memory"
    if isinstance(error, LoadError):
        return "load_error"
    if isinstance(error, Damage) or text.startswith("OutOfBounds("):  # the interpreter wraps what is raised in it
        return "damage"
    if type(error).__name__ in (
        "CompilationError",
        "CompileTimeAssertionFailure",
        "PTXASError",
        "OutOfResources",
        "MLIRError",
    ):
        return "compile_error"
    return "exception"


def explain(error: BaseException) -> str:
    """The exception and the candidate's own frames that led to it."""
    lines = [f"{type(error).__name__}: {str(error)[:1500]}"]
    if isinstance(error, AttributeError) and "undefined symbol" in lines[0]:
        lines[0] += ' (a function that Python calls is declared extern "C" under exactly that name)'
    for frame in traceback.extract_tb(error.__traceback__):
        if os.path.basename(frame.filename) == "candidate.py":
            lines.append(f"  candidate.py line {frame.lineno}, in {frame.name}: {frame.line}")
    return "\n".join(lines[:8])


def serve(channel: Channel, applied: str) -> None:
    """Answer requests one by one until the judge is gone."""
    worker = Worker(applied)
    while True:
        try:
            message = channel.receive()
        except Closed:
            return
        try:
            reply = getattr(worker, message["op"])(message, channel.take_fds())
        except BaseException as error:
            reply = {"refused": classify(error), "message": explain(error)}
            error.__traceback__ = None
        channel.send(reply)
