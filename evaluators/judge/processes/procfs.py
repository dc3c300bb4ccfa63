"""What the kernel tells of processes: parents, processor time, memory, where stopped threads were. Never the processes' own word."""

from __future__ import annotations

import bisect
import contextlib
import ctypes
import os
import time
from typing import Any, NamedTuple

_PAGE = os.sysconf("SC_PAGE_SIZE")
_TICK_NS = 1_000_000_000 // os.sysconf("SC_CLK_TCK")


def mapped_bytes(pid: int | str = "self") -> int:
    """Size of a process's address space."""
    with open(f"/proc/{pid}/statm") as file:
        return int(file.read().split()[0]) * _PAGE


def resident_bytes(pid: int) -> int:
    """Resident memory of a process, 0 where it is gone."""
    try:
        with open(f"/proc/{pid}/statm") as file:
            return int(file.read().split()[1]) * _PAGE
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


def _stat(place: str) -> list[str]:
    """Fields of a ``stat`` file from the state on; empty where the process is gone."""
    try:
        with open(f"/proc/{place}/stat") as file:
            return file.read().rpartition(")")[2].split()
    except OSError:
        return []


def tasks(pid: int) -> list[int]:
    """Threads of a process."""
    try:
        return [int(entry) for entry in os.listdir(f"/proc/{pid}/task")]
    except OSError:
        return []


def alive(pid: int) -> bool:
    """Whether a process exists and is no zombie."""
    return _stat(str(pid))[:1] not in ([], ["Z"], ["X"])


def works(pid: int) -> bool:
    """Whether a process runs, or waits for a device."""
    return _stat(str(pid))[:1] in (["R"], ["D"])


def is_stopped(pid: int) -> bool:
    """Whether every thread of a process is stopped (or gone)."""
    return all(_stat(f"{pid}/task/{tid}")[:1] in ([], ["T"], ["t"], ["Z"], ["X"]) for tid in tasks(pid))


def wait_stopped(pid: int, most_s: float = 2.0) -> bool:
    """Wait until every thread of a process that was sent a signal to stop stands still; whether they did within ``most_s`` seconds."""
    deadline = time.perf_counter() + most_s
    while not is_stopped(pid):
        if time.perf_counter() > deadline:
            return False
        time.sleep(2e-5)  # the clock of a batch runs meanwhile
    return True


def cpu_ns(pid: int) -> int:
    """Processor time that a process's threads have used, nanoseconds (in ticks of the clock where the kernel keeps no better account)."""
    total = 0
    for tid in tasks(pid):
        try:
            with open(f"/proc/{pid}/task/{tid}/schedstat") as file:
                total += int(file.read().split()[0])
        except (OSError, IndexError, ValueError):
            fields = _stat(f"{pid}/task/{tid}")
            total += (int(fields[11]) + int(fields[12])) * _TICK_NS if len(fields) > 12 else 0
    return total


def delayed_ns(pid: int) -> int:
    """How long a process's threads have been ready to run without a processor, nanoseconds; 0 where the kernel keeps no account."""
    total = 0
    for tid in tasks(pid):
        with contextlib.suppress(OSError, IndexError, ValueError), open(f"/proc/{pid}/task/{tid}/schedstat") as file:
            total += int(file.read().split()[1])
    return total


def faults(pid: int) -> int:
    """Page faults of a process so far."""
    fields = _stat(str(pid))
    return int(fields[7]) + int(fields[9]) if len(fields) > 9 else 0


def process_ns(pid: int) -> int:
    """Processor time that a process has used, its threads and its children that ended among it, nanoseconds (children in ticks)."""
    fields = _stat(str(pid))
    children = (int(fields[13]) + int(fields[14])) * _TICK_NS if len(fields) > 14 else 0
    try:
        return (
            time.clock_gettime_ns((~pid << 3) | 2) + children
        )  # the clock of another process, as clock_getcpuclockid makes it
    except OSError:
        return cpu_ns(pid) + children


