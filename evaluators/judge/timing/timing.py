"""Paired timing: baseline and candidate take turns on the judge's token, and the judge's own clock decides.

A batch is ``calls`` calls and a synchronisation, timed by the wall clock of this process from waking the process that makes them until
every thread of it stands still again, while the other side is stopped. What the judge looks at before and after is no part of it. On a
GPU a batch begins with a pause of the device and calls are preceded by an L2 flush, so batches of these alone (same count) are timed too
and the shortest of them is subtracted: other work only ever lengthens one, and what is subtracted in error would be counted as speed.

Device events leave all of that out. The baseline's process is the judge's own, so on a GPU its time is what they say. What its wall-clock
time holds beyond them (waking, launching, waiting for the device) the candidate's holds too, and that much, the median of the baseline's
batches, is taken off each of the candidate's. The candidate's own events could be forged: they can only make it slower.
"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

RESAMPLES = 2000
_SMALLEST_MS = 1e-4
_CALIBRATIONS, _NEAR = 8, 0.1
"""How often the number of calls per batch is mended at most, and by which share of it it may be off."""
_REST_S = 3e-3
"""How long a process has stood still, at least, when its batch begins: one that was busy a moment ago has its first call done sooner."""
_LATE_S = 2e-3
"""Beyond this, a process did not stop when it was told to."""


@dataclass
class Side:
    """One side of a comparison: how to run a batch in its process, and what was learnt of it.

    ``prepare(calls, offset)`` gives the coming calls fresh inputs. ``rest()`` stops the process. ``run(calls, offset, empty)`` wakes it,
    and returns the batch's wall-clock milliseconds when it stands still again; ``events()`` then gives its device-event milliseconds or
    ``None``.
    A batch has at most ``sets`` calls, each on another input set.
    """

    rest: Callable[[], None]
    run: Callable[[int, int, bool], float]
    events: Callable[[], float | None]
    prepare: Callable[[int, int], None]
    sets: int
    calls: int = 1
    overhead_ms: float = 0.0
    offset: int = 0
    last_s: float = 0.0
    """Seconds of the last batch."""
    trusted: bool = False
    """Whether device events are taken at their word."""
    events_ms: list[float] = field(default_factory=list)
    """Of the turns measured since the last calibration: device-event milliseconds per call."""
    beyond_ms: list[float] = field(default_factory=list)
    """Likewise: wall-clock milliseconds of the batch beyond flushes and device events."""

    def settle(self) -> None:
        """Have the process stand still for a while."""
        self.rest()
        time.sleep(_REST_S)

    def batch(self, empty: bool = False) -> float:
        """Wall-clock milliseconds of one batch."""
        self.settle()
        wall = self.run(self.calls, self.offset, empty)
        if not empty:
            self.last_s = wall / 1e3
            self.offset = (self.offset + self.calls) % self.sets
        return wall

    def measure(self) -> float:
        """Milliseconds per call of one batch: by device events where they are to be trusted, else by the wall clock, without the
        flushes' share."""
        wall = self.batch() - self.overhead_ms
        events = self.events()
        if events is not None:
            self.events_ms.append(events / self.calls)
            self.beyond_ms.append(wall - events)
            if self.trusted:
                wall = events
        return max(wall / self.calls, _SMALLEST_MS)

    def calibrate(self, target_ms: float, flushes: Side | None = None) -> float:
        """Warm up, fix the number of calls per batch so that it takes about ``target_ms``, beginning with the present one, and learn what
        flushes cost where there are any: on ``flushes``, a side that is trusted, since what is found is subtracted.

        What a batch takes beside its calls is divided by their number, so batches of both sides have to take equally long.

        Returns milliseconds per call, roughly.
        """
        self.batch()
        wall = self._shorter()
        for _ in range(_CALIBRATIONS):
            # Grow gently: one short batch is dominated by the round trip.
            better = min(max(round(self.calls * min(target_ms / max(wall, 1e-3), 8.0)), 1), self.sets)
            if abs(better - self.calls) <= _NEAR * self.calls:
                break
            self.calls = better
            wall = self._shorter()
        if flushes is not None:
            self.overhead_ms = flushes.flushing(self.calls)
        per_call = max((wall - self.overhead_ms) / self.calls, _SMALLEST_MS)
        self.events_ms.clear()
        self.beyond_ms.clear()
        return per_call

    def _shorter(self) -> float:
        """Wall-clock milliseconds of the shorter of two batches: other work on the machine only ever lengthens them."""
        return min(self.batch(), self.batch())

    def flushing(self, calls: int) -> float:
        """Milliseconds of the shortest of five batches of ``calls`` flushes alone."""
        kept, self.calls = self.calls, calls
        found = min(self.batch(empty=True) for _ in range(5))
        self.calls = kept
        return found

    def flush_again(self, flushes: Side) -> None:
        """Look at what flushes cost a second time; where the first look said more, what was measured since is mended."""
        least = min(self.overhead_ms, flushes.flushing(self.calls))
        self.beyond_ms = [ms + self.overhead_ms - least for ms in self.beyond_ms]
        self.overhead_ms = least

    def turn(self) -> float:
        """Milliseconds per call of one batch on fresh inputs."""
        self.prepare(self.calls, self.offset)
        return self.measure()


