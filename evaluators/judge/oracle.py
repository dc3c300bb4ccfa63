"""The reference's process: makes inputs, holds what is expected, compares, and runs the baselines of timing.

Run as ``python -m evaluators.judge.oracle FD``. No candidate code ever runs here.
"""

from __future__ import annotations

import os
import socket
import sys
import time
import traceback
from typing import Any

import torch

from evaluators.errors import EvaluatorError, JudgeError
from evaluators.judge import batch, cases, wire, wire_host
from evaluators.judge.channel import Channel, Closed
from evaluators.judge.isolation import die_with_parent
from evaluators.spec.inputs import make_inputs
from evaluators.spec.kernel_spec import KernelSpec
from evaluators.spec.model import build_model, constructor_arguments

OUTPUT_POISON = 0xA5
Shared = tuple[list[Any], list[dict[str, Any]], list[int]]


class Oracle:
    """State of the reference's process for one spec on one device."""

    def __init__(self) -> None:
        self.device = torch.device("cpu")
        self.spec: KernelSpec
        self.model: Any = None
        self.compiled: Any = None
        self.dims: dict[str, int] | None = None
        self.cases: dict[int, cases.Case] = {}
        self.shared: dict[int, Shared] = {}
        self.flush: batch.Flush | None = None
        self.ipc = False

    def open(self, message: dict[str, Any]) -> tuple[dict[str, Any], list[int]]:
        """Build the reference; describe constructor arguments and parameters."""
        self.spec = KernelSpec.from_json(message["spec"])
        self.device = torch.device(message["device"])
        self.dims = message["dims"]
        torch.set_num_threads(message["threads"])
        if self.device.type == "cuda":
            torch.cuda.init()
            if message["flush_bytes"]:
                self.flush = batch.Flush(message["flush_bytes"])
        if self.spec.precision == "ieee":
            torch.backends.cudnn.allow_tf32 = False
        self.ipc = bool(message["ipc"]) and self.device.type == "cuda"
        self.model = build_model(self.spec, self.device, seed=message["seed"], dims=self.dims)
        args, kwargs = constructor_arguments(self.spec, self.dims)
        device_name = torch.cuda.get_device_name() if self.device.type == "cuda" else "cpu"
        return {
            "arguments": wire.flatten(list(args), []),
            "keywords": wire.flatten(dict(kwargs), []),
            "environment": {"torch": torch.__version__, "device": device_name, "cuda": str(torch.version.cuda)},
        }, []

    def parameters(self, message: dict[str, Any]) -> tuple[dict[str, Any], list[int]]:
        """The reference's parameters and buffers, copied to one shared block each."""
        state = {
            **dict(self.model.named_parameters()),
            **self.model.state_dict(keep_vars=True),
            **dict(self.model.named_buffers()),
        }
        about, blocks, fds = [], [], []
        for number, (name, tensor) in enumerate(state.items()):
            block, fd = wire_host.allocate(wire.nbytes(tensor))
            wire.copy_storage(tensor.cpu(), block)
            fds.append(fd)
            blocks.append({"bytes": wire.nbytes(tensor), "fd": number})
            about.append({"name": name, "block": number, **wire.describe(tensor)})
        return {"parameters": about, "blocks": blocks}, fds

    def describe(self, message: dict[str, Any]) -> tuple[dict[str, Any], list[int]]:
        """Tree and views of the arguments, without making their data."""
        tensors: list[Any] = []
        tree = wire.flatten(list(make_inputs(self.spec, 0, "meta", self.dims)), tensors)
        return {"tree": tree, "inputs": [wire.describe(t) for t in tensors]}, []

    def case(self, message: dict[str, Any]) -> tuple[dict[str, Any], list[int]]:
        """Describe case ``case`` (made on first use): tree, views, blocks. Inputs are restored and output blocks poisoned."""
        number = message["case"]
        begin = time.perf_counter()
        if number not in self.cases:
            self.cases[number] = cases.build_case(self.spec, self.model, self.device, message["seed"], self.dims)
        case = self.cases[number]
        if number not in self.shared:
            self.shared[number] = self._share(case)
        _, described, fds = self.shared[number]
        self._restore(number)
        return {
            "tree": case.argument_tree,
            "inputs": [wire.describe(t) for t in case.pristine],
            "outputs": [wire.describe(t) for t in case.outputs],
            "blocks": described,
            "bytes": sum(wire.nbytes(t) for t in [*case.pristine, *case.outputs]),
            "inputs_may_change": case.inputs_may_change,
            "seconds": time.perf_counter() - begin,
        }, fds

    def _share(self, case: cases.Case) -> Shared:
        """Blocks for a case's inputs and outputs, one each, with their descriptions and the descriptors of host blocks."""
        blocks: list[Any] = []
        described: list[dict[str, Any]] = []
        fds: list[int] = []
        for tensor in [*case.pristine, *case.outputs]:
            size = wire.nbytes(tensor)
            if self.ipc:
                from evaluators.judge import wire_cuda

                block, handle = wire_cuda.allocate(size)
                described.append({"bytes": size, "handle": handle})
            else:
                block, fd = wire_host.allocate(size)
                described.append({"bytes": size, "fd": len(fds)})
                fds.append(fd)
            blocks.append(block)
        return blocks, described, fds

    def _restore(self, number: int) -> None:
        case, (blocks, _, _) = self.cases[number], self.shared[number]
        for tensor, block in zip(case.pristine, blocks, strict=False):
            wire.copy_storage(tensor if block.device == tensor.device else tensor.to(block.device), block)
        for block in blocks[len(case.pristine) :]:
            block.fill_(OUTPUT_POISON)
        if self.device.type == "cuda":
            torch.cuda.synchronize()

    def restore(self, message: dict[str, Any]) -> tuple[dict[str, Any], list[int]]:
        """Give a case's inputs their values again and poison its output blocks."""
        self._restore(message["case"])
        return {}, []

    def check(self, message: dict[str, Any]) -> tuple[dict[str, Any], list[int]]:
        """Compare what the candidate left in a case's output blocks; poison them again afterwards."""
        case, (blocks, _, _) = self.cases[message["case"]], self.shared[message["case"]]
        count = len(case.pristine)
        form = form_problem(case, message["reply"])
        if form:
            return {"ok": False, "status": form[0], "detail": form[1]}, []
        if not case.inputs_may_change:
            for index, (tensor, block) in enumerate(zip(case.pristine, blocks[:count], strict=True)):
                now = wire.view(block, wire.describe(tensor)).to(self.device)
                if not cases.same(now, tensor):
                    self._restore(message["case"])
                    return {
                        "ok": False,
                        "status": "mismatch",
                        "detail": f"input tensor {index} was modified; the reference does not",
                    }, []
        values = [
            wire.view(b, wire.describe(t)).to(self.device) for b, t in zip(blocks[count:], case.outputs, strict=True)
        ]
        found = cases.compare(case, values, self.spec)
        for block in blocks[count:]:
            block.fill_(OUTPUT_POISON)
        if self.device.type == "cuda":
            torch.cuda.synchronize()
        return {**found, "status": "correct" if found["ok"] else "mismatch"}, []

    def compile(self, message: dict[str, Any]) -> tuple[dict[str, Any], list[int]]:
        """Compile the reference with torch.compile and run it once; ``failed`` says why it could not."""
        begin = time.perf_counter()
        mode = message["mode"]
        try:
            self.compiled = torch.compile(self.model, mode=None if mode == "default" else mode)
            arguments = self._timing_arguments(message["case"])
            with torch.no_grad():
                self.compiled(*arguments)
                self.compiled(*arguments)
            if self.device.type == "cuda":
                torch.cuda.synchronize()
        except Exception as error:
            self.compiled = None
            return {"failed": f"{type(error).__name__}: {str(error)[:300]}"}, []
        return {"seconds": time.perf_counter() - begin}, []

    def time(self, message: dict[str, Any]) -> tuple[dict[str, Any], list[int]]:
        """A batch of baseline calls over rotating cases."""
        order = message["cases"]
        call = None if message.get("empty") else self.compiled if message["baseline"] == "compile" else self.model
        _, events = batch.run_batch(
            call, [self._timing_arguments(c) for c in order], message["calls"], message["offset"], self.flush
        )
        return {"events_ms": events}, []

    def _timing_arguments(self, number: int) -> Any:
        """The case's inputs as the candidate sees them: in the shared blocks, where these are on the device."""
        case, (blocks, _, _) = self.cases[number], self.shared[number]
        count = len(case.pristine)
        on_device = all(block.device.type == self.device.type for block in blocks[:count])
        views = [wire.view(b, wire.describe(t)) for b, t in zip(blocks, case.pristine, strict=False)]
        return wire.rebuild(case.argument_tree, views if on_device else case.pristine)


