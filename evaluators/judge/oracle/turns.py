"""The oracle's part in timing: the input sets that both sides run on, and what is right in a timed call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import psutil
import torch

from evaluators.errors import JudgeError
from evaluators.judge.memory import arena, wire
from evaluators.judge.memory.sharing import OUTPUT_POISON, share_bytes
from evaluators.judge.oracle.cases import Case
from evaluators.judge.oracle.stock import Stock, eager_ms, worth
from evaluators.spec.kernel_spec import KernelSpec

_SHARE = 4
"""At most one part in this many of a device's memory is for input sets and their results: other judges may use the same device."""


class Turns:
    """The :class:`Stock` of input sets for both sides, on one device."""

    def __init__(self, flush_bytes: int, device: torch.device, ipc: bool) -> None:
        self.flush_bytes, self.device, self.ipc = flush_bytes, device, ipc
        self.stock: Stock | None = None
        self.flush = True
        """Whether calls are preceded by a flush, where the device has any."""
        self.inputs, self.described, self.fds = share_bytes([], ipc)
        self.results: Any = None
        """A block for the results of all sets, where a worker has to hand them over."""

    def stock_up(
        self, spec: KernelSpec, model: Any, dims: Mapping[str, int] | None, known: list[Case], batch_ms: float, outputs: bool
    ) -> tuple[dict[str, Any], list[int]]:  # fmt: skip
        """The input sets, made on first use from known cases: enough for batches of ``batch_ms``. With ``outputs``, also a block for all
        their results. Gives their description and descriptors."""
        first = known[0]
        if self.stock is None:
            layout = arena.Layout.of([wire.describe(t) for t in first.inputs], [wire.nbytes(t) for t in first.inputs])
            given = wire.rebuild(first.argument_tree, [t.clone() for t in first.inputs])
            with torch.no_grad():
                eager = eager_ms(lambda: model(*given), self._settle)
            # On a device the results lie there three times: each side's own, and what the candidate's are copied to.
            produced = sum(t.numel() * t.element_size() for t in first.outputs)
            each = layout.pitch + (3 if self.ipc else 1) * produced
            count = worth(eager, batch_ms, each, self._room())
            frozen = not first.inputs_may_change  # a timed call that writes to an input is killed
            self.inputs, self.described, self.fds = share_bytes([layout.pitch * count], self.ipc, frozen)
            self.stock = Stock(spec, model, self.device, dims, known, count, self.inputs[0], layout)
            # No need for flushes where what a call reads was displaced by other calls since it was last touched.
            self.flush = count == 1 or layout.pitch + produced < self.flush_bytes
            self._settle()
        made = self.stock
        if outputs and made.outputs is None:
            plain = [wire.plain(t) for t in first.outputs]
            made.outputs = arena.Layout.of(plain, [t.numel() * t.element_size() for t in first.outputs])
            (self.results,), about, fds = share_bytes([made.outputs.pitch * made.count], self.ipc)
            self.described = [*self.described, {**about[0], **({"fd": 1} if fds else {})}]
            self.fds = [*self.fds, *fds]
        return {
            "count": made.count,
            "flush": self.flush,
            "tree": first.argument_tree,
            "layouts": [layout.to_json() for layout in (made.layout, made.outputs) if layout is not None],
            "blocks": self.described,
        }, self.fds

    def refresh(self, begin: int, calls: int, watch: Sequence[int]) -> None:
        """Change the inputs of ``calls`` sets from set ``begin`` on; what results for those in ``watch`` will be asked for."""
        made = self._made()
        made.refresh(begin, calls, watch)
        if made.outputs is not None:
            for number in watch:
                for tensor in made.outputs.views(self.results, number):
                    wire.fill(tensor, OUTPUT_POISON)
        self._settle()

    def judge(self, number: int, values: list[Any] | None, thorough: bool) -> dict[str, Any]:
        """The verdict on one timed call's results: ``values``, or what was handed over."""
        made = self._made()
        if values is None:
            if made.outputs is None:
                raise JudgeError("results were asked for that have no place")
            values = made.outputs.views(self.results, number)
        return made.judge(number, [v.to(self.device) for v in values], thorough)

    def _made(self) -> Stock:
        if self.stock is None:
            raise JudgeError("input sets were asked for before they were made")
        return self.stock

    def _settle(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize()

    def _room(self) -> int:
        """Bytes for the input sets of timed batches and their results."""
        if self.ipc:
            torch.cuda.empty_cache()
            # What computing expected results took at most, beside what is kept, it will take again.
            needed = int(torch.cuda.max_memory_allocated()) - int(torch.cuda.memory_allocated())
            free, total = torch.cuda.mem_get_info()
            return max(min((int(free) - needed) // 2, int(total) // _SHARE), 0)
        return min(512 << 20, int(psutil.virtual_memory().total) // 16)