def stop(pause: Callable[[], None], cpu_ns: Callable[[], int], gpu: bool) -> float:
    """Stop a process that says its batch is done; how many of the milliseconds until it stands still are the batch's.

    All of them on a CPU, where work may have been put off. A process that uses a GPU has dozens of threads, and looking at all of them
    takes longer than they need to stop: there it is the milliseconds until the signal, and then as many as it used processor time in,
    unless it stops late.
    """
    begin = time.perf_counter()
    used = cpu_ns() if gpu else 0
    sent = time.perf_counter()
    pause()
    still = time.perf_counter()
    if gpu and still - sent < _LATE_S:
        return (sent - begin + min((cpu_ns() - used) / 1e9, still - sent)) * 1e3
    return (still - begin) * 1e3


def fair(side: Side, trusted: Sequence[Side]) -> list[float]:
    """Milliseconds per call of the turns of a side that is not to be trusted, which has device events: wall-clock time less what that of
    trusted sides holds beyond theirs, the median, and never less than its own events.

    Where its events do not explain its time, it may have worked while the flushes ran: they are on its clock then.
    """
    theirs = [ms for other in trusted for ms in other.beyond_ms]
    usual = max(statistics.median(theirs), 0.0) if theirs else 0.0
    turns = list(zip(side.events_ms, side.beyond_ms, strict=True))
    found = [max(events + max(beyond - usual, 0.0) / side.calls, _SMALLEST_MS) for events, beyond in turns]
    if found and not agreement(side, statistics.median(found))[1]:
        return [ms + side.overhead_ms / side.calls for ms in found]
    return found


def alternate(sides: Sequence[Side], rounds: int) -> list[tuple[float, ...]]:
    """Milliseconds per call of ``rounds`` batches of each side in turn, A B A B."""
    return [tuple(side.turn() for side in sides) for _ in range(rounds)]


def summarize(samples: Sequence[tuple[float, float]], seed: int = 0) -> tuple[float, float, float]:
    """Median ratio baseline / candidate over pairs, and its 95% bootstrap percentile interval (Efron 1979)."""
    ratios = [a / b for a, b in samples]
    draw = random.Random(seed)
    medians = sorted(statistics.median(draw.choices(ratios, k=len(ratios))) for _ in range(RESAMPLES))
    return statistics.median(ratios), medians[int(0.025 * RESAMPLES)], medians[int(0.975 * RESAMPLES) - 1]


def agreement(side: Side, wall_ms: float) -> tuple[float | None, bool]:
    """Median event milliseconds per call, and whether it agrees with the wall clock: the wall time, flushes subtracted, is at
    most 1.5 times the event time plus 20 µs. Work that hides from events (another stream, after the stop event) breaks this."""
    if not side.events_ms:
        return None, True
    events = statistics.median(side.events_ms)
    return events, wall_ms <= 1.5 * events + 0.02
