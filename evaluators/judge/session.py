"""One candidate's session: its worker from load to the last timed batch. Everything raised as ``Failed`` is the candidate's doing."""

from __future__ import annotations

import os
import secrets
import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any

from evaluators.judge import timing
from evaluators.judge.processes import Failed, Server
from evaluators.judge.reference import Reference
from evaluators.judge.settings import JudgeSettings
from evaluators.judge.workers import Worker
from evaluators.languages.base import Build
from evaluators.languages.cpp import LIBRARY_VARIABLE
from evaluators.verdict import Accuracy, Timing

_HELPINGS = 3
_NARROW = 1.2
WIDE = 1.5
"""Quotient of an interval's borders from which on other work on the machine is the likely cause."""


class Session:
    """A fresh worker for one built candidate, and what was found so far."""

    def __init__(
        self,
        build: Build,
        zygote: Server,
        reference: Reference,
        settings: JudgeSettings,
        triton_seed: str | None = None,
        interpreter: bool = False,
    ) -> None:
        self.build, self.reference, self.settings, self.interpreter = build, reference, settings, interpreter
        self.device = reference.device
        limits = settings.limits(self.device)
        self.worker = Worker(zygote, limits, {LIBRARY_VARIABLE: build.native or ""}, triton_seed)
        self.isolation = ""
        self.accuracy: Accuracy | None = None
        self.seed = secrets.randbits(40)
        self.sets = settings.seeds
        self.missing: list[str] = []
        self.operators: list[str] = []
        """PyTorch operators that did work during a call."""
        self.inputs_may_change = False

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.worker.close()
        self.reference.go()

    def load(self) -> None:
        """Import, construct, copy parameters."""
        self.isolation = self.worker.ask({"op": "hello"}, 30.0)["isolation"]
        about, fds = self.reference.ask({"op": "parameters"})
        spec = self.reference.spec
        try:
            reply = self.worker.ask(
                {
                    "op": "load", "source": self.build.source, "device": self.device, "threads": self.reference.threads,
                    "flush_bytes": self.reference.flush_bytes, "precision": spec.precision, "dtype": spec.dtype, "mode": spec.mode,
                    "seed": self.seed, "interpreter": self.interpreter,
                    "arguments": self.reference.arguments, "keywords": self.reference.keywords,
                    "parameters": about["parameters"], "blocks": about["blocks"],
                },
                self.settings.load_s, fds,
            )  # fmt: skip
        finally:
            close_all(fds)
        self.missing = reply["missing"]

    def correctness(self, poisons: tuple[int, ...]) -> Accuracy:
        """Every case, once per poison; raises :class:`Failed` with the first failing verdict."""
        worst: dict[str, Any] | None = None
        number = 0
        while number < self.sets:
            self._hand_over(number)
            verdicts = [self._run(number, poison) for poison in poisons]
            for verdict in verdicts:
                if worst is None or not verdict["ok"] or verdict.get("error", 0.0) > worst["error"]:
                    worst = verdict if "error" in verdict else worst
            self.accuracy = _accuracy(worst, number + 1)
            bad = [v for v in verdicts if not v["ok"]]
            if not bad:
                number += 1
                continue
            if len(bad) < len(verdicts) and bad[0]["status"] == "mismatch":
                raise Failed(
                    "nondeterministic",
                    "correct in one repeat, wrong in another with differently filled memory: " + bad[0]["detail"],
                )
            hint = f"; the candidate does not use {', '.join(self.missing[:6])}" if self.missing else ""
            raise Failed(bad[0]["status"], f"seed {number + 1} of {self.sets}: {bad[0]['detail']}{hint}")
        assert self.accuracy is not None
        return self.accuracy

    def _hand_over(self, number: int) -> None:
        case, fds = self.reference.case(number)
        self.inputs_may_change = bool(case["inputs_may_change"])
        self.sets = min(self.sets, int(case["affordable"]))
        # The oracle keeps its own descriptors; these are duplicates that arrived with the message.
        try:
            self.worker.ask(
                {"op": "case", "case": number, **{k: case[k] for k in ("tree", "inputs", "outputs", "blocks")}},
                120.0,
                fds,
            )
        finally:
            close_all(fds)

    def _run(self, number: int, poison: int) -> dict[str, Any]:
        reply = self.worker.ask(
            {
                "op": "run", "case": number, "poison": poison, "seed": self.reference.seeds[number] % 2**63, "record": not number,
            },
            self.settings.run_s,
        )  # fmt: skip
        self.operators = sorted({*self.operators, *reply.get("operators", [])})
        return self._check(number, reply)

    def _check(self, number: int, reply: dict[str, Any], inputs_too: bool = True) -> dict[str, Any]:
        verdict, _ = self.reference.ask({"op": "check", "case": number, "reply": reply, "inputs_too": inputs_too})
        return verdict

    def resources(self, known: dict[str, Any]) -> dict[str, Any]:
        """Compilation's report plus, on a GPU, registers, spills and shared memory of the kernels that ran."""
        if self.device == "cuda":
            try:
                known["kernels"] = self.worker.ask({"op": "resources"}, 30.0)["kernels"]
            except Failed as failure:
                if failure.status == "tampering":
                    raise
                known["kernels_unknown"] = failure.message[:200]  # says nothing of the candidate's results
        return known

    def prepare_timing(self, whole: bool = False) -> None:
        """Choose the stronger baseline, once per judge (``whole``: with every baseline live); the candidate is stopped meanwhile."""
        self.worker.pause()
        self.reference.choose(self._batch_ms(), self.sets, whole)
        self.reference.pause()

    def _batch_ms(self) -> float:
        return self.settings.batch_ms_gpu if self.device == "cuda" else self.settings.batch_ms_cpu

    def _side(self) -> timing.Side:
        def run(calls: int, offset: int, empty: bool) -> None:
            self.worker.ask(
                {"op": "time", "cases": list(range(self.sets)), "calls": calls, "offset": offset, "empty": empty},
                self.settings.run_s + 10.0,
            )

        def events() -> float | None:
            found = self.worker.ask({"op": "events"}, 30.0)["events_ms"] if self.device == "cuda" else None
            return None if found is None else float(found)

        return timing.Side(run, events, self.worker.go, self.worker.pause, self.sets)

    def timing(self, whole: bool = False) -> tuple[Timing, list[str]]:
        """Alternate with the stronger baseline; every batch's last outputs are checked.

        With ``whole`` every baseline takes its turns and the stronger one is found in the same samples, so that all times given compare.
        """
        chosen = self.reference.choose(self._batch_ms(), self.sets, whole)
        flushed = self.device == "cuda" and self.reference.flush_bytes > 0
        names = [*chosen.ms] if whole else [chosen.stronger]
        ours = self._side()
        sides = [*(self.reference.side(n, self.sets) for n in names), ours]
        turns_ms = [s.calibrate(self._batch_ms(), flushed) * s.calls + s.overhead_ms for s in sides]
        budget_ms = self.settings.timing_budget_s * 1e3 * len(sides) / 2
        rounds = max(self.settings.min_pairs, min(self.settings.pairs, int(budget_ms / max(sum(turns_ms), 1e-3))))
        rows: list[tuple[float, ...]] = []
        for _ in range(
            _HELPINGS if whole else 1
        ):  # how wide an interval is says nothing of its sign, so more pairs favour nobody
            rows += timing.alternate(sides, rounds, self._check_timed)
            medians = {n: statistics.median(r[i] for r in rows) for i, n in enumerate(names)}
            stronger = min(medians, key=lambda n: medians[n])
            samples = [(r[names.index(stronger)], r[-1]) for r in rows]
            ratio, low, high = timing.summarize(samples)
            if high <= _NARROW * low:
                break
        self._check_timed(inputs_too=True)
        candidate_ms = statistics.median(b for _, b in samples)
        events, agrees = timing.agreement(ours, candidate_ms)
        notes = [f"{ratio:.2f}x over {stronger} [{low:.2f}, {high:.2f}]"]
        if chosen.failure:
            notes.append(f"no torch.compile baseline ({chosen.failure.splitlines()[0][:160]}); eager was used")
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

    def _check_timed(self, inputs_too: bool = False) -> None:
        """Check the outputs of the batch just timed; a wrong one fails the candidate."""
        self.worker.go()
        results = self.worker.ask({"op": "collect"}, 60.0)["results"]
        if self.inputs_may_change:
            return
        if not results:
            raise Failed("tampering", "the worker has no outputs to show for a timed batch")
        for number, reply in results.items():
            if str(number) not in map(str, range(self.sets)):
                raise Failed("tampering", "the worker names a case that does not exist")
            verdict = self._check(int(number), reply, inputs_too)
            if not verdict["ok"]:
                raise Failed(
                    verdict["status"], f"correct when called once, wrong in a timed batch: {verdict['detail']}"
                )
        self.worker.pause()
        self.reference.pause()


@contextmanager
def phase(phases: dict[str, float], name: str) -> Iterator[None]:
    """Add the seconds spent inside to ``phases[name]``."""
    begin = time.perf_counter()
    try:
        yield
    finally:
        phases[name] = phases.get(name, 0.0) + time.perf_counter() - begin


def close_all(fds: list[int]) -> None:
    """Close descriptors that were received and handed on."""
    for fd in fds:
        os.close(fd)


def _accuracy(verdict: dict[str, Any] | None, seeds: int) -> Accuracy | None:
    if verdict is None:
        return None
    return Accuracy(verdict["error"], verdict["reference_error"], verdict["max_abs_error"], seeds, verdict["detail"])
