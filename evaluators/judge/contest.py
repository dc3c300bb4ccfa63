"""The timed part of a session: turns against the baselines, some of them looked at by surprise.

A worker is the candidate's own process, so its word that calls were made is worth nothing. What counts is what lies in its memory:
at the end of each batch it is stopped before its results are looked at; and in some batches, which nothing tells from others, it is
stopped at a moment drawn at random, and the results it had claimed by then are looked at too.
"""

from __future__ import annotations

import os
import random
import statistics
import time
from typing import Any

from evaluators.judge import timing
from evaluators.judge.processes import Failed
from evaluators.judge.sampling import Samples
from evaluators.judge.session import WIDE, Session
from evaluators.verdict import Timing

_HELPINGS = 3
_NARROW = 1.2
_MOST = 3
_LEAST = 2
_ALONE = 5
"""Batches of each baseline with no candidate left."""
_STOPS = 10
"""Moments at which a watched batch is stopped. Results are looked at only in the first, of which nothing is known to the candidate."""
_IDLE_NS = 1_000_000
_ALTERED, _ALTERING_S = 3, 1.0
"""Watched batches, at most, in which inputs change, and seconds that may be spent on that in all."""
_SPARE, _ROUND_MS = 1.15, 0.25
"""Handing results over is free as long as it takes at most this many times what the reference's process needs for as many bytes, and
these milliseconds for a request and its reply."""
_BEHIND = 0.4
_SLACK_NS = 2_000_000
"""A batch's claims are behind where the calls done by a moment are fewer than the processor time used by then accounts for, by this
share of the whole batch and this many nanoseconds."""


