"""One device, many judges: processes that check results share it, a process that times has it alone.

Two lock files per device in the machine's folder for temporary files, so that runs of different users and data folders see each other.
Whoever wants the device passes a gate first; a process that waits for it alone keeps the gate, and no stream of others can keep it
waiting for ever. The kernel lets go of what a process held when it ends, however it ends.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from evaluators.errors import JudgeError

_POLL_S = 0.02
_MOMENT_S = 2.0


class DeviceLock:
    """The lock of the device called ``name``: ``cpu``, or a GPU's UUID. Waits at most ``wait_s`` seconds for it; ``on_wait`` is told, in
    words and once each time, where that is more than a moment."""

    def __init__(self, name: str, wait_s: float, on_wait: Callable[[str], None] | None = None) -> None:
        self.name, self.wait_s, self.on_wait = name, wait_s, on_wait
        self.stem = f"kernelevolve-{re.sub(r'[^A-Za-z0-9-]', '_', name)}"

    @contextlib.contextmanager
    def held(self, alone: bool) -> Iterator[float]:
        """Have the device, ``alone`` or among others; gives the seconds that were waited for it.

        Raises :class:`JudgeError` where others keep it for too long, or the lock files cannot be opened.
        """
        begin = time.monotonic()
        with contextlib.ExitStack() as stack:
            device = stack.enter_context(self._file("device"))
            with self._file("gate") as gate:
                self._take(gate, fcntl.LOCK_EX, begin)
                self._take(device, fcntl.LOCK_EX if alone else fcntl.LOCK_SH, begin)
            yield time.monotonic() - begin

    def _take(self, fd: int, kind: int, begin: float) -> None:
        told = self.on_wait is None
        while True:
            try:
                fcntl.flock(fd, kind | fcntl.LOCK_NB)
                return
            except BlockingIOError:
                if time.monotonic() - begin > self.wait_s:
                    raise JudgeError(
                        f"other judges have kept {self.name} busy for {self.wait_s:g} s: end them, or judge later"
                    ) from None
                if not told and self.on_wait and time.monotonic() - begin > _MOMENT_S:
                    told = True
                    self.on_wait(f"waiting: another judge on this machine uses {self.name} (at most {self.wait_s:g} s)")
                time.sleep(_POLL_S)

    @contextlib.contextmanager
    def _file(self, part: str) -> Iterator[int]:
        path = folder() / f"{self.stem}.{part}"
        try:
            fd = _open(path)
        except OSError as error:
            raise JudgeError(f"{path}: cannot be opened to lock {self.name}: {error.strerror}") from None
        try:
            with contextlib.suppress(PermissionError):
                os.fchmod(fd, 0o666)  # other users' judges wait for the same device
            yield fd
        finally:
            os.close(fd)


def folder() -> Path:
    """Where the lock files lie."""
    return Path(tempfile.gettempdir())


def _open(path: Path) -> int:
    """The file, made where it is missing. Linux refuses to open another user's file in such a folder if asked to make it too."""
    flags = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC
    with contextlib.suppress(FileNotFoundError):
        return os.open(path, flags)
    with contextlib.suppress(FileExistsError):
        return os.open(path, flags | os.O_CREAT | os.O_EXCL, 0o666)
    return os.open(path, flags)
