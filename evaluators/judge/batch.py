"""The inner loop of timing, the same code in the candidate's worker and in the baseline's process."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch


class Flush:
    """Evicts the device's L2 cache by writing a buffer of at least twice its size."""

    def __init__(self, nbytes: int) -> None:
        self.buffer = torch.empty(max(nbytes, 4), dtype=torch.int8, device="cuda")

    def __call__(self) -> None:
        self.buffer.zero_()


def run_batch(
    call: Callable[..., Any] | None, arguments: Sequence[Sequence[Any]], calls: int, offset: int, flush: Flush | None
) -> tuple[dict[int, Any], float | None]:
    """``calls`` calls in a row over rotating argument sets, beginning with set ``offset``; returns after the device is idle.

    Gives the last result per set, and the summed device-event time of the calls in milliseconds (``None`` on a CPU), which leaves the
    flushes out. With ``call=None`` only the flushes run: their wall-clock time is what the judge subtracts.
    """
    last: dict[int, Any] = {}
    sets = len(arguments)
    with torch.no_grad():
        if not torch.cuda.is_initialized():
            for i in range(offset, offset + calls):
                last[i % sets] = call(*arguments[i % sets]) if call is not None else None
            return last, None
        begins = [torch.cuda.Event(enable_timing=True) for _ in range(calls)]
        ends = [torch.cuda.Event(enable_timing=True) for _ in range(calls)]
        for k in range(calls):
            i = offset + k
            if flush is not None:
                flush()
            begins[k].record()
            if call is not None:
                last[i % sets] = call(*arguments[i % sets])
            ends[k].record()
        torch.cuda.synchronize()
    return last, sum(b.elapsed_time(e) for b, e in zip(begins, ends, strict=True))