class Contest:
    """One candidate's turns against the baselines of its session's reference."""

    def __init__(self, session: Session, batch_ms: float) -> None:
        self.session, self.worker, self.reference = session, session.worker, session.reference
        self.batch_ms, self.sets, self.page = batch_ms, session.sets, session.page
        self.handing = "describe" if session.readable else "later"
        self.allowance_ms = 0.0
        """Milliseconds that handing the results over may take for nothing, once a batch is done; more is the candidate's time."""
        self.draw = random.SystemRandom()
        self.results: dict[str, dict[str, Any]] = {}
        self.cut_short = False
        self.wrong = ""
        self.behind: list[bool] = []
        self.altered: int | None = None
        """The set whose inputs are other ones than at the batch's beginning."""
        self.altered_batches, self.altering_s = 0, 0.0
        """Batches in which that was done, and seconds spent on it."""
        self.samples = Samples(session.worker.library)
        self.ours = timing.Side(self._run, self._events, self.worker.go, self._pause, self.sets, floored=True)

    @property
    def charged(self) -> bool:
        """Whether the clock also looks at how long the results of a batch take to be handed over, where the judge cannot fetch them.

        Not so where they have to leave the device for it.
        """
        return self.handing == "later" and (self.session.device == "cpu" or self.reference.ipc)

    def prepare(self, whole: bool) -> None:
        """Choose the stronger baseline, once per judge (``whole``: with every baseline live); the candidate is stopped meanwhile."""
        self._pause()
        self.reference.choose(self.batch_ms, self.sets, whole)
        self.reference.pause()

    def run(self, whole: bool) -> tuple[Timing, list[str]]:
        """Alternate with the stronger baseline; every batch's last outputs are checked.

        With ``whole`` every baseline takes its turns and the stronger one is found in the same samples, so that all times given compare.
        Raises :class:`Failed`.
        """
        settings = self.session.settings
        chosen = self.reference.choose(self.batch_ms, self.sets, whole)
        flushed = self.session.device == "cuda" and self.reference.flush_bytes > 0
        names = [*chosen.ms] if whole else [chosen.stronger]
        theirs = [self.reference.side(n, self.sets, self.handing) for n in names]
        if self.charged:
            self.allowance_ms = _SPARE * self.reference.delivery_ms(self.sets) + _ROUND_MS
        ours = self.ours
        sides = [*theirs, ours]
        turns_ms = [s.calibrate(self.batch_ms, theirs[0] if flushed else None) * s.calls + s.overhead_ms for s in sides]
        budget_ms = settings.timing_budget_s * 1e3 * len(sides) / 2
        rounds = max(settings.min_pairs, min(settings.pairs, int(budget_ms / max(sum(turns_ms), 1e-3))))
        rows: list[tuple[float, ...]] = []
        for _ in range(
            _HELPINGS if whole else 1
        ):  # how wide an interval is says nothing of its sign: more pairs favour nobody
            rows += self._rounds(theirs, rounds)
            _, samples = _stronger(names, rows)
            _, low, high = timing.summarize(samples)
            if high <= _NARROW * low:
                break
        self._judge_progress()
        self.worker.close()
        if flushed:
            beyond = [side.overcharged(theirs[0]) for side in sides]
            rows = [tuple(t + more for t, more in zip(row, beyond, strict=True)) for row in rows]
        if not self.reference.intact():
            raise Failed(
                "tampering", "the processors or the priority of the reference's process were changed from outside"
            )
        return self._figures(names, theirs, rows, chosen.failure, flushed)

    def _rounds(self, theirs: list[timing.Side], rounds: int) -> list[tuple[float, ...]]:
        """``rounds`` timed turns of every side. Among them are turns of the candidate that are watched instead: which ones, and how many
        there will be, is not settled beforehand, so nothing can be learnt from those that were."""
        rows: list[tuple[float, ...]] = []
        settings, watched = self.session.settings, 0
        wanted = settings.watched * (2 if self.session.closer else 1)
        if self.session.inputs_may_change:
            wanted = 0  # no result can be checked
        elif self.ours.calls <= self.sets:
            wanted = min(wanted, 2)  # every call's result is checked anyway; whose code runs is still of interest
        finished = False
        while not finished:
            row = [self._undisturbed(side) for side in theirs]
            if watched < _MOST * wanted and (len(rows) >= rounds or self.draw.random() < wanted / (wanted + rounds)):
                self._watch()
                watched += 1
            else:
                rows.append((*row, self.ours.turn()))
            seen = watched >= _MOST * wanted or (watched >= _LEAST and self.samples.enough)
            finished = len(rows) >= rounds and seen
            self._check(inputs_too=finished)
            if self.wrong:  # and right when asked for
                raise Failed(
                    "tampering",
                    "a call that had returned had not done its work, or its result was overwritten by a later call: looked at in the "
                    f"middle of a batch, it was wrong, and right at the end: {self.wrong}",
                )
        return rows

    def _figures(
        self, names: list[str], theirs: list[timing.Side], rows: list[tuple[float, ...]], failure: str, flushed: bool
    ) -> tuple[Timing, list[str]]:
        """What the samples amount to. The baselines are timed once more, with nothing of the candidate left: it may have slowed them."""
        alone = [[side.turn() for _ in range(_ALONE)] for side in theirs]
        limited = [(*(min(a, max(t)) for a, t in zip(r[:-1], alone, strict=True)), r[-1]) for r in rows]
        stronger, samples = _stronger(names, limited)
        index = names.index(stronger)
        medians = {n: statistics.median(r[i] for r in limited) for i, n in enumerate(names)}
        ratio, low, high = timing.summarize(samples)
        candidate_ms = statistics.median(b for _, b in samples)
        events, agrees = timing.agreement(self.ours, candidate_ms)
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

    def _request(self, calls: int, offset: int, empty: bool = False) -> dict[str, Any]:
        return {
            "op": "time", "cases": list(range(self.sets)), "calls": calls, "offset": offset, "empty": empty, "results": self.handing,
        }  # fmt: skip

    def _run(self, calls: int, offset: int, empty: bool) -> float:
        self.cut_short = False
        self.page.clear()
        asked = self._request(calls, offset, empty)
        self.results = self.worker.ask(asked, self.session.settings.run_s + 10.0)["results"]
        if not self.charged:
            return 0.0
        begin = time.perf_counter()
        self.results = self.worker.ask({"op": "collect"}, 60.0)["results"]
        return min((time.perf_counter() - begin) * 1e3, self.allowance_ms)

    def _events(self) -> float | None:
        found = self.worker.ask({"op": "events"}, 30.0)["events_ms"] if self.session.device == "cuda" else None
        return None if found is None else float(found)

    def _pause(self) -> None:
        self.worker.pause()
        self.worker.alone()

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

    def _watch(self) -> None:
        """A turn that is not timed, stopped at moments drawn at random within the time that a turn takes."""
        few = self.ours.calls <= 2 * self.sets  # hardly a set's turn comes again
        if self.handing != "describe" or few or not self.altered_batches:  # before the batch; once for every candidate
            coming = self.draw.randrange(min(self.ours.calls, self.sets))
            self._alter((self.ours.offset + coming) % self.sets)
        ours, first = self.ours, self.draw.uniform(0.03, 0.97)
        moments = [
            m * ours.shortest_s for m in (first, *sorted(self.draw.uniform(first, 0.99) for _ in range(_STOPS - 1)))
        ]
        self.worker.go()
        self.page.clear()  # while the worker waits for a request: what stands there later was put there in this batch
        begin = time.perf_counter()
        self.worker.begin(self._request(ours.calls, ours.offset))
        self.cut_short = False
        stopped, before = 0.0, self.worker.cpu_ns()
        claims: list[tuple[int, int]] = []
        for number, moment in enumerate(moments if self.handing == "describe" else moments[:1]):
            time.sleep(max(begin + stopped + moment - time.perf_counter(), 0.0))
            now = time.perf_counter()
            if self.handing == "describe":
                self.worker.pause()
                claims.append((self.worker.cpu_ns() - before, self.page.count))
                if number == 0:
                    self._look()
                    self._alter_one_to_come()
                    self.samples.map(self.worker.pid)
                self.samples.take(self.worker.pid)
                self.worker.go()
                stopped += time.perf_counter() - now
            else:
                self.page.stop = self.cut_short = (
                    True  # the batch ends with its present call: what it has is what is checked
                )
        self.results = self.worker.finish("time", self.session.settings.run_s + 10.0)["results"]
        self._pause()
        if self.handing == "describe":
            whole = self.worker.cpu_ns() - before
            underway = [(used, count) for used, count in claims if 0 < count < ours.calls]
            if underway:
                worst = max(
                    used - (count + 1) / ours.calls * whole for used, count in underway
                )  # one call may be under way
                self.behind.append(worst > _BEHIND * whole + _SLACK_NS)
        self.page.stop = False
        ours.offset = (ours.offset + ours.calls) % self.sets

    def _look(self) -> None:
        """Check every result that the stopped worker claims to have, but for the set it is at."""
        count = self.page.count
        if count > self.ours.calls:
            raise Failed("tampering", "the worker claims more calls than it was asked for")
        at = (self.ours.offset + count) % self.sets if count < self.ours.calls and self.sets > 1 else None
        for number in range(self.sets):
            places = self.page.places(number)
            last = self.results.get(str(number))
            if number == at or last is None or len(last.get("outputs", ())) > len(places):
                continue
            if not any(places):
                if (number - self.ours.offset) % self.sets < count and self.session.blocks.holds_any(number):
                    raise Failed("tampering", "the worker claims calls whose results lie nowhere")
                continue
            outputs = [{**o, "at": place} for o, place in zip(last["outputs"], places, strict=False)]
            self.session.blocks.fill(self.worker.pid, number, outputs)
            verdict = self.session.check(number, {**last, "outputs": outputs}, inputs_too=False)
            if not verdict["ok"]:
                self.wrong = verdict["detail"]
        self.reference.pause()

    def _alter_one_to_come(self) -> None:
        """Change inputs of a set that is not under way and whose turn will come again in this batch. Late in it there may be none."""
        done, calls = self.page.count, self.ours.calls
        if self.altered is None and self.sets > 1 and done + self.sets < calls:
            self._alter((self.ours.offset + done + self.draw.randrange(1, self.sets)) % self.sets)

    def _alter(self, number: int) -> None:
        if self.altered_batches >= _ALTERED * (2 if self.session.closer else 1) or self.altering_s > _ALTERING_S:
            return
        begin = time.perf_counter()
        reply, _ = self.reference.ask({"op": "alter", "case": number})
        self.altered = number if reply["altered"] else None
        self.altered_batches += bool(reply["altered"])
        self.reference.pause()
        self.altering_s += time.perf_counter() - begin

    def _judge_progress(self) -> None:
        """Raise :class:`Failed` where claims lag behind the processor time used, again and again: such calls are never made."""
        if sum(self.behind) >= 2 and sum(self.behind) * 2 >= len(self.behind):
            raise Failed(
                "tampering", "most calls of a batch seem to be made in no time at its end: they are not made at all"
            )

    def _check(self, inputs_too: bool = False) -> None:
        """Check the outputs of the batch just done; a wrong one fails the candidate."""
        if self.handing == "later" and not self.results:
            self.worker.go()
            self.results = self.worker.ask({"op": "collect"}, 60.0)["results"]
            self._pause()
        if self.session.inputs_may_change:
            return
        done = self.page.count
        if done != self.ours.calls and not self.cut_short:
            raise Failed("tampering", f"the worker made {done} calls of the {self.ours.calls} it was asked for")
        if not self.results or (done >= self.sets and {str(k) for k in range(self.sets)} != set(self.results)):
            raise Failed("tampering", "the worker has not the outputs to show for a timed batch")
        for name, reply in self.results.items():
            if int(name) >= self.sets:
                raise Failed("tampering", "the worker names a case that does not exist")
            if self.handing == "describe" and "outputs" in reply:
                self.session.blocks.fill(self.worker.pid, int(name), reply["outputs"])
            verdict = self.session.check(int(name), reply, inputs_too)
            if not verdict["ok"]:
                raise Failed(
                    verdict["status"], f"correct when called once, wrong in a timed batch: {verdict['detail']}"
                )
        if self.altered is not None:
            self.reference.ask({"op": "restore", "case": self.altered})
            self.altered = None
        self.reference.pause()


def _stronger(names: list[str], rows: list[tuple[float, ...]]) -> tuple[str, list[tuple[float, float]]]:
    """The baseline with the smaller median, and its samples paired with the candidate's, which are the last of each row."""
    medians = [statistics.median(r[i] for r in rows) for i in range(len(names))]
    index = medians.index(min(medians))
    return names[index], [(r[index], r[-1]) for r in rows]
