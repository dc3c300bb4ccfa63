"""The inner loop of timing, the same code in the candidate's worker and in the baseline's process."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch


class Batcher:
    """Runs batches of calls on one device.

    On a GPU every call is preceded by a flush: a write of ``flush_bytes`` (more than twice the L2 cache), which leaves the cache cold
    and is kept out of the device events around the call. Events are made once and used again, so that a batch's wall-clock time
    holds none of that.
    """

    def __init__(self, device: torch.device, flush_bytes: int) -> None:
        self.cuda = device.type == "cuda"
        self.flush = torch.empty(flush_bytes, dtype=torch.int8, device=device) if self.cuda and flush_bytes else None
        self.begins: list[Any] = []
        self.ends: list[Any] = []
        self.used = 0

    def run(
        self, call: Callable[..., Any] | None, arguments: Sequence[Sequence[Any]], calls: int, offset: int
    ) -> dict[int, Any]:
        """``calls`` calls in a row over rotating argument sets, from set ``offset`` on; returns when the device is idle.

        Gives the last result of each set. With ``call=None`` only the flushes run: what the judge subtracts.
        """
        last: dict[int, Any] = {}
        sets = len(arguments)
        with torch.no_grad():
            if not self.cuda:
                for i in range(offset, offset + calls):
                    last[i % sets] = call(*arguments[i % sets]) if call is not None else None
                return last
            while len(self.begins) < calls:
                self.begins.append(torch.cuda.Event(enable_timing=True))
                self.ends.append(torch.cuda.Event(enable_timing=True))
            self.used = calls
            for k in range(calls):
                i = (offset + k) % sets
                if self.flush is not None:
                    self.flush.zero_()
                self.begins[k].record()
                if call is not None:
                    last[i] = call(*arguments[i])
                self.ends[k].record()
            torch.cuda.synchronize()
        return last

    def events_ms(self) -> float | None:
        """Device-event milliseconds of the last batch's calls together, without the flushes; ``None`` on a CPU."""
        if not self.cuda:
            return None
        return float(
            sum(b.elapsed_time(e) for b, e in zip(self.begins[: self.used], self.ends[: self.used], strict=True))
        )
