"""Reading a stopped worker's results out of its memory: nothing of the candidate runs between the clock's end and this look."""

from __future__ import annotations

import math
import os
from typing import Any

from evaluators.judge.memory import fence
from evaluators.judge.processes import procfs
from evaluators.judge.processes.processes import Failed

_SPREAD = 8
"""How many times its own bytes an output with gaps may span."""
_SMALL = 64 << 20


class Blocks:
    """The shared blocks for a candidate's outputs, as the judge fills them from a worker's memory."""

    def __init__(self) -> None:
        self.cases: dict[int, list[tuple[dict[str, Any], int, memoryview]]] = {}

    def add(self, number: int, case: dict[str, Any], fds: list[int]) -> None:
        """Keep the output blocks of a described case; the descriptors stay the caller's."""
        described = case["blocks"][len(case["inputs"]) :]
        self.cases[number] = [
            (about, block["bytes"], fence.memory(fds[block["fd"]], block["bytes"]))
            for about, block in zip(case["outputs"], described, strict=True)
        ]

    def holds_any(self, number: int) -> bool:
        """Whether results of case ``number`` have any bytes."""
        return any(size for _, size, _ in self.cases[number])

    def fill(self, pid: int, number: int, outputs: list[dict[str, Any]]) -> None:
        """Copy the outputs that a stopped worker describes (shape, stride, dtype, ``at``) into the blocks of case ``number``.

        Those of another shape or dtype than expected are left for the form to be refused. Raises :class:`Failed` where there is no
        such memory.
        """
        for found, (about, size, area) in zip(outputs, self.cases[number], strict=False):
            if found["shape"] != about["shape"] or found["dtype"] != about["dtype"] or not size:
                continue
            if len(found["stride"]) != len(found["shape"]):
                raise Failed("tampering", "the worker describes an output that cannot be")
            try:
                _copy(pid, found, size, area)
            except OSError:
                raise Failed("tampering", "there is no memory where the worker says that a result lies") from None


def _copy(pid: int, found: dict[str, Any], size: int, area: memoryview) -> None:
    shape, stride = found["shape"], found["stride"]
    item = size // math.prod(shape)
    span = item * (sum((n - 1) * step for n, step in zip(shape, stride, strict=True)) + 1)
    packed = all(
        n == 1 or step == math.prod(shape[axis + 1 :]) for axis, (n, step) in enumerate(zip(shape, stride, strict=True))
    )
    if packed:
        procfs.read_memory(pid, found["at"], area)
        return
    if span > max(_SPREAD * size, _SMALL):
        raise Failed("wrong_shape", f"an output of {size} bytes is spread over {span}: return it contiguous")
    import numpy as np

    buffer = bytearray(span)
    procfs.read_memory(pid, found["at"], buffer)
    kind = np.dtype(f"V{item}")
    view = np.lib.stride_tricks.as_strided(np.frombuffer(buffer, kind, 1), shape, [step * item for step in stride])
    np.frombuffer(area, kind, size // item).reshape(shape)[...] = view


def word() -> str:
    """A word nobody can guess, by which it is found out whether a worker's memory can be read."""
    return os.urandom(16).hex()


def readable(pid: int, address: int, expected: str) -> bool:
    """Whether the judge may read a worker's memory: it finds ``expected`` there."""
    found = bytearray(len(expected))
    try:
        procfs.read_memory(pid, address, found)
    except OSError:
        return False
    return bytes(found) == expected.encode()
