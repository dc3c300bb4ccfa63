"""What a judge must not leave behind: processes, files, shared memory, descriptors, locks."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from evaluators import places
from evaluators.judge.processes import procfs

MARK = "hostile-trace"
"""Name of what attacks write where they should not."""
BAIT = "hostile-bait"
"""Name of what attacks delete where they should not."""


@dataclass(frozen=True)
class Traces:
    """What there is at one moment, as far as a judge could have left it."""

    processes: frozenset[int]
    files: frozenset[str]
    shared_memory: frozenset[str]
    descriptors: int
    locks: int


def traces(folders: list[Path], locked: Path) -> Traces:
    """What there is now: living processes below this one, entries of ``folders`` but for lock files (which stay, one for each device),
    memory of System V, this process's descriptors, and how many locks are held on files in ``folders`` and under ``locked``."""
    below = frozenset(p for p in procfs.descendants(os.getpid()) if procfs.alive(p))
    entries = [entry for folder in folders if folder.is_dir() for entry in folder.iterdir()]
    files = frozenset(str(entry) for entry in entries if not entry.name.startswith("kernelevolve-"))
    held = _locks([*entries, *locked.rglob("*")])
    return Traces(below, files, _system_v(), len(os.listdir("/proc/self/fd")), held)


def left(before: Traces, after: Traces) -> list[str]:
    """What is there afterwards and was not before, in words; empty where nothing is."""
    found = [f"process {pid}" for pid in sorted(after.processes - before.processes)]
    found += [f"file {name}" for name in sorted(after.files - before.files)]
    found += [f"shared memory {key}" for key in sorted(after.shared_memory - before.shared_memory)]
    if after.descriptors > before.descriptors:
        found.append(f"{after.descriptors - before.descriptors} descriptors")
    if after.locks > before.locks:
        found.append(f"{after.locks - before.locks} locks")
    return found


def marks(temporary: Path) -> list[str]:
    """What attacks on files have left in the folders they try; it is removed."""
    tried = [temporary, *map(Path, ("/", "/tmp", "/var/tmp", "/dev/shm", "/run")), Path(places.JUDGE, "judge")]
    found = {folder / MARK for folder in tried if (folder / MARK).exists()}
    for mark in found:
        mark.unlink()
    return [f"written by an attack: {mark}" for mark in sorted(found)]


def _system_v() -> frozenset[str]:
    try:
        lines = Path("/proc/sysvipc/shm").read_text().splitlines()[1:]
    except OSError:
        return frozenset()
    return frozenset(line.split()[1] for line in lines)


def _locks(files: list[Path]) -> int:
    inodes = {entry.stat().st_ino for entry in files if entry.is_file()}
    try:
        lines = Path("/proc/locks").read_text().splitlines()
    except OSError:
        return 0
    return sum(
        int(part.rpartition(":")[2]) in inodes for line in lines for part in line.split() if part.count(":") == 2
    )
