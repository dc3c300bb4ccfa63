"""The page on which a running batch puts down how far it is: memory that a timed process and the judge share."""

from __future__ import annotations

import contextlib
import fcntl
from typing import Any

_ADD_SEALS = 1024 + 9
_SIZE = 0x0002 | 0x0004  # F_SEAL_SHRINK | F_SEAL_GROW
_FUTURE_WRITE = 0x0010
COUNT, STOP, FIRST = 0, 1, 2
PLACES = 1 << 19
"""Places of output tensors that a page holds: of each set as many as a result has."""
PAGE_WORDS = FIRST + PLACES


class Page:
    """A batch's progress, in memory that the judge reads while the batch runs: how many calls are done, and where the result for each
    set lies: ``outputs`` places, of its first tensors. With ``stop`` set the batch ends after the call it is in."""

    def __init__(self, memory: Any) -> None:
        self.words = memoryview(memory).cast("B").cast("Q")
        self.outputs = 1

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
        """Addresses of the result for set ``number``: one for each of its tensors, 0 where there is none yet."""
        begin = FIRST + number * self.outputs
        return list(self.words[begin : begin + self.outputs])

    def clear(self, sets: int) -> None:
        """Forget the last batch, over so many sets."""
        used = sets * self.outputs
        self.words[FIRST : FIRST + used] = memoryview(bytes(8 * used)).cast("Q")
        self.words[COUNT] = 0


def seal(fd: int) -> None:
    """Fix the size of a memory file, so that the other side cannot shrink it under this side's feet."""
    # Some sandboxed kernels lack seals; a shrunk file kills its reader, which is noticed.
    with contextlib.suppress(OSError):
        fcntl.fcntl(fd, _ADD_SEALS, _SIZE)


def freeze(fd: int) -> None:
    """Let nobody map a memory file for writing from now on, nor make a mapping writable; those that are stay so."""
    with contextlib.suppress(OSError):  # Linux before 5.1
        fcntl.fcntl(fd, _ADD_SEALS, _FUTURE_WRITE)


def close_seals(fd: int) -> None:
    """Let nobody add seals to a memory file: one that a candidate freezes would be of no use to the next."""
    with contextlib.suppress(OSError):
        fcntl.fcntl(fd, _ADD_SEALS, 0x0001)  # F_SEAL_SEAL
