"""Memory that the reference's process shares with workers: blocks, how the other side opens them, and what fills unwritten outputs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from evaluators.judge.memory import wire, wire_host

OUTPUT_POISON = 0xA5
Shared = tuple[list[Any], list[dict[str, Any]], list[int]]
"""Blocks as uint8 tensors, their descriptions, and the descriptors of those in host memory."""


def share(tensors: Sequence[Any], ipc: bool) -> Shared:
    """One shared block for each tensor: on the device with ``ipc``, else in host memory."""
    return share_bytes([wire.nbytes(t) for t in tensors], ipc)


def share_bytes(sizes: Sequence[int], ipc: bool, frozen: bool = False) -> Shared:
    """One shared block of each size; ``frozen`` ones in host memory only this process can write to."""
    blocks: list[Any] = []
    described: list[dict[str, Any]] = []
    fds: list[int] = []
    for size in sizes:
        if ipc:
            from evaluators.judge.memory import wire_cuda

            block, handle = wire_cuda.allocate(size)
            described.append({"bytes": size, "handle": handle})
        else:
            block, fd = wire_host.allocate(size, frozen)
            described.append({"bytes": size, "fd": len(fds)})
            fds.append(fd)
        blocks.append(block)
    return blocks, described, fds
