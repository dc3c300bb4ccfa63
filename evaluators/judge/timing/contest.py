"""The timed part of a session: turns against the baselines, and what their times amount to."""

from __future__ import annotations

import os
import random
import statistics

from evaluators.judge.processes.processes import Failed
from evaluators.judge.session import WIDE, Session, close_all
from evaluators.judge.timing import timing
from evaluators.judge.timing.batches import Batches
from evaluators.verdict import Timing

_HELPINGS = 3
_NARROW = 1.2
_EARLY, _PRECISE = (7, 9), 1.04
"""Numbers of pairs after which a search has enough, where the borders of the interval are no further apart than this."""
_MOST = 3
_LEAST = 2
_ALONE = 5
"""Batches of each baseline with no candidate left."""
_IDLE_NS = 1_000_000


class Contest:
    """One candidate's turns against the baselines of its session's reference."""

    def __init__(self, session: Session, batch_ms: float) -> None:
        self.session, self.worker, self.reference = session, session.worker, session.reference
        self.batch_ms, self.draw = batch_ms, random.SystemRandom()
        self.batches: Batches

    def prepare(self, whole: bool) -> None:
        """Make the input sets and choose the stronger baseline, once per judge (``whole``: with every baseline live); the candidate is
        stopped meanwhile."""
        self.worker.pause()
        self.worker.alone()
        _, fds = self.reference.stock(self.batch_ms, self.session.sets)
        close_all(fds)
        self.reference.choose(self.batch_ms, whole)
        self.batches = Batches(self.session)
        self.reference.pause()

    def run(self, whole: bool) -> tuple[Timing, list[str]]:
        """Alternate with the stronger baseline; some results of every batch are checked, by chance which.

        With ``whole`` every baseline takes its turns and the stronger one is found in the same samples, so that all times given compare.
        Raises :class:`Failed`.
        """
        settings = self.session.settings
        chosen = self.reference.choose(self.batch_ms, whole)
        flushed = self.session.device == "cuda" and self.reference.flush_bytes > 0
        names = [*chosen.ms] if whole else [chosen.stronger]
        theirs = [self.reference.side(n) for n in names]
        sides = [*theirs, self.batches.side]
        turns_ms = [s.calibrate(self.batch_ms, theirs[0] if flushed else None) * s.calls + s.overhead_ms for s in sides]
        self.reference.calls.update({n: s.calls for n, s in zip(names, theirs, strict=True)})
        self.batches.begin()
        budget_ms = settings.timing_budget_s * 1e3 * len(sides) / 2
        rounds = max(settings.min_pairs, min(settings.pairs, int(budget_ms / max(sum(turns_ms), 1e-3))))
        rows: list[tuple[float, ...]] = []
        for _ in range(
            _HELPINGS if whole else 1
        ):  # how wide an interval is says nothing of its sign: more pairs favour nobody
            rows += self._rounds(theirs, rounds, () if whole else _EARLY)
            if _within(_NARROW, rows):
                break
        self.batches.judge_progress()
        self.worker.close()
        ours = self.batches.side
        if ours.events_ms:
            for side in sides if flushed else []:
                side.flush_again(theirs[0])
            rows = [(*row[:-1], ms) for row, ms in zip(rows, timing.fair(ours, theirs), strict=True)]
        rows = [(*row[:-1], row[-1] + self.batches.overdue_ms) for row in rows]
        if not self.reference.intact():
            raise Failed(
                "tampering", "the processors or the priority of the reference's process were changed from outside"
            )
        return self._figures(names, theirs, rows, chosen.failure, flushed)

    def _rounds(self, theirs: list[timing.Side], rounds: int, early: tuple[int, ...]) -> list[tuple[float, ...]]:
        """``rounds`` timed turns of every side, or as many of ``early`` as make the interval narrow. Among them are turns of the
        candidate that are watched instead: which ones, and how many there will be, is not settled beforehand, so nothing can be learnt
        from those that were."""
        rows: list[tuple[float, ...]] = []
        settings, watched = self.session.settings, 0
        batches = self.batches
        wanted = settings.watched * (2 if self.session.closer else 1)
        if batches.side.calls == 1:
            wanted = min(wanted, 2)  # every call's result is looked at anyway; whose code runs is still of interest
        timed, finished = False, False
        while not finished:
            row = [self._undisturbed(side) for side in theirs]
            # When to stop a batch is known from a timed one only: results of those that calibrate are not looked at.
            if rows and watched < _MOST * wanted and (timed or self.draw.random() < wanted / (wanted + rounds)):
                batches.watched()
                watched += 1
            else:
                rows.append((*row, batches.side.turn()))
                timed = len(rows) >= rounds or (len(rows) in early and _within(_PRECISE, rows))
            seen = watched >= _MOST * wanted or (watched >= _LEAST and batches.samples.enough)
            finished = timed and seen
            batches.check()
        return rows

    def _figures(
        self, names: list[str], theirs: list[timing.Side], rows: list[tuple[float, ...]], failure: str, flushed: bool
    ) -> tuple[Timing, list[str]]:
        """What the samples amount to. The baselines are timed once more, with nothing of the candidate left: it may have slowed them."""
        alone = [[side.turn() for _ in range(_ALONE)] for side in theirs]
        limited = [(*(min(a, max(t)) for a, t in zip(r[:-1], alone, strict=True)), r[-1]) for r in rows]
        index, samples = _stronger(limited)
        stronger = names[index]
        medians = {n: statistics.median(r[i] for r in limited) for i, n in enumerate(names)}
        ratio, low, high = timing.summarize(samples)
        candidate_ms = statistics.median(b for _, b in samples)
        events, agrees = timing.agreement(self.batches.side, candidate_ms)
        notes = [f"{ratio:.2f}x over {stronger} [{low:.2f}, {high:.2f}]"]
        slowed = statistics.median(r[index] for r in rows) / max(alone[index])
        if slowed > 1.1:
            notes.append(
                f"{stronger} took {slowed:.1f} times as long beside the candidate as alone, and the time alone counts"
            )
        if failure:
            notes.append(f"no torch.compile baseline ({failure.splitlines()[0][:160]}); eager was used")
        if low <= 1.0 <= high:
            notes.append("the interval reaches 1: no gain or loss is established")
        if high > WIDE * low:
            load, cores = os.getloadavg()[0], len(os.sched_getaffinity(0))
            notes.append(
                f"the samples scatter widely: other work disturbed them (load {load:.1f} on {cores} cores); repeat it when idle"
            )
        if not agrees:
            notes.append(
                f"the device events ({events:.4f} ms) disagree with the wall clock ({candidate_ms:.4f} ms), which decides"
            )
        measured = Timing(
            candidate_ms=candidate_ms,
            baseline=stronger,
            baselines=medians,
            ratio=ratio,
            low=low,
            high=high,
            samples=tuple(samples),
            clock="wall, cold L2" if flushed else "wall",
            event_ms=events,
        )
        return measured, notes

    def _undisturbed(self, side: timing.Side) -> float:
        """A baseline's turn, in which the stopped candidate uses no processor time: that is measured."""
        before = self.worker.cpu_ns()
        found = side.turn()
        used = self.worker.cpu_ns() - before
        if used > _IDLE_NS:
            raise Failed(
                "tampering",
                f"the stopped candidate used {used / 1e6:.1f} ms of processor time while the baseline was timed",
            )
        self.worker.alone()
        return found


def _within(times: float, rows: list[tuple[float, ...]]) -> bool:
    """Whether the interval's upper border is at most so many times the lower one."""
    _, low, high = timing.summarize(_stronger(rows)[1])
    return high <= times * low


def _stronger(rows: list[tuple[float, ...]]) -> tuple[int, list[tuple[float, float]]]:
    """The index of the baseline with the smaller median, and its samples paired with the candidate's, which are the last of each row."""
    medians = [statistics.median(r[i] for r in rows) for i in range(len(rows[0]) - 1)]
    index = medians.index(min(medians))
    return index, [(r[index], r[-1]) for r in rows]
