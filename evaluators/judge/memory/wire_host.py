"""Tensors that cross processes in host memory: one sealed memory file each, passed as a descriptor.

A tensor ends with its file's last data page; after that come pages that may not be touched. What is left of the data pages reads as
NaN: a step outside of an input shows.
"""

from __future__ import annotations

import mmap
import os
import warnings
from typing import Any

import torch

from evaluators.judge.memory import fence
from evaluators.judge.memory.page import close_seals, freeze, seal


def allocate(nbytes: int, frozen: bool = False) -> tuple[Any, int]:
    """A new block as a uint8 tensor over shared memory, and its descriptor.

    The size is sealed, so that the other side cannot shrink the file under this side's feet. With ``frozen`` nobody but this process can
    write to it, where the kernel has such a seal.
    """
    fd = os.memfd_create("tensor", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.ftruncate(fd, fence.pages(nbytes) + fence.WIDTH)
    seal(fd)
    block = attach(fd, nbytes)
    if frozen:
        freeze(fd)
    close_seals(fd)
    return block, fd


def attach(fd: int, nbytes: int) -> Any:
    """The block behind ``fd`` as a uint8 tensor; writes are seen by both sides. The descriptor may be closed afterwards."""
    if not nbytes:
        return torch.empty(0, dtype=torch.uint8)
    whole, before = fence.pages(nbytes), fence.spare(nbytes)
    try:
        area = mmap.mmap(fd, whole + fence.WIDTH, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE)
    except PermissionError:  # frozen: to be read only
        area = mmap.mmap(fd, whole, mmap.MAP_SHARED, mmap.PROT_READ)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return torch.frombuffer(area, dtype=torch.uint8, offset=before, count=nbytes)
    after = whole - before - nbytes
    area[:before], area[before + nbytes : whole] = bytes([fence.SLACK]) * before, bytes([fence.SLACK]) * after
    fence.forbid(area, whole)
    return torch.frombuffer(area, dtype=torch.uint8, offset=before, count=nbytes)
