"""Pages that may not be touched: memory placed so that a step outside of it faults."""

from __future__ import annotations

import ctypes
import mmap

PAGE = mmap.PAGESIZE
WIDTH = 64 * PAGE
"""Bytes that may not be touched on a side: address space, no memory."""
ALIGNMENT = 64
"""What tensors' first elements are aligned to, as PyTorch does."""
SLACK = 0xFF
"""What fills the bytes between a tensor and the nearest such page: NaN in every floating type."""


def spare(nbytes: int) -> int:
    """Bytes to leave before ``nbytes`` of data, so that they end at a page's end but for less than :data:`ALIGNMENT` bytes."""
    return -nbytes % PAGE // ALIGNMENT * ALIGNMENT


def pages(nbytes: int) -> int:
    """Bytes of the whole pages that ``nbytes`` of data lie in."""
    return -(-nbytes // PAGE) * PAGE


def forbid(area: mmap.mmap, offset: int) -> None:
    """Let no access to the :data:`WIDTH` bytes from ``offset`` of a mapping on pass. Where the system refuses, the check is weaker."""
    address = ctypes.addressof(ctypes.c_char.from_buffer(area))
    ctypes.CDLL(None).mprotect(ctypes.c_void_p(address + offset), ctypes.c_size_t(WIDTH), 0)


def memory(fd: int, nbytes: int) -> memoryview:
    """The bytes of the shared block of that size behind a descriptor."""
    if not nbytes:
        return memoryview(b"")
    before = spare(nbytes)
    return memoryview(mmap.mmap(fd, pages(nbytes)))[before : before + nbytes]
