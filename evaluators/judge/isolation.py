"""What a worker may not do: limits and namespaces applied in the freshly forked process, before any candidate code runs."""

from __future__ import annotations

import ctypes
import os
import resource
import signal
from typing import Any

CLONE_NEWIPC = 0x08000000
CLONE_NEWUSER = 0x10000000
CLONE_NEWNET = 0x40000000
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_PR_SET_NO_NEW_PRIVS = 38


def adopt_orphans() -> None:
    """Make this process the parent of its descendants' orphans, so that none can outlive its group unseen."""
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def die_with_parent() -> None:
    """Have the kernel kill this process when its parent dies."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def confine(limits: dict[str, Any]) -> str:
    """Apply ``limits`` to this process and name what took effect.

    ``memory_bytes`` bounds the address space beyond what is mapped now (0: no bound; device drivers reserve far more than they
    use); ``namespaces`` asks for an own network and IPC namespace.
    """
    applied = ["process group"]
    die_with_parent()
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if limits.get("memory_bytes"):
        bound = _mapped_bytes() + int(limits["memory_bytes"])
        resource.setrlimit(resource.RLIMIT_AS, (bound, bound))
        applied.append(f"address space +{int(limits['memory_bytes']) >> 20} MiB")
    if limits.get("namespaces"):
        if libc.unshare(CLONE_NEWUSER | CLONE_NEWNET | CLONE_NEWIPC) == 0:
            applied.append("user, network and IPC namespaces")
        elif libc.unshare(CLONE_NEWNET | CLONE_NEWIPC) == 0:
            applied.append("network and IPC namespaces")
    return ", ".join(applied)


def _mapped_bytes() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")


def resident_bytes(pid: int) -> int:
    """Resident memory of a process, 0 where it is gone."""
    try:
        with open(f"/proc/{pid}/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, IndexError, ValueError):
        return 0


def own_bytes(pid: int) -> int:
    """Memory of a process with pages that several share divided among them (Pss), so that forks are not counted many times over.

    Reading it walks the process's page tables: meant for descendants, which honest candidates do not have.
    """
    try:
        with open(f"/proc/{pid}/smaps_rollup") as file:
            return next((int(line.split()[1]) << 10 for line in file if line.startswith("Pss:")), 0)
    except OSError:
        return 0


def parents() -> dict[int, int]:
    """Parent of every process that this one can see."""
    found: dict[int, int] = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                with open(f"/proc/{entry}/stat") as file:
                    found[int(entry)] = int(file.read().rpartition(")")[2].split()[1])
            except (OSError, IndexError, ValueError):
                continue
    return found


def descendants(pid: int) -> set[int]:
    """All processes below ``pid``."""
    below: set[int] = set()
    table = parents()
    frontier = {pid}
    while frontier:
        frontier = {child for child, parent in table.items() if parent in frontier} - below
        below |= frontier
    return below
