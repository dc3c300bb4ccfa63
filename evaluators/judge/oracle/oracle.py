"""The oracle's process: makes inputs, holds what is expected, and compares.

Run as ``python -m evaluators.judge.oracle.oracle FD``. No candidate code ever runs here.
"""

from __future__ import annotations

import functools
import sys
import time
from typing import Any

import psutil
import torch

from evaluators.errors import SpecError
from evaluators.judge.memory import wire
from evaluators.judge.memory.sharing import OUTPUT_POISON, Shared, share
from evaluators.judge.oracle import cases, hard, variants
from evaluators.judge.oracle.form import form_problem
from evaluators.judge.oracle.local import DRAWS
from evaluators.judge.oracle.turns import Turns
from evaluators.judge.processes.device import set_up
from evaluators.judge.processes.serving import serve
from evaluators.spec.calls import build_call, forward_of, make_arguments, upstream
from evaluators.spec.kernel_spec import KernelSpec
from evaluators.spec.model import constructor_arguments

LARGE = 1 << 30
"""Bytes of a case's inputs from which on only the shared copy is kept."""
QUICK_S = 0.5
"""Seconds that making the case before may have taken for each element of the next to get a bound of its own."""
SLOW_S = 5.0
"""Seconds that making a case may take for hard inputs to be tried."""


