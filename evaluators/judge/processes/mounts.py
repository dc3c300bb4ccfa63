"""What a worker sees of the file system in a mount namespace of its own: all read-only but its folder, and some of it not at all."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterable

_MS_RDONLY, _MS_NOSUID, _MS_NODEV, _MS_NOEXEC, _MS_BIND, _MS_REC, _MS_PRIVATE = 1, 2, 4, 8, 4096, 16384, 1 << 18
_MOUNT_SETATTR = 442
_AT_FDCWD, _AT_RECURSIVE = -100, 0x8000
_ATTR_RDONLY = 1
_INODES = 1 << 16


class _Attributes(ctypes.Structure):
    _fields_ = (
        ("set", ctypes.c_uint64), ("clear", ctypes.c_uint64), ("propagation", ctypes.c_uint64), ("user", ctypes.c_uint64),
    )  # fmt: skip


def own_view(folder: str, folder_bytes: int, hidden: Iterable[str], needed: Iterable[str]) -> tuple[list[str], bool]:
    """Give this process, first of a fresh PID and mount namespace, its own view of the files: what took effect and what did not, in words,
    and whether it has a ``/proc`` of its own.

    ``folder`` is empty memory of ``folder_bytes`` at most: it ends with the process, and what is
    put there is never seen outside. ``hidden`` folders are empty and closed, but for one that holds what is ``needed``.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    if not _private(libc):
        return [f"files NOT read-only (mounting: {_reason()})"], False
    # Read-only too: to a root user the kernel's settings are files in there.
    own_proc = _mount(libc, "proc", "/proc", _MS_RDONLY | _MS_NOSUID | _MS_NODEV | _MS_NOEXEC)
    kept = {os.path.realpath(p) for p in (*needed, folder)}
    for place in {os.path.realpath(h) for h in hidden}:
        if os.path.isdir(place) and not any(k == place or k.startswith(place + "/") for k in kept):
            _mount(libc, "tmpfs", place, _MS_RDONLY | _MS_NOSUID | _MS_NODEV | _MS_NOEXEC, "mode=0,size=4k,nr_inodes=1")
    frozen = _set(libc, "/", _AT_RECURSIVE, _Attributes(set=_ATTR_RDONLY))
    said = ["files read-only" if frozen else f"files NOT read-only ({_reason()})"]
    if _mount(libc, "tmpfs", folder, _MS_NOSUID | _MS_NODEV, f"mode=700,size={folder_bytes},nr_inodes={_INODES}"):
        said.append(f"folder of {folder_bytes >> 20} MiB")
    else:
        said.append("folder NOT bounded")
    return said, own_proc


def freeze(but: str) -> bool:
    """In a fresh mount namespace, make all files read-only but those below ``but``, and ``/proc``, where namespaces are set up."""
    libc = ctypes.CDLL(None, use_errno=True)
    place = but.encode()
    return (
        _private(libc)
        and not libc.mount(place, place, None, ctypes.c_ulong(_MS_BIND | _MS_REC), None)
        and _set(libc, "/", _AT_RECURSIVE, _Attributes(set=_ATTR_RDONLY))
        and all(_set(libc, p, 0, _Attributes(clear=_ATTR_RDONLY)) for p in (but, "/proc"))
    )


def _private(libc: ctypes.CDLL) -> bool:
    return bool(libc.mount(b"none", b"/", None, ctypes.c_ulong(_MS_REC | _MS_PRIVATE), None) == 0)


def _set(libc: ctypes.CDLL, place: str, flags: int, attributes: _Attributes) -> bool:
    size = ctypes.c_size_t(ctypes.sizeof(attributes))
    done = libc.syscall(_MOUNT_SETATTR, _AT_FDCWD, place.encode(), flags, ctypes.byref(attributes), size)
    return bool(done == 0)


def _mount(libc: ctypes.CDLL, kind: str, place: str, flags: int, options: str = "") -> bool:
    return bool(libc.mount(kind.encode(), place.encode(), kind.encode(), ctypes.c_ulong(flags), options.encode()) == 0)


def _reason() -> str:
    return os.strerror(ctypes.get_errno())
