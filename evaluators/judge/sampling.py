"""Whose code runs: where a worker's threads are, each time it is stopped in the middle of its work."""

from __future__ import annotations

import math
import os
from pathlib import PurePath

from evaluators.judge import procfs

_LIBRARIES = (
    "libtorch_cpu",
    "libtorch_cuda",
    "libmkl",
    "libopenblas",
    "libscipy_openblas",
    "libdnnl",
    "libblas",
    "liblapack",
)
_WAITING = ("libgomp", "libiomp", "libomp")
"""Threads that wait for others spin in these; they tell nothing of who works."""
_ENOUGH = 20
_FEWEST = 6
_MOSTLY = 0.5
_AGAINST_OWN = 4


class Samples:
    """Counts of samples in the candidate's native code, in compute libraries, and elsewhere (the interpreter, waiting, libc)."""

    def __init__(self, native: str | None) -> None:
        self.native = os.path.realpath(native) if native else ""
        self.own = self.library = self.other = 0
        self.told = False
        """Whether the kernel tells where threads are."""
        self.code: procfs.Code | None = None

    def map(self, pid: int) -> None:
        """Learn which code lies where; again from time to time, as libraries are loaded late."""
        self.code = procfs.Code(pid)

    def take(self, pid: int) -> None:
        """Count where the threads of a stopped process are."""
        if self.code is None:
            return
        for address in procfs.counters(pid):
            self.told = True
            path = self.code.file(address)
            if self.native and path == self.native:
                self.own += 1
            elif PurePath(path).name.startswith(_LIBRARIES):
                self.library += 1
            elif not PurePath(path).name.startswith(_WAITING):
                self.other += 1

    @property
    def enough(self) -> bool:
        """Whether more samples would hardly tell more, or there are none to be had."""
        return self.own + self.library + self.other >= _ENOUGH or not self.told

    @property
    def by_library(self) -> float:
        """Share of the samples that lie in compute libraries, where these plainly do the work; else 0.

        Plainly: the share's lower 95% limit (Wilson 1927) is above one half, and the candidate's own code has less than a quarter of it.
        """
        total = self.own + self.library + self.other
        if total < _FEWEST or self.library <= _AGAINST_OWN * self.own:
            return 0.0
        share, z2 = self.library / total, 1.96**2
        spread = math.sqrt(z2 * (share * (1 - share) / total + z2 / (4 * total * total)))
        low = (share + z2 / (2 * total) - spread) / (1 + z2 / total)
        return share if low > _MOSTLY else 0.0

    def counts(self) -> dict[str, int]:
        """The counts by name."""
        return {"own": self.own, "library": self.library, "other": self.other}