class Oracle:
    """State of the reference's process for one spec on one device."""

    def __init__(self) -> None:
        self.device = torch.device("cpu")
        self.spec: KernelSpec
        self.seed = 0
        self.dims: dict[str, int] | None = None
        self.cases: dict[int, cases.Case] = {}
        self.shared: dict[int, Shared] = {}
        self.shared_parameters: Shared | None = None
        self.turns: Turns
        self.ipc = False
        self.opened: dict[str, Any] = {}
        self.elsewhere: dict[str, Oracle] = {}
        self.made_s = 0.0
        self.beyond = False
        """Whether this is a variant: other sizes, parameters or inputs than the spec's own."""
        self.moved: list[Any] | None = None
        """The conditioning of each output, once it is known."""
        self.unhard = ""
        """Why there are no hard inputs, once that is known."""

    def open(self, message: dict[str, Any]) -> tuple[dict[str, Any], list[int]]:
        """Take the spec; describe the constructor's arguments."""
        self.opened = message
        self.spec = KernelSpec.from_json(message["spec"])
        self.device = set_up(message["device"], message["threads"], self.spec.precision)
        self.dims = message["dims"]
        self.ipc = bool(message["ipc"]) and self.device.type == "cuda"
        self.turns = Turns(message["flush_bytes"], self.device, self.ipc)
        self.seed = message["seed"]
        about = {"device": "cpu"}
        if self.device.type == "cuda":
            about = {"device": torch.cuda.get_device_name(), "uuid": str(torch.cuda.get_device_properties().uuid)}
        environment = {"torch": torch.__version__, "cuda": str(torch.version.cuda), **about}
        return {**self.constructor(message)[0], "environment": environment}, []

    def at(self, dims: dict[str, int] | None, variant: str | None = None) -> Oracle:
        """The state for other sizes of the same spec, or for a variant of it; this one for ``None``."""
        if variant is not None:
            return self.elsewhere[variant]
        if dims is None:
            return self
        key = repr(sorted(dims.items()))
        if key not in self.elsewhere:
            other = Oracle()
            other.open({**self.opened, "dims": dims})
            other.beyond = True
            self.elsewhere[key] = other
        return self.elsewhere[key]

    def beside(self, variant: str, changed: dict[str, Any]) -> Oracle:
        """A fresh state that is known as ``variant``, opened like this one but for what is changed."""
        other = self.elsewhere[variant] = Oracle()
        other.open({**self.opened, **changed})
        other.beyond = True
        return other

    def variant(self, message: dict[str, Any]) -> tuple[dict[str, Any], list[int]]:
        """Make a variant, or find out whether one is needed: see the function of that name in :mod:`evaluators.judge.oracle.variants`."""
        return getattr(variants, message["name"])(self, message), []

    def constructor(self, message: dict[str, Any]) -> tuple[dict[str, Any], list[int]]:
        """The constructor's arguments, and how many gradients arrive from above."""
        args, kwargs = constructor_arguments(self.spec, self.dims)
        above = len(upstream(self.spec, self.dims)) if self.spec.direction != "forward" else 0
        plain = {"arguments": wire.flatten(list(args), []), "keywords": wire.flatten(dict(kwargs), [])}
        return {**plain, "upstream": above}, []

    @functools.cached_property
    def model(self) -> Any:
        """The reference, built when it is first needed."""
        return build_call(self.spec, self.device, seed=self.seed, dims=self.dims)

    def parameters(self, message: dict[str, Any]) -> tuple[dict[str, Any], list[int]]:
        """The reference's parameters and buffers, copied afresh to one shared block each."""
        state = {
            **dict(
                forward_of(self.model).named_parameters(remove_duplicate=False)
            ),  # tied ones under each of their names
            **dict(forward_of(self.model).named_buffers(remove_duplicate=False)),
        }
        tensors = [t.detach() for t in state.values()]
        if self.shared_parameters is None:
            self.shared_parameters = share(tensors, self.ipc)
        blocks, described, fds = self.shared_parameters
        for tensor, block in zip(tensors, blocks, strict=True):
            _fill(block, tensor)
        about = [
            {"name": n, "block": i, **wire.describe(t)} for i, (n, t) in enumerate(zip(state, tensors, strict=True))
        ]
        self._settle()
        return {"parameters": about, "blocks": described}, fds

    def describe(self, message: dict[str, Any]) -> tuple[dict[str, Any], list[int]]:
        """Tree and views of the arguments, without making their data."""
        tensors: list[Any] = []
        tree = wire.flatten(list(make_arguments(self.spec, 0, "meta", self.dims)), tensors)
        return {"tree": tree, "inputs": [wire.describe(t) for t in tensors]}, []

    def elements(self, message: dict[str, Any]) -> tuple[dict[str, Any], list[int]]:
        """Elements of all inputs and parameters together at ``dims``; None where the spec does not work at these."""
        try:
            return {"elements": cases.elements(self.spec, message["dims"])}, []
        except SpecError:
            return {"elements": None}, []

    def case(self, message: dict[str, Any]) -> tuple[dict[str, Any], list[int]]:
        """Describe case ``case`` (made on first use): tree, views, blocks. Inputs are restored and output blocks poisoned."""
        number = message["case"]
        if number not in self.cases:
            if self.unhard and message["hard"]:
                return {"none": self.unhard}, []
            case = self._make(message["seed"], message["hard"])
            if case is None:
                return {"none": self.unhard}, []
            self.cases[number] = case
            self.shared[number] = share([*case.inputs, *case.outputs], self.ipc)
            blocks = self.shared[number][0]
            for tensor, block in zip(case.inputs, blocks, strict=False):
                _fill(block, tensor)
            if sum(map(wire.nbytes, case.inputs)) > LARGE and self._on_device(blocks) and not message["hard"]:
                # Keep one copy, the shared one, and know it by its fingerprint.
                case.inputs = [wire.view(b, wire.describe(t)) for b, t in zip(blocks, case.inputs, strict=False)]
                case.fingerprints = list(map(cases.fingerprint, case.inputs))
        case = self.cases[number]
        _, described, fds = self.shared[number]
        self._restore(number)
        return {
            "tree": case.argument_tree,
            "inputs": [wire.describe(t) for t in case.inputs],
            "outputs": [wire.plain(t) for t in case.outputs],
            "blocks": described,
            "affordable": self.affordable(case),
            "words": case.words,
            "inputs_may_change": case.inputs_may_change,
            "aliases": case.aliases,
        }, fds

    def _make(self, seed: int, harder: bool) -> cases.Case | None:
        """A case; of hard inputs the hardest on which the reference is finite and a verdict means something, if there are any."""
        begin = time.perf_counter()
        if not harder:
            # Later sets have bounds of single elements where that takes no time to speak of.
            draws = DRAWS if self.moved is None or self.quick() else 0
            case = cases.build_case(self.spec, self.model, self.device, seed, self.dims, self.moved, draws=draws)
            self.moved = self.moved or case.moved
            if self.beyond:
                case.relax()
            self.made_s = time.perf_counter() - begin
            return case
        if self.slow() or self.affordable(next(iter(self.cases.values()))) <= len(self.cases):
            self.unhard = "they would take too long or too much memory"
            return None
        found = hard.hardest(self.spec, self.model, self.device, self.dims, seed)
        if found is None:
            self.unhard = "none on which the reference is finite and held to a limit"
        return found

    def quick(self) -> bool:
        """Whether a case more costs nothing to speak of."""
        return self.made_s < QUICK_S

    def slow(self) -> bool:
        """Whether cases take too long for more of them to be made than the spec's own."""
        return self.made_s > SLOW_S

    def memory(self) -> int:
        """Bytes of the device's memory."""
        return int(torch.cuda.mem_get_info()[1] if self.device.type == "cuda" else psutil.virtual_memory().total)

    def affordable(self, case: cases.Case) -> int:
        """How many cases like this one half of the device's memory holds: inputs, output blocks, float64 results and one kept output."""
        held = sum(map(wire.nbytes, case.inputs)) + sum(t.numel() * (2 * t.element_size() + 8) for t in case.outputs)
        return max(1, self.memory() // 2 // max(int(held), 1))

    def _on_device(self, blocks: list[Any]) -> bool:
        return all(block.device.type == self.device.type for block in blocks)

    def _settle(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize()

    def _restore(self, number: int) -> None:
        """Give a case's inputs their values again where a candidate changed them, and poison its output blocks."""
        case, (blocks, _, _) = self.cases[number], self.shared[number]
        if case.fingerprints is None:
            for tensor, block in zip(case.inputs, blocks, strict=False):
                _fill(block, tensor)
        elif not all(self._untouched(case, blocks[i], i) for i in range(len(case.inputs))):
            again: list[Any] = []
            wire.flatten(list(make_arguments(self.spec, case.seed, self.device, self.dims)), again)
            for tensor, block in zip(again, blocks, strict=False):
                _fill(block, tensor)
        for block in blocks[len(case.inputs) :]:
            block.fill_(OUTPUT_POISON)
        self._settle()

    def _untouched(self, case: cases.Case, block: Any, index: int) -> bool:
        """Whether the shared block of an input tensor still holds what it held."""
        tensor = case.inputs[index]
        if case.fingerprints is not None:
            return cases.fingerprint(tensor) == case.fingerprints[index]
        return cases.same(wire.view(block, wire.describe(tensor)).to(self.device), tensor)

    def _inputs_problem(self, case: cases.Case, blocks: list[Any]) -> str:
        """What is wrong with the inputs after a call: each is as it was, or as the reference leaves it. Empty where nothing is."""
        for index, (tensor, block) in enumerate(zip(case.inputs, blocks, strict=False)):
            if self._untouched(case, block, index):
                continue
            if index not in case.after:
                return f"input tensor {index} was modified; the reference does not"
            found = case.after[index].judge(wire.view(block, wire.describe(tensor)).to(self.device), None)
            if not found.ok:
                return (
                    f"input tensor {index}, which the reference changes too, is neither as it was nor as the reference leaves it: "
                    f"{found.detail}"
                )
        return ""

    def check(self, message: dict[str, Any]) -> tuple[dict[str, Any], list[int]]:
        """Compare what the candidate left in a case's output blocks, and look whether its inputs are untouched; poison the blocks again
        afterwards."""
        case, (blocks, _, _) = self.cases[message["case"]], self.shared[message["case"]]
        form = form_problem(case, message["reply"], self.device.type)
        if form:
            return {"ok": False, "status": form[0], "detail": form[1]}, []
        problem = self._inputs_problem(case, blocks)
        if problem:
            self._restore(message["case"])
            return {"ok": False, "status": "mismatch", "detail": problem}, []
        outputs = blocks[len(case.inputs) :]
        values = [wire.view(b, wire.plain(t)).to(self.device) for b, t in zip(outputs, case.outputs, strict=True)]
        found = cases.compare(case, values, self.spec)
        for block in outputs:
            block.fill_(OUTPUT_POISON)
        self._settle()
        return {**found, "status": "correct" if found["ok"] else "mismatch"}, []

    def stock(self, message: dict[str, Any]) -> tuple[dict[str, Any], list[int]]:
        """Describe the input sets of timed batches, made from the first ``cases`` cases on first use."""
        known = [self.cases[k] for k in sorted(self.cases) if k < message["cases"]]
        return self.turns.stock_up(self.spec, self.model, self.dims, known, message["batch_ms"], message["outputs"])

    def refresh(self, message: dict[str, Any]) -> tuple[dict[str, Any], list[int]]:
        """Change the inputs of the coming batch; the results of the sets in ``watch`` will be asked for."""
        self.turns.refresh(message["begin"], message["calls"], message["watch"])
        return {}, []

    def timed(self, message: dict[str, Any]) -> tuple[dict[str, Any], list[int]]:
        """The verdict on one call of a timed batch: on set ``set``, whose results lie in the blocks of case ``case``, or, where they were
        ``delivered``, in the block for all results."""
        if message["delivered"]:
            return self.turns.judge(message["set"], None, message["thorough"]), []
        case = self.cases[message["case"]]
        form = form_problem(case, message["reply"], self.device.type)
        if form:
            return {"ok": False, "status": form[0], "detail": form[1]}, []
        blocks = self.shared[message["case"]][0][len(case.inputs) :]
        found = self.turns.judge(
            message["set"],
            [wire.view(b, wire.plain(t)) for b, t in zip(blocks, case.outputs, strict=True)],
            message["thorough"],
        )
        for block in blocks:
            block.fill_(OUTPUT_POISON)
        self._settle()
        return found, []


def _fill(block: Any, tensor: Any) -> None:
    """Copy a tensor's memory into a block, across devices where need be."""
    wire.copy_storage(wire.moved(tensor, block.device), block)


if __name__ == "__main__":
    oracle = Oracle()
    serve(
        int(sys.argv[1]),
        lambda message, fds: getattr(oracle.at(message.get("sizes"), message.get("variant")), message["op"])(message),
    )
