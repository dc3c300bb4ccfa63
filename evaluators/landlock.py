"""Landlock: a thread gives up every file but those it names, for itself and for whatever it starts from then on.

It needs no privilege and no namespace (Linux 5.13). It does not cover what a path alone tells (whether a file is there, its size), nor a
file's mode, owner and times: a read-only mount does. From Linux 6.12 on (version 6) it also keeps signals and abstract sockets inside.
"""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Callable, Iterable
from typing import TypeVar

T = TypeVar("T")

_CREATE, _ADD, _RESTRICT = 444, 445, 446
"""System calls; the numbers are the same on every architecture."""
_VERSION = 1
_BENEATH = 1
_NO_NEW_PRIVS = 38
_EXECUTE, _WRITE, _READ, _LIST = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_DEVICE_FILES = 1 << 6 | 1 << 11
_TRUNCATE, _IOCTL = 1 << 14, 1 << 15
_OF_A_FILE = _EXECUTE | _WRITE | _READ | _TRUNCATE | _IOCTL
_HANDLED = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1, 4: (1 << 15) - 1}
"""Accesses to files that a version of Landlock can deny; from version 5 on all sixteen."""
_TCP = 0b11
_SCOPES = 0b11
"""Abstract sockets and signals."""


class _Ruleset(ctypes.Structure):
    _fields_ = (("files", ctypes.c_uint64), ("net", ctypes.c_uint64), ("scopes", ctypes.c_uint64))


class _Rule(ctypes.Structure):
    _pack_ = 1
    _fields_ = (("allowed", ctypes.c_uint64), ("parent", ctypes.c_int32))


def version() -> int:
    """The kernel's version of Landlock; 0 where it has none, or a sandbox refuses it."""
    return max(0, int(ctypes.CDLL(None).syscall(_CREATE, None, ctypes.c_size_t(0), _VERSION)))


def restrict(readable: Iterable[str], writable: Iterable[str]) -> bool:
    """Leave this thread what lies at or below ``readable`` to read and run, ``writable`` to change as well; ``False`` where that cannot be.

    Places that do not exist are passed over. It also gives up TCP (version 4) and, for processes outside, signals (version 6). There is
    no way back.
    """
    known = version()
    if not known:
        return False
    libc = ctypes.CDLL(None, use_errno=True)
    files = _HANDLED.get(known, (1 << 16) - 1)
    about = _Ruleset(files, _TCP if known >= 4 else 0, _SCOPES if known >= 6 else 0)
    size = 24 if known >= 6 else 16 if known >= 4 else 8
    ruleset = libc.syscall(_CREATE, ctypes.byref(about), ctypes.c_size_t(size), 0)
    if ruleset < 0:
        return False
    try:
        for path in readable:
            _allow(libc, ruleset, path, files & (_EXECUTE | _READ | _LIST))
        for path in writable:
            _allow(libc, ruleset, path, files & ~_DEVICE_FILES & ~_IOCTL)
        libc.prctl(_NO_NEW_PRIVS, 1, 0, 0, 0)
        return bool(libc.syscall(_RESTRICT, ruleset, 0) == 0)
    finally:
        os.close(ruleset)


def _allow(libc: ctypes.CDLL, ruleset: int, path: str, allowed: int) -> None:
    try:
        place = os.open(path, os.O_PATH | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return
    rule = _Rule(allowed, place)
    if libc.syscall(_ADD, ruleset, _BENEATH, ctypes.byref(rule), 0):  # not a folder
        rule.allowed = allowed & _OF_A_FILE
        libc.syscall(_ADD, ruleset, _BENEATH, ctypes.byref(rule), 0)
    os.close(place)


def within(readable: Iterable[str], writable: Iterable[str], start: Callable[[], T]) -> tuple[T, bool]:
    """What ``start`` gives, run in a thread of its own that is restricted, and whether it was: a process that it starts stays so, this one
    does not become so. Where the kernel has no Landlock it runs all the same."""
    found: list[T] = []
    failed: list[BaseException] = []
    applied: list[bool] = []

    def run() -> None:
        try:
            applied.append(restrict(readable, writable))
            found.append(start())
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if failed:
        raise failed[0]
    return found[0], applied[0]
