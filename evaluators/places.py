"""Which files code that is not trusted needs: the system's programs, headers and libraries, and Python's packages.

What belongs to the user is not among them, nor what is hidden on purpose: the judge's text and the data folder.
"""

from __future__ import annotations

import contextlib
import functools
import os
import pwd
import shutil
import site
import sys
from collections.abc import Iterable
from pathlib import Path

JUDGE = str(Path(__file__).resolve().parent)
"""The folder of the judge's own text."""
NOTHING = "/dev/null"
_SYSTEM = "/usr /bin /sbin /lib /lib32 /lib64 /libx32 /opt /nix/store /gnu/store /run/current-system".split()
_DYNAMIC_LINKER = ["/etc/ld.so.cache", "/etc/ld.so.preload"]
_SETTINGS = "/etc/localtime /etc/passwd /etc/group /etc/nsswitch.conf /etc/os-release".split()
_DEVICES = ["/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"]
_MACHINE = ["/sys/devices/system", "/sys/kernel/mm", "/sys/fs/cgroup"]
_PROC = "cpuinfo meminfo stat uptime version filesystems loadavg sys".split()
_SEARCHED = "LD_LIBRARY_PATH LIBRARY_PATH CPATH C_INCLUDE_PATH CPLUS_INCLUDE_PATH COMPILER_PATH".split()


def for_compiler(compiler: str, hidden: Iterable[str]) -> list[str]:
    """What a native compiler reads: itself, headers, libraries."""
    return around([*_SYSTEM, *_DYNAMIC_LINKER, *_DEVICES, *_searched(), *_prefix(compiler)], hidden)


@functools.cache
def for_worker(hidden: tuple[str, ...]) -> tuple[str, ...]:
    """What PyTorch, Triton and a compiled kernel read, but for ``/proc``; as found when first asked for."""
    packages = [sys.prefix, sys.base_prefix, *site.getsitepackages()]
    for name in ("torch", "numpy", "triton"):
        file = getattr(sys.modules.get(name), "__file__", None)
        packages += [str(Path(file).parent.parent)] if file else []
    wanted = [
        *_SYSTEM,
        *_DYNAMIC_LINKER,
        *_SETTINGS,
        *_DEVICES,
        *_MACHINE,
        *packages,
        *_prefix("cc"),
        *_prefix("g++"),
        *_searched(),
    ]
    return tuple(around(wanted, hidden))


def of_processes(own: bool) -> list[str]:
    """What to read of ``/proc``: all where it is this process's ``own``; else only the folder of this process, for other processes'
    environments are there."""
    return ["/proc"] if own else [os.path.realpath("/proc/self"), *(f"/proc/{name}" for name in _PROC)]


def _prefix(tool: str) -> list[str]:
    """Where a tool and what belongs to it is installed; the tool alone where that is a folder with a person's home in it."""
    found = shutil.which(tool)
    if found is None:
        return []
    file = Path(found).resolve()
    folder = file.parent.parent
    return [str(file if any(Path(h).is_relative_to(folder) for h in _homes()) else folder)]


def _homes() -> list[str]:
    """This user's home, as the environment and as the system knows it: a process that is started in a clean one is told another."""
    found = [os.path.expanduser("~")]
    with contextlib.suppress(KeyError):
        found.append(pwd.getpwuid(os.geteuid()).pw_dir)
    return [os.path.realpath(h) for h in found if os.path.isabs(h)]


def _searched() -> list[str]:
    """Folders where the environment says that headers and libraries are."""
    return [p for name in _SEARCHED for p in os.environ.get(name, "").split(os.pathsep) if os.path.isabs(p)]


def around(wanted: Iterable[str], hidden: Iterable[str]) -> list[str]:
    """Places that together hold all of ``wanted`` but ``hidden``, none twice; a folder with something hidden in it gives way to what else
    is in it."""
    secret = {os.path.realpath(h) for h in hidden}
    real = {os.path.realpath(w) for w in wanted} - {"/"}
    return [p for w in sorted(real) if not _inside(w, real - {w}) for p in _without(w, secret)]


def _without(place: str, hidden: set[str]) -> list[str]:
    if place in hidden:
        return []
    if not any(_inside(h, {place}) for h in hidden):
        return [place] if os.path.exists(place) else []
    try:
        entries = sorted(os.listdir(place))
    except OSError:
        return []
    return [p for name in entries for p in _without(os.path.join(place, name), hidden)]


def _inside(path: str, folders: set[str]) -> bool:
    return any(path.startswith(folder.rstrip("/") + "/") for folder in folders)