def parents() -> dict[int, int]:
    """Parent of every process that this one can see."""
    found: dict[int, int] = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            fields = _stat(entry)
            if len(fields) > 1:
                found[int(entry)] = int(fields[1])
    return found


def descendants(pid: int) -> set[int]:
    """All processes below ``pid``, zombies among them."""
    below: set[int] = set()
    frontier = {pid}
    if os.path.exists(f"/proc/self/task/{os.getpid()}/children"):
        while frontier:
            found: set[int] = set()
            for parent in frontier:
                for tid in tasks(parent):
                    with contextlib.suppress(OSError), open(f"/proc/{parent}/task/{tid}/children") as file:
                        found |= set(map(int, file.read().split()))
            frontier = found - below
            below |= frontier
        return below
    table = parents()
    while frontier:
        frontier = {child for child, parent in table.items() if parent in frontier} - below
        below |= frontier
    return below


class _Piece(ctypes.Structure):
    _fields_ = (("base", ctypes.c_void_p), ("size", ctypes.c_size_t))


def read_memory(pid: int, address: int, into: Any) -> None:
    """Fill the writable buffer ``into`` from a process's memory. Raises OSError where it has none there, or where that is not permitted."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.process_vm_readv.restype = ctypes.c_ssize_t
    size = len(into)
    here = ctypes.addressof((ctypes.c_char * size).from_buffer(into)) if size else 0
    done = 0
    while done < size:
        part = min(size - done, 1 << 30)
        local, remote = _Piece(here + done, part), _Piece(address + done, part)
        count = libc.process_vm_readv(
            pid, ctypes.byref(local), ctypes.c_ulong(1), ctypes.byref(remote), ctypes.c_ulong(1), ctypes.c_ulong(0)
        )
        if count <= 0:
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code))
        done += count


def shared_memory(pid: int) -> list[tuple[int, int]]:
    """Where shared memory files lie in a process's address space: begin and end of each mapping."""
    found: list[tuple[int, int]] = []
    with contextlib.suppress(OSError), open(f"/proc/{pid}/maps", errors="replace") as file:
        for line in file:
            if "/memfd:tensor" in line:
                start, _, end = line.split(maxsplit=1)[0].partition("-")
                found.append((int(start, 16), int(end, 16)))
    return found


class Area(NamedTuple):
    """A piece of a process's memory that holds code: its ends, where it begins in its file, and that file's path (empty: in none)."""

    start: int
    end: int
    offset: int
    path: str


class Code:
    """Which file each address of a process's code belongs to, as mapped when this was made."""

    def __init__(self, pid: int) -> None:
        self.areas: list[Area] = []
        with contextlib.suppress(OSError), open(f"/proc/{pid}/maps", errors="replace") as file:
            for line in file:
                fields = line.split(maxsplit=5)
                if "x" in fields[1]:
                    start, _, end = fields[0].partition("-")
                    path = fields[5].strip() if len(fields) > 5 else ""
                    self.areas.append(Area(int(start, 16), int(end, 16), int(fields[2], 16), path))
        self.starts = [a.start for a in self.areas]

    def area(self, address: int) -> Area | None:
        """The piece of code that holds ``address``; None where there was none."""
        index = bisect.bisect_right(self.starts, address) - 1
        return self.areas[index] if index >= 0 and address < self.areas[index].end else None


def counters(pid: int) -> list[int]:
    """Where each running thread of a stopped process was in its code; threads that slept in the kernel, and threads that may not be
    looked at, are left out."""
    found = []
    for tid in tasks(pid):
        try:
            with open(f"/proc/{pid}/task/{tid}/syscall") as file:
                fields = file.read().split()
        except OSError:
            continue
        if len(fields) == 3 and fields[0] == "-1":
            found.append(int(fields[2], 16))
    return found
