"""What a worker may not do: limits and namespaces applied in the freshly forked process, before any candidate code runs."""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import signal
import sys
from pathlib import Path
from typing import Any

from evaluators import landlock, places
from evaluators.judge.processes.mounts import freeze, own_view
from evaluators.judge.processes.procfs import mapped_bytes

PIDS = "PID"
READ_ONLY = "KERNELEVOLVE_READ_ONLY_BUT"
CLONE_NEWNS = 0x00020000
CLONE_NEWIPC = 0x08000000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000
_CAPABILITY_VERSION_3 = 0x20080522
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_PR_SET_NO_NEW_PRIVS = 38


def start_again_read_only(module: str) -> None:
    """Run this program again in a mount namespace where files are read-only, but for the folder that :data:`READ_ONLY` names in the
    environment; go on as it is where it names none, or the kernel allows no such namespace.

    A process reaches the file of its program through ``/proc`` as it was mounted when the program began, whatever is mounted later.
    """
    but = os.environ.pop(READ_ONLY, "")
    if not but:
        return
    child = os.fork()
    if not child:  # tries it, for there is no way back; and workers must still get namespaces of their own there
        os._exit(0 if _frozen(but) and PIDS in separate() else 1)
    if os.waitpid(child, 0)[1] == 0 and _frozen(but):
        os.execv(sys.executable, [sys.executable, "-m", module, *sys.argv[1:]])


def _frozen(but: str) -> bool:
    """Put this process into a mount namespace where files are read-only but for those below ``but``."""
    libc = ctypes.CDLL(None, use_errno=True)
    user, group = os.geteuid(), os.getegid()
    if libc.unshare(CLONE_NEWUSER | CLONE_NEWNS) == 0:
        _map_itself(user, group)
    elif libc.unshare(CLONE_NEWNS):
        return False
    return freeze(but)


def adopt_orphans() -> None:
    """Make this process the parent of its descendants' orphans, so that none can outlive its group unseen."""
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def die_with_parent() -> None:
    """Have the kernel kill this process when its parent dies."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def confine(limits: dict[str, Any]) -> list[str]:
    """Apply ``limits`` to this process and name what took effect.

    ``memory_bytes`` bounds the address space beyond what is mapped now (0: no bound; device drivers reserve far more than they use).
    """
    applied = ["process group"]
    die_with_parent()
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if limits.get("memory_bytes"):
        bound = mapped_bytes() + int(limits["memory_bytes"])
        resource.setrlimit(resource.RLIMIT_AS, (bound, bound))
        applied.append(f"address space +{int(limits['memory_bytes']) >> 20} MiB")
    if limits.get("file_bytes"):
        resource.setrlimit(resource.RLIMIT_FSIZE, (int(limits["file_bytes"]), int(limits["file_bytes"])))
    return applied


def separate() -> list[str]:
    """Give this process and its children to be namespaces of their own, as far as the kernel allows, and name them.

    With a PID namespace, which the next child is the first process of, a candidate can name no process outside: it can neither signal
    the judge's processes nor change their priority or processors. In a user namespace it can look into none either.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    user, group = os.geteuid(), os.getegid()
    outer = CLONE_NEWNET | CLONE_NEWIPC
    for flags, names in (
        (CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNS | outer, ["user", PIDS, "mount", "network", "IPC"]),
        (CLONE_NEWPID | CLONE_NEWNS | outer, [PIDS, "mount", "network", "IPC"]),
        (CLONE_NEWUSER | outer, ["user", "network", "IPC"]),
        (outer, ["network", "IPC"]),
    ):
        if libc.unshare(flags) == 0:
            if flags & CLONE_NEWUSER:
                _map_itself(user, group)
            return names
    return []


def _map_itself(user: int, group: int) -> None:
    """Be the same user inside a new user namespace; where that is refused, files still know this process as the one it was."""
    for name, text in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
        with contextlib.suppress(OSError), open(f"/proc/self/{name}", "w") as file:
            file.write(text)


def isolate(message: dict[str, Any], spaces: list[str]) -> str:
    """Isolate this process as ``message`` says, in the namespaces it has been given; in words, what took effect and what did not."""
    files = keep_to(message, PIDS in spaces)
    os.chdir(message["folder"])
    os.environ.update(message["environment"])
    applied = confine(message["limits"]) + files
    drop_capabilities()
    return ", ".join([*applied, f"{', '.join(spaces)} namespaces" if spaces else "NO namespaces"])


def keep_to(message: dict[str, Any], mounts: bool) -> list[str]:
    """Keep this process to its folder and the system's files, and bring the candidate's library into that folder; in words, what took
    effect and what did not. ``mounts``: whether it is the first process of a PID and mount namespace."""
    folder, limits = message["folder"], message["limits"]
    library = Path(message["library"]) if message["library"] else None
    code = library.read_bytes() if library else b""  # it lies where nothing can be read in a moment
    if limits.get("files"):
        readable = places.for_worker(tuple(message["hidden"]))
        said, own_proc = ["files NOT read-only (no mount namespace)"], False
        if mounts:
            said, own_proc = own_view(folder, limits["file_bytes"], message["hidden"], readable)
        kept = landlock.restrict([*readable, *places.of_processes(own_proc)], [folder, places.NOTHING])
        said.append("other files out of reach (Landlock)" if kept else "other files NOT out of reach (no Landlock)")
    else:
        said = ["files NOT restricted"]
    if library:
        place = Path(folder, library.name)
        place.write_bytes(code)
        place.chmod(0o500)
    return said


def drop_capabilities() -> None:
    """Give up all capabilities, those in a user namespace of one's own among them."""
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0)
    ctypes.CDLL(None).capset(header, (ctypes.c_uint32 * 6)())
