"""Whose work it is on a CPU: where a worker's threads are, each time it is stopped in the middle of its work.

One such look says for each kind of code whether any thread was in it. The share of looks is a share of the time, whatever the threads do
besides; threads that wait, and what the interpreter needs to get from one call to the next, are left out of the question whose work it is.
"""

from __future__ import annotations

import math
import os
from collections import Counter
from typing import Any

from evaluators.judge.processes import procfs
from evaluators.judge.whose.whose import (
    INTERPRETER,
    LIBRARY,
    MATHS,
    MEMORY,
    MINE,
    NOWHERE,
    OTHERS,
    OWN,
    WAITING,
    Own,
    Place,
    kind,
    pytorchs,
)
from evaluators.judge.whose.whose import named as by_name

MOSTLY, A_TENTH = 0.5, 0.1
_FEWEST = 6
"""Looks that met library code, at least, before anything is said against a candidate."""
_LEAST, _MOST = 20, 120
_COMPARABLE = 4
_APART_NS = 100_000
_GLUE_MS, _GLUE_CALL_MS, _GLUE_CALLS = 0.003, 0.001, 16
"""Milliseconds of library code per call that are no work: PyTorch's own way to an allocation or a view, for each of the plumbing calls that
were recorded up to so many. A call in which a library has no more than that is too small to say whose work it is."""
_SLOWED, _PER_INTERPRETER = 5.0, 0.5
"""On a busy machine that takes longer, but so does the interpreter: up to so many times these milliseconds library code must also be met so
often for each time that the interpreter is."""
_SHOWN = 4


