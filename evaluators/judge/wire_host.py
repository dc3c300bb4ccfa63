"""Tensors that cross processes in host memory: one sealed, exact-size memory file each, passed as a descriptor."""

from __future__ import annotations

import mmap
import os
from typing import Any

import torch

from evaluators.judge.page import seal


def allocate(nbytes: int) -> tuple[Any, int]:
    """A new block as a uint8 tensor over shared memory, and its descriptor.

    The size is sealed, so that the other side cannot shrink the file under this side's feet.
    """
    fd = os.memfd_create("tensor", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.ftruncate(fd, max(nbytes, 1))
    seal(fd)
    return attach(fd, nbytes), fd


def attach(fd: int, nbytes: int) -> Any:
    """The block behind ``fd`` as a uint8 tensor; writes are seen by both sides. The descriptor may be closed afterwards."""
    area = mmap.mmap(fd, max(nbytes, 1), mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE)
    return torch.frombuffer(area, dtype=torch.uint8, count=nbytes) if nbytes else torch.empty(0, dtype=torch.uint8)
