"""The page on which a running batch puts down how far it is: memory that a timed process and the judge share."""

from __future__ import annotations

import contextlib
import fcntl
from typing import Any

_SEALS = 1024 + 9, 0x0002 | 0x0004  # F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW
PAGE_WORDS = 4096
COUNT, STOP, FIRST = 0, 1, 2
TRACKED = 128
"""Output tensors of a result whose places are put down."""
_NOTHING = memoryview(bytes(8 * PAGE_WORDS)).cast("Q")


class Page:
    """A batch's progress, in memory that the judge reads while the batch runs: how many calls are done, and where the last result of
    each set lies. With ``stop`` set the batch ends after the call it is in."""

    def __init__(self, memory: Any) -> None:
        self.words = memoryview(memory).cast("B").cast("Q")

    @property
    def count(self) -> int:
        return self.words[COUNT]

    @property
    def stop(self) -> bool:
        return bool(self.words[STOP])

    @stop.setter
    def stop(self, value: bool) -> None:
        self.words[STOP] = int(value)

    def places(self, number: int) -> list[int]:
        """Addresses of the last result of set ``number``: one for each of its first tensors, 0 where there is none yet."""
        begin = FIRST + number * TRACKED
        return list(self.words[begin : begin + TRACKED])

    def clear(self) -> None:
        """Forget the last batch."""
        self.words[FIRST:] = _NOTHING[FIRST:]
        self.words[COUNT] = 0


def seal(fd: int) -> None:
    """Fix the size of a memory file, so that the other side cannot shrink it under this side's feet."""
    # Some sandboxed kernels lack seals; a shrunk file kills its reader, which is noticed.
    with contextlib.suppress(OSError):
        fcntl.fcntl(fd, *_SEALS)