class Samples:
    """Looks at a worker's threads, and what they amount to."""

    def __init__(self, native: str | None, plumbing: int = 0) -> None:
        self.mine = Own(native)
        self.looks: list[list[Place]] = []
        """Where threads were, for each look; threads that slept in the kernel are in none."""
        self.first: list[bool] = []
        """Whether the worker had not been stopped before in the batch of that look: later it may know that it is watched."""
        self.told = False
        """Whether the kernel tells where threads are."""
        self.call_ms, self.free_ms = 0.0, _GLUE_MS + _GLUE_CALL_MS * min(plumbing, _GLUE_CALLS)
        """Milliseconds of a call, roughly, and those that a library may have of each without being asked about it."""
        self.hybrid = False
        """Whether some of the work may be PyTorch's: then only other libraries' code counts against a candidate."""
        self.used_ns = 0
        """Processor time that the worker had used at the last look."""
        self.code: procfs.Code | None = None
        self.own: set[procfs.Area] = set()

    def map(self, pid: int) -> None:
        """Learn which code lies where; again from time to time, as libraries are loaded late."""
        self.code = procfs.Code(pid)
        self.own = {area for area in self.code.areas if self.mine.holds(pid, area)}

    def take(self, pid: int, done: bool = False, first: bool = False) -> None:
        """Look where the threads of a stopped process are, and whether another process works for it. With ``done`` it has nothing to do
        any more, so that a look that meets no code at work is none; nor is one before which it hardly ran: it would find the same again."""
        used = procfs.process_ns(pid)  # of threads that have ended too: what lives alone can fall
        if used - self.used_ns < _APART_NS:
            return
        self.used_ns = used
        found = [self._place(pid, address) for address in procfs.counters(pid)]
        self.told = self.told or bool(found)
        found += [OTHERS for child in procfs.descendants(pid) if procfs.works(child) or procfs.counters(child)]
        if not done or any(kind(p) in (OWN, LIBRARY) for p in found):
            self.looks.append(found)
            self.first.append(first)

    def _place(self, pid: int, address: int) -> Place:
        area = self.code.area(address) if self.code else None
        if area is None:  # loaded since
            self.map(pid)
            area = self.code.area(address) if self.code else None
        if area in self.own:
            return MINE
        return Place(area.path, address - area.start + area.offset) if area and area.path else NOWHERE

    def counts(self, named: bool | None = None) -> dict[str, int]:
        """In how many looks each kind of code was met. With ``named`` PyTorch's copies and fills, and what leads to an operator, are told
        from its other work by the names of its functions (None: where that may matter; they take a moment to read).

        Mathematical functions are the candidate's where its own code is met beside them. The interpreter, the system and idleness count
        where nothing else was met.
        """
        named = self._too_much(named=False) if named is None else named
        kinds = [{(named and by_name(p)) or kind(p) for p in look} for look in self.looks]
        own, library = (sum(k in seen for seen in kinds) for k in (OWN, LIBRARY))
        if own and own * _COMPARABLE >= library:
            own = sum(bool(seen & {OWN, MATHS}) for seen in kinds)
        rest = [seen - {WAITING} for seen in kinds if not seen & {OWN, LIBRARY, MEMORY}]
        return {
            "own": own,
            "library": library,
            "memory": sum(MEMORY in seen for seen in kinds),
            "interpreter": sum(INTERPRETER in seen for seen in rest),
            "system": sum(bool(seen) and not seen & {INTERPRETER, MATHS} for seen in rest),
            "idle": sum(not seen for seen in rest),
            "looks": len(kinds),
        }

    @property
    def enough(self) -> bool:
        """Whether more looks would hardly tell more, or there are none to be had."""
        if not self.told or len(self.looks) >= _MOST:
            return True
        if len(self.looks) < _LEAST:
            return False
        counts = self.counts(named=False)
        _, most = limits(counts["library"], counts["looks"])
        if most < A_TENTH or most * self.call_ms < self.free_ms:
            return True
        low, high = limits(counts["library"], counts["library"] + counts["own"])
        return high < A_TENTH or (low > MOSTLY and counts["library"] >= _FEWEST)

    @property
    def said(self) -> str:
        """What is said against a candidate for its library code; empty where nothing is.

        Too much is a lower 95% limit above one half of the time that it and the candidate's own code had; and above a tenth where
        PyTorch's functions have names, so that what plumbing may do does not count. Time that is wasted in code of one's own beside a
        library's work does not make the work one's own.
        """
        if changed := self._changed:
            return changed
        if not self._too_much(named=False) or not self._too_much(named=True):
            return ""
        own, library = self.counts()["own"], self._library(named=True)
        names = " and ".join(os.path.basename(f) for f in self.files(self.hybrid)[:2])
        return f"{names} had {library / (library + own):.0%} of the time in which code was at work"

    @property
    def _changed(self) -> str:
        """What is said where libraries had more of the first look at each batch than of later ones, their 95% limits apart; empty where
        not: such a candidate leaves its work to others until it knows that it is watched."""
        early, met = self._met(first=True)
        if self.hybrid or not early:
            return ""
        late, later = self._met(first=False)
        if limits(early, met)[0] <= limits(late, later)[1]:
            return ""
        return (
            f"libraries had {early} of {met} first looks at a batch and {late} of {later} later ones: "
            "other code runs while it is watched"
        )

    def _met(self, first: bool) -> tuple[int, int]:
        """Of first or of later looks, those that met library code, and the sum of these and those that met the candidate's own.

        Names, which take a moment to read, are read where library code was met at all: they only ever take some of it out.
        """
        looks = [look for look, early in zip(self.looks, self.first, strict=False) if early == first]
        named = any(kind(p) == LIBRARY for look in looks for p in look)
        kinds = [{(named and by_name(p)) or kind(p) for p in look} for look in looks]
        library = sum(LIBRARY in seen for seen in kinds)
        return library, library + sum(OWN in seen for seen in kinds)

    def _library(self, named: bool) -> int:
        """Looks that count against the candidate."""
        if not self.hybrid:
            return self.counts(named)["library"]
        return sum(any(kind(p) == LIBRARY and not pytorchs(p) for p in look) for look in self.looks)

    def _too_much(self, named: bool) -> bool:
        library, looks = self._library(named), len(self.looks)
        if library < _FEWEST:
            return False
        had_ms, interpreter = library / looks * self.call_ms, self.counts(named)["interpreter"]
        if had_ms <= self.free_ms or (had_ms <= _SLOWED * self.free_ms and library < _PER_INTERPRETER * interpreter):
            return False
        nameless = named and any(by_name(p) is None for look in self.looks for p in look)
        low, _ = limits(library, library + self.counts(named)["own"])
        return low > (MOSTLY if nameless else A_TENTH)

    def attribution(self) -> dict[str, Any] | None:
        """Shares of the looks that met code at work, by kind, and ``of``: files whose library code it was. None without any."""
        if not any(self.looks):
            return None
        counts = self.counts()
        whole = sum(counts[k] for k in ("own", "library", "memory", "interpreter", "system"))
        shares: dict[str, Any] = {
            k: round(counts[k] / whole, 4) if whole else 0.0 for k in ("own", "library", "memory")
        }
        shares["of"] = [os.path.basename(f) for f in self.files()[:_SHOWN]]
        return shares

    def files(self, foreign: bool = False) -> list[str]:
        """Files whose library code was met, those met most first; with ``foreign`` without PyTorch's."""
        met = Counter(
            file
            for look in self.looks
            for file in {p.file for p in look if kind(p) == LIBRARY and not (foreign and pytorchs(p))}
        )
        return [file for file, _ in met.most_common()]


def limits(part: float, whole: float) -> tuple[float, float]:
    """95% limits of a share of which ``part`` of ``whole`` were seen (Wilson 1927); 0 and 1 where nothing was."""
    if not whole:
        return 0.0, 1.0
    share, z2 = part / whole, 1.96**2
    spread = math.sqrt(z2 * (share * (1 - share) / whole + z2 / (4 * whole * whole)))
    middle, scale = share + z2 / (2 * whole), 1 + z2 / whole
    return (middle - spread) / scale, (middle + spread) / scale
