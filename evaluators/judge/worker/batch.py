"""The inner loop of timing, the same code in the candidate's worker and in the baseline's process."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

import torch

from evaluators.judge.memory import arena, wire
from evaluators.judge.memory.page import COUNT, FIRST, PAGE_WORDS, STOP, Page

_PAUSE_CYCLES = 1_500_000
"""Clock cycles of the device that a batch begins with: about 0.8 ms, twice what a first launch was seen to take."""


class Batcher:
    """Runs batches of calls on one device.

    On a GPU every call is preceded by a flush: a write of ``flush_bytes`` (more than twice the L2 cache), which leaves the cache cold
    and is kept out of the device events around the call; not so where each call's own data displace as much. Every batch begins with a
    pause of the device: a process that was stopped needs several times as long for its first launch as for later ones, and would else
    keep the device waiting. Events are made once and used again, so that a batch's wall-clock time holds none of that.
    """

    def __init__(self, device: torch.device, flush_bytes: int, page: Page | None = None) -> None:
        self.page = page or Page(bytearray(8 * PAGE_WORDS))
        self.device, self.cuda = device, device.type == "cuda"
        self.flush = torch.empty(flush_bytes, dtype=torch.int8, device=device) if self.cuda and flush_bytes else None
        self.sets: list[Any] = []
        """Arguments of the calls, a set for each."""
        self.copies: tuple[Any, Any] | None = None
        """The block of all sets, and its copy on a device that the block is not on."""
        self.last: dict[int, Any] = {}
        """Results of the last batch, by set."""
        self.begins: list[Any] = []
        self.ends: list[Any] = []
        self.used = 0

    def stock(self, about: dict[str, Any], block: Any) -> None:
        """Take over the input sets that lie in ``block`` as ``about`` describes them."""
        if block.device.type != self.device.type:
            self.copies = (block, block.to(self.device))
            block = self.copies[1]
        self.sets = arena.arguments(about["tree"], arena.Layout.from_json(about["layouts"][0]), block, about["count"])
        if not about["flush"]:
            self.flush = None
        int(block[::4096].sum())  # maps every page of it: no timed call has to

    def renew(self) -> None:
        """Fetch the input sets again, where they have to be copied to the device."""
        if self.copies is not None:
            self.copies[1].copy_(self.copies[0])

    def batch(self, call: Callable[..., Any], asked: dict[str, Any]) -> None:
        """The batch that was ``asked`` for; its results are kept until the next one."""
        self.last.clear()
        self.last = self.run(None if asked["empty"] else call, self.sets, asked["calls"], asked["offset"])

    def run(
        self, call: Callable[..., Any] | None, arguments: Sequence[Sequence[Any]], calls: int, offset: int
    ) -> dict[int, Any]:
        """``calls`` calls in a row, each on another argument set, from set ``offset`` on; returns when the device is idle.

        Gives the result of each set. With ``call=None`` only pause and flushes run: what the judge subtracts. After each call the page
        holds where its result lies; all results of a batch are kept until it ends.
        """
        last: dict[int, Any] = {}
        sets = len(arguments)
        page, words, outputs = self.page, self.page.words, self.page.outputs
        page.clear(sets)
        with torch.no_grad():
            if self.cuda:
                torch.cuda._sleep(_PAUSE_CYCLES)
                while len(self.begins) < calls:
                    self.begins.append(torch.cuda.Event(enable_timing=True))
                    self.ends.append(torch.cuda.Event(enable_timing=True))
            for done in range(calls):
                i = (offset + done) % sets
                if self.cuda:
                    if self.flush is not None:
                        self.flush.zero_()
                    self.begins[done].record()
                if call is not None:
                    result = call(*arguments[i])
                    if type(result) is torch.Tensor:
                        words[FIRST + i * outputs] = result.data_ptr()
                    else:
                        _put_down(result, words, FIRST + i * outputs, outputs)
                    last[i] = result
                if self.cuda:
                    self.ends[done].record()
                words[COUNT] = self.used = done + 1
                if words[STOP]:
                    break
            if self.cuda:
                torch.cuda.synchronize()
        return last

    def events_ms(self) -> float | None:
        """Device-event milliseconds of the last batch's calls together, without the flushes; ``None`` on a CPU."""
        if not self.cuda:
            return None
        return float(
            sum(b.elapsed_time(e) for b, e in zip(self.begins[: self.used], self.ends[: self.used], strict=True))
        )


def _put_down(result: Any, words: Any, begin: int, most: int) -> None:
    """Write the places of a result's first tensors, ``most`` of them, into ``words`` from ``begin`` on."""
    tensors: list[Any] = []
    with contextlib.suppress(TypeError):
        wire.flatten(result, tensors)
    for index, tensor in enumerate(tensors[:most]):
        words[begin + index] = tensor.data_ptr()