def form_problem(case: cases.Case, reply: dict[str, Any]) -> tuple[str, str] | None:
    """Status and message where a result's form, shapes, dtypes or devices are not the reference's; the reply is not trusted further."""
    if "unsupported" in reply:
        return "wrong_dtype", str(reply["unsupported"])[:300]
    try:
        if wire.skeleton(reply["tree"]) != wire.skeleton(case.result_tree):
            return (
                "wrong_shape",
                f"forward's result has another form than the reference's ({len(case.outputs)} tensor(s))",
            )
        for index, (found, want) in enumerate(zip(reply["outputs"], case.outputs, strict=True)):
            shape, dtype = list(want.shape), wire.name(want.dtype)
            if found["shape"] != shape:
                return "wrong_shape", f"output {index} has shape {found['shape']}, expected {shape}"
            if found["dtype"] != dtype:
                return "wrong_dtype", f"output {index} has dtype {found['dtype']}, expected {dtype}"
            if found["device"] != want.device.type:
                return "wrong_dtype", f"output {index} is on {found['device']}, expected {want.device.type}"
    except (KeyError, TypeError, ValueError, AttributeError):
        return "tampering", "the worker's reply about its outputs is malformed"
    return None


def main(fd: int) -> None:
    """Serve the judge until it closes its end."""
    die_with_parent()
    channel = Channel(socket.socket(fileno=fd))
    oracle = Oracle()
    channel.send({"op": "ready"})
    while True:
        try:
            message = channel.receive()
        except Closed:
            return
        fds: list[int] = []
        try:
            reply, fds = getattr(oracle, message["op"])(message)
        except (JudgeError, EvaluatorError) as error:
            reply = {"refused": "infrastructure", "message": str(error)}
        except torch.OutOfMemoryError as error:
            reply = {
                "refused": "out_of_memory",
                "message": f"the reference's process is out of device memory: {str(error)[:300]}",
            }
        except Exception as error:
            tail = traceback.format_exc().splitlines()[-6:]
            reply = {"refused": "infrastructure", "message": f"{type(error).__name__}: {error}\n" + "\n".join(tail)}
        channel.send(reply, fds)
        if message["op"] == "parameters":
            for descriptor in fds:
                os.close(descriptor)


if __name__ == "__main__":
    main(int(sys.argv[1]))
