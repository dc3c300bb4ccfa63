"""The candidate's batches: every call on inputs of its own, results looked at afterwards, and some batches stopped half-way.

A worker is the candidate's own process, so its word that calls were made is worth nothing. What counts is what lies in its memory: at
the end of each batch it is stopped, and then the results of a few sets are looked at that nobody could know of; and some batches, which
nothing tells from others, are stopped at a moment drawn at random, and results claimed by then are looked at too.
"""

from __future__ import annotations

import random
import statistics
import time
from typing import Any

from evaluators.judge import facts
from evaluators.judge.memory.page import PLACES
from evaluators.judge.processes import procfs
from evaluators.judge.processes.processes import Failed
from evaluators.judge.session import Session, close_all
from evaluators.judge.timing import timing
from evaluators.judge.whose.sampling import Samples

_STOPS = 15
"""Moments at which a watched batch is stopped. Results are looked at only in the first, of which nothing is known to the candidate."""
_LOOKED_AT = 4
"""Sets of a watched batch whose results are looked at, where that is quick."""
_ALWAYS, _LOOKING_S = 4, 0.6
"""Results that are looked at however long it takes, and seconds for all of them; beyond these a batch is looked at by chance."""
_SELDOM = 0.25
"""How likely a batch is looked at where looking takes longer than there is time for: never to be relied on."""
_SPARE, _ROUND_MS = 1.15, 0.25
"""Handing results over is free as long as it takes at most this many times what the reference's process needs for as many bytes, and
these milliseconds for a request and its reply."""
_BEHIND = 0.4
_SLACK_NS = 2_000_000
"""A batch's claims are behind where the calls done by a moment are fewer than the processor time used by then accounts for, by this
share of the whole batch and this many nanoseconds."""
_MANY = 1024
"""Calls whose loop alone takes longer than a worker needs from waking to its first call."""
_CROWDED, _CROWDED_NS = 1.2, 10_000_000
"""How many times the processor time that threads can use in all timed batches' wall-clock time they may have used, beside a slack."""


class Batches:
    """What the judge asks of a candidate's worker while it is timed, and what it checks of it."""

    def __init__(self, session: Session) -> None:
        self.session, self.worker, self.reference, self.page = session, session.worker, session.reference, session.page
        outputs = len(session.form.get("outputs", ()))
        self.fetched = session.readable and outputs * self.reference.sets <= PLACES
        """Whether the judge reads results from the worker's memory; where not, the worker hands them over."""
        self.allowance_ms = 0.0
        """Milliseconds that handing the results over may take for nothing, once a batch is done."""
        self.overdue: list[float] = []
        """Milliseconds beyond these that it took, for each timed batch."""
        self.draw = random.SystemRandom()
        self.watch: list[int] = []
        self.thorough = self.draw.randrange(_ALWAYS)
        """Which of the first looks is at every element by its own size."""
        self.looks, self.looking_s = 0, 0.0
        """Results of timed calls that were looked at, and seconds spent on it."""
        self.cut_short = False
        self.wrong = ""
        self.behind: list[bool] = []
        self.silent: list[bool] = []
        """Of each watched batch of many calls: whether none was claimed at any look while it was under way."""
        self.used_ns, self.ready_ns, self.wall_s, self.calls, self.faults = 0, 0, 0.0, 0, 0
        """Of the timed batches together: processor time, that and waiting for processors, wall-clock time, calls, page faults."""
        self.samples = Samples(session.build.native, session.plumbing)
        self.page.outputs = max(outputs, 1)
        self.side = timing.Side(self.worker.pause, self._run, self._events, self._prepare, self.reference.sets)
        self._hand_stock_over()

    @property
    def charged(self) -> bool:
        """Whether the clock also looks at how long the results of a batch take to be handed over, where the judge cannot fetch them.

        Not so where they have to leave the device for it.
        """
        return not self.fetched and (self.session.device == "cpu" or self.reference.ipc)

    def _hand_stock_over(self) -> None:
        about, fds = self.reference.stock(0.0, self.session.sets, outputs=not self.fetched)
        self.worker.go()
        try:
            self.worker.ask(
                {
                    "op": "stock", "count": about["count"], "tree": about["tree"], "layouts": about["layouts"],
                    "blocks": about["blocks"], "outputs": self.page.outputs, "deliver": not self.fetched, "flush": about["flush"],
                },
                120.0, fds,
            )  # fmt: skip
        finally:
            close_all(fds)
        self.pause()

    def begin(self) -> None:
        """What was counted while warming up counts no longer. Find out how long results may take to be handed over."""
        self.used_ns, self.ready_ns, self.wall_s, self.calls, self.faults = 0, 0, 0.0, 0, 0
        self.overdue.clear()
        if self.charged:
            self.allowance_ms = _SPARE * self.reference.delivery_ms(self.side.calls) + _ROUND_MS

    @property
    def overdue_ms(self) -> float:
        """Milliseconds per call that go on the candidate's clock since its results took long to be handed over: the median over the
        batches, so that one that was disturbed costs nothing, and work put off in most of them costs its time in all."""
        return max(statistics.median(self.overdue), 0.0) / self.side.calls if self.overdue else 0.0

    def pause(self) -> None:
        """Stop the worker, and see that nothing else of the candidate runs."""
        self.worker.pause()
        self.worker.alone()

    def _prepare(self, calls: int, offset: int, most: int = 2) -> None:
        """Fresh inputs for the coming calls; which results will be looked at is settled now, and known to nobody."""
        several = min(calls, self._affordable(most))
        self.watch = [(offset + k) % self.reference.sets for k in self.draw.sample(range(calls), several)]
        self.reference.refresh(calls, offset, self.watch)
        self.reference.pause()
        if not self.fetched and self.session.device == "cuda" and not self.reference.ipc:
            self.worker.go()
            self.worker.ask({"op": "renew"}, 60.0)

    def _affordable(self, most: int) -> int:
        """How many results of the coming batch to look at: a random number of them where looking takes long."""
        if self.looks < _ALWAYS:
            return min(most, 1 + (self.looking_s < _LOOKING_S / 4))
        left = _LOOKING_S * (2 if self.session.closer else 1) - self.looking_s
        settings = self.session.settings
        share = left / (settings.pairs + settings.watched) / max(self.looking_s / self.looks, 1e-6)
        return min(most, int(max(share, _SELDOM) + self.draw.random()))

    def _request(self, calls: int, offset: int, empty: bool = False, record: bool = False) -> dict[str, Any]:
        return {"op": "time", "calls": calls, "offset": offset, "empty": empty, "record": record}

    def _run(self, calls: int, offset: int, empty: bool) -> float:
        self.cut_short = False
        self.page.clear(self.reference.sets)
        pid = self.worker.pid
        before, faults, delayed = self.worker.cpu_ns(), procfs.faults(pid), procfs.delayed_ns(pid)
        begin = time.perf_counter()
        self.worker.go()
        self.worker.ask(self._request(calls, offset, empty), self.session.settings.run_s + 10.0)
        asked_s = time.perf_counter() - begin
        if not self.fetched and not empty:
            handed = time.perf_counter()
            self.worker.ask({"op": "collect"}, 60.0)
            if self.charged:
                self.overdue.append((time.perf_counter() - handed) * 1e3 - self.allowance_ms)
        wall_ms = 1e3 * asked_s + timing.stop(self.worker.pause, self.worker.cpu_ns, self.session.device == "cuda")
        self._count(self.worker.cpu_ns() - before, time.perf_counter() - begin)
        self.calls += calls
        self.faults += procfs.faults(pid) - faults
        self.ready_ns += procfs.delayed_ns(pid) - delayed
        self.worker.alone()
        return wall_ms

    def _count(self, used_ns: int, wall_s: float) -> None:
        self.used_ns += used_ns
        self.ready_ns += used_ns
        self.wall_s += wall_s

    def _events(self) -> float | None:
        if self.session.device != "cuda":
            return None
        self.worker.go()
        found = self.worker.ask({"op": "events"}, 30.0)["events_ms"]
        self.worker.pause()
        if found is None:
            raise Failed("tampering", "the worker does not say what device events lie around its calls")
        return float(found)

    def watched(self) -> None:
        """A turn that is not timed, stopped at moments drawn at random within the time that a turn takes."""
        ours, first = self.side, self.draw.uniform(0.03, 0.97)
        self._prepare(ours.calls, ours.offset, _LOOKED_AT)
        self.samples.call_ms = 1e3 * ours.last_s / ours.calls
        moments = [m * ours.last_s for m in (first, *sorted(self.draw.uniform(first, 0.99) for _ in range(_STOPS - 1)))]
        # As a timed batch begins, to the worker's eyes: what the judge reads beforehand, it reads while the worker stands still.
        self.page.clear(self.reference.sets)
        ours.settle()
        begin = time.perf_counter()
        self.worker.go()
        # On a CPU the program counters that are met say whose code runs.
        self.worker.begin(self._request(ours.calls, ours.offset, record=self.session.device == "cuda"))
        self.cut_short = False
        stopped, before = 0.0, self.worker.cpu_ns()
        claims: list[tuple[int, int]] = []
        for number, moment in enumerate(moments if self.fetched else moments[:1]):
            time.sleep(max(begin + stopped + moment - time.perf_counter(), 0.0))
            now = time.perf_counter()
            if self.fetched:
                self.worker.pause()
                claims.append((self.worker.cpu_ns() - before, self.page.count))
                if number == 0:
                    self.worker.alone()
                    self._look()
                    self.samples.map(self.worker.pid)
                self.samples.take(self.worker.pid, self.page.count >= ours.calls, number == 0)
                self.worker.go()
                stopped += time.perf_counter() - now
            else:
                self.page.stop = self.cut_short = (
                    True  # the batch ends with its present call: what it has is what is checked
                )
        self.session.used(self.worker.finish("time", self.session.settings.run_s + 10.0))
        if not self.fetched:
            self.worker.ask({"op": "collect"}, 60.0)
        self.pause()
        if self.fetched:
            whole = self.worker.cpu_ns() - before
            underway = [(used, count) for used, count in claims if count < ours.calls]
            if underway and ours.calls >= _MANY:
                self.silent.append(not any(count for _, count in underway))
            if underway:
                worst = max(
                    used - (count + 1) / ours.calls * whole for used, count in underway
                )  # one call may be under way
                self.behind.append(worst > _BEHIND * whole + _SLACK_NS)
        self.page.stop = False
        ours.offset = (ours.offset + ours.calls) % ours.sets

    def _look(self) -> None:
        """Look at results that the stopped worker claims to have."""
        count = self.page.count
        if count > self.side.calls:
            raise Failed("tampering", "the worker claims more calls than it was asked for")
        for number in self.watch:
            if (number - self.side.offset) % self.side.sets < count:
                verdict = self._verdict(number)
                if not verdict["ok"]:
                    self.wrong = verdict["detail"]
        self.reference.pause()

    def check(self) -> None:
        """Look at the results of the batch just done; a wrong one fails the candidate."""
        done = self.page.count
        if done != self.side.calls and not self.cut_short:
            raise Failed("tampering", f"the worker made {done} calls of the {self.side.calls} it was asked for")
        begin = (self.side.offset - self.side.calls) % self.side.sets
        for number in self.watch:
            if (number - begin) % self.side.sets >= done:
                continue
            verdict = self._verdict(number)
            if not verdict["ok"]:
                raise Failed(
                    verdict["status"],
                    "right when called alone, wrong in a timed batch, where each call has inputs of its own: " + verdict["detail"],
                )  # fmt: skip
        self.reference.pause()
        if self.wrong:  # and right when asked for
            raise Failed(
                "tampering",
                "a call that had returned had not done its work, or its result was overwritten by a later call: looked at in the "
                f"middle of a batch, it was wrong, and right at the end: {self.wrong}",
            )

    def _verdict(self, number: int) -> dict[str, Any]:
        begin = time.perf_counter()
        try:
            return self._looked_up(number)
        finally:
            self.looks += 1
            self.looking_s += time.perf_counter() - begin

    def _looked_up(self, number: int) -> dict[str, Any]:
        reply = self.session.form
        if self.fetched:
            places = self.page.places(number)
            if not any(places) and self.session.blocks.holds_any(0):
                raise Failed("tampering", "the worker claims calls whose results lie nowhere")
            outputs = [{**o, "at": place} for o, place in zip(reply["outputs"], places, strict=False)]
            self.session.own_memory(outputs)
            self.session.blocks.fill(self.worker.pid, 0, outputs)
            reply = {**reply, "outputs": outputs}
        asked = {
            "op": "timed", "set": number, "case": 0, "reply": reply, "delivered": not self.fetched,
            "thorough": self.looks == self.thorough,
        }  # fmt: skip
        verdict, _ = self.reference.ask(asked)
        return verdict

    def facts(self) -> list[facts.Fact]:
        """What was measured beside time."""
        if self.session.device != "cpu":
            return []
        return facts.of_threads(self.ready_ns, self.wall_s, self.calls, self.reference.threads, self.faults)

    def judge_progress(self) -> None:
        """Raise :class:`Failed` where claims lag behind the processor time used, again and again: such calls are never made. Or where
        the batches together used more processor time than their threads can."""
        if sum(self.behind) >= 2 and sum(self.behind) * 2 >= len(self.behind):
            raise Failed(
                "tampering", "most calls of a batch seem to be made in no time at its end: they are not made at all"
            )
        if len(self.silent) >= 2 and all(self.silent):
            raise Failed(
                "tampering", "of many calls none was claimed before the end of a batch: they were not made one by one"
            )
        if not self.used_ns or self.session.device != "cpu":
            return
        if self.used_ns > _CROWDED * self.reference.threads * self.wall_s * 1e9 + _CROWDED_NS:
            raise Failed(
                "tampering",
                f"the worker used more processor time than its {self.reference.threads} thread(s) can: it has others",
            )
