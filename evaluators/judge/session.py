"""One candidate's session: its worker, and whether its results are right. What is raised as ``Failed`` is the candidate's doing."""

from __future__ import annotations

import mmap
import os
import re
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any

from evaluators.judge.memory.page import PAGE_WORDS, Page, seal
from evaluators.judge.processes import peek, procfs
from evaluators.judge.processes.peek import Blocks
from evaluators.judge.processes.processes import Failed, Server
from evaluators.judge.processes.workers import Worker
from evaluators.judge.reference import Reference
from evaluators.judge.settings import JudgeSettings
from evaluators.judge.whose.attribution import attribute
from evaluators.languages.base import Build
from evaluators.verdict import Accuracy

_FAULTS = re.compile(r"killed by SIG(SEGV|BUS)")
_OUTSIDE = "; in checks no memory around tensors may be touched: it probably reads or writes outside of one (a bound, a tail, a stride)"
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
        self.worker = Worker(zygote, limits, {}, triton_seed, build.native)
        self.isolation = ""
        self.accuracy: Accuracy | None = None
        self.seed = secrets.randbits(40)
        self.sets = settings.seeds
        self.missing: list[str] = []
        self.operators: list[str] = []
        """PyTorch operators that did work during a call."""
        self.plumbing = 0
        """PyTorch operators that only made, moved or reshaped tensors, in the call that had most of them."""
        self.inputs_may_change = False
        self.aliases: list[bool] = []
        """Whether outputs of the reference are memory of its inputs."""
        self.closer = False
        """Whether the source gives a reason to look at its timed batches more often."""
        self.place = 0
        """Which of the worker's models is asked: 0 is the one at the spec's own sizes."""
        self.further: list[str] = []
        """What was checked beyond the spec's own inputs and sizes, in words."""
        self.readable = False
        """Whether the judge can read the worker's memory."""
        self.form: dict[str, Any] = {}
        """What a call gives, as the worker described it last: form, types, layouts and places of its outputs."""
        self.page, self.page_fd = _page()
        self.blocks = Blocks()

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.worker.close()
        self.reference.go()
        os.close(self.page_fd)

    def start(self) -> None:
        """Greet the worker, and construct the candidate in it."""
        word = peek.word()
        hello = self.worker.ask({"op": "hello", "word": word}, 30.0, [self.page_fd])
        self.isolation = hello["isolation"]
        self.readable = self.device == "cpu" and peek.readable(self.worker.pid, hello["sample"], word)
        self.missing = self.load()

    @contextmanager
    def at(self, place: Reference, number: int) -> Iterator[None]:
        """Inside, the reference is ``place``, which the worker knows by ``number``."""
        own, changing = self.reference, self.inputs_may_change
        self.reference, self.place = place, number
        try:
            yield
        finally:
            self.reference, self.place, self.inputs_may_change = own, 0, changing

    def load(self) -> list[str]:
        """Construct the candidate with the reference's arguments, and copy parameters; the names of those it does without."""
        about, fds = self.reference.ask({"op": "parameters"})
        spec = self.reference.spec
        try:
            reply = self.worker.ask(
                {
                    "op": "load", "source": self.build.source, "place": self.place,
                    "device": self.device, "threads": self.reference.threads,
                    "flush_bytes": self.reference.flush_bytes, "precision": spec.precision, "dtype": spec.dtype, "mode": spec.mode,
                    "seed": self.seed, "interpreter": self.interpreter,
                    "upstream": self.reference.upstream, "arguments": self.reference.arguments, "keywords": self.reference.keywords,
                    "parameters": about["parameters"], "blocks": about["blocks"],
                },
                self.settings.load_s, fds,
            )  # fmt: skip
        finally:
            close_all(fds)
        missing: list[str] = reply["missing"]
        return missing

    def correctness(self, poisons: tuple[int, ...]) -> Accuracy:
        """Every case, once per poison; raises :class:`Failed` with the first failing verdict."""
        worst: dict[str, Any] | None = None
        number = 0
        while number < self.sets:
            verdicts = []
            for repeat, poison in enumerate(poisons):
                if repeat == 0 or self.inputs_may_change:  # what the repeat before changed is restored
                    self.hand_over(number)
                verdicts.append(self.run(number, poison))
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

    def hand_over(self, number: int, hard: bool = False) -> str:
        """Give the worker the inputs of a case, and blocks for its outputs. With ``hard``: how its inputs are hard, or nothing where there
        are none such."""
        case, fds = self.reference.case(number, hard)
        if "none" in case:
            return ""
        self.inputs_may_change = bool(case["inputs_may_change"])
        self.aliases = case["aliases"]
        if not self.place and not hard:
            self.sets = min(self.sets, int(case["affordable"]))
        # The oracle keeps its own descriptors; these are duplicates that arrived with the message.
        try:
            about = {k: case[k] for k in ("tree", "inputs", "outputs", "blocks")}
            self.worker.ask({"op": "case", "case": number, "place": self.place, **about}, 120.0, fds)
            if self.readable:
                self.blocks.add(number, case, fds)
        finally:
            close_all(fds)
        return str(case["words"])

    def run(self, number: int, poison: int) -> dict[str, Any]:
        """One call on a case, recorded, with memory filled and guarded; its verdict."""
        seed = self.reference.seeds[number] % 2**63
        message = {"op": "run", "case": number, "poison": poison, "seed": seed, "record": True}
        try:
            reply = self.worker.ask(message, self.settings.run_s)
        except Failed as failure:
            if failure.status == "crash" and _FAULTS.search(failure.message) and self.device == "cpu":
                raise Failed("crash", failure.message + _OUTSIDE) from None
            raise
        self.used(reply)
        self.plumbing = max(self.plumbing, reply.pop("plumbing", 0))
        verdict = self.check(number, reply)
        if not self.place and verdict["ok"]:
            self.form = reply
            self.own_memory(reply["outputs"])
        return verdict

    def used(self, reply: dict[str, Any]) -> None:
        """Note the PyTorch operators that a recorded call or batch says did work."""
        self.operators = sorted({*self.operators, *reply.pop("operators", [])})

    def check(self, number: int, reply: dict[str, Any]) -> dict[str, Any]:
        """The oracle's verdict on what lies in the blocks of case ``number``."""
        verdict, _ = self.reference.ask({"op": "check", "case": number, "reply": reply})
        return verdict

    def own_memory(self, outputs: list[dict[str, Any]]) -> None:
        """Raise :class:`Failed` where an output lies in the memory of an input, but the reference's own does not."""
        if not self.readable:
            return
        shared = procfs.shared_memory(self.worker.pid)
        for number, (found, alias) in enumerate(zip(outputs, self.aliases, strict=False)):
            first, last = found["at"], found["at"] + span(found)
            if not alias and any(begin <= last and first < end for begin, end in shared):
                raise Failed(
                    "mismatch",
                    f"output {number} is memory of an input, which the reference's is not: return a tensor of its own",
                )

    def resources(self, known: dict[str, Any], whole: bool) -> dict[str, Any]:
        """Compilation's report plus, on a GPU, registers, spills and shared memory of the kernels that ran; with ``whole``, also whose
        kernels took the time of a call."""
        if self.device != "cuda":
            return known
        for name, op in (("kernels", "resources"), *([("attribution", "profile")] if whole else [])):
            try:
                found = self.worker.ask({"op": op, "case": 0}, 60.0)["kernels"]
                known[name] = found if op == "resources" else attribute(found, self.build.source)
            except Failed as failure:
                if failure.status == "tampering":
                    raise
                known[f"{name}_unknown"] = failure.message[:200]  # says nothing of the candidate's results
        return known


def span(output: dict[str, Any]) -> int:
    """Bytes from the first to the last element of a described output, less one."""
    steps = sum((n - 1) * t for n, t in zip(output["shape"], output["stride"], strict=True))
    bits = re.search(r"\d+", output["dtype"])
    return (steps + 1) * (int(bits[0]) // 8 if bits else 1) - 1 if 0 not in output["shape"] else -1


@contextmanager
def phase(phases: dict[str, float], name: str) -> Iterator[None]:
    """Add the seconds spent inside to ``phases[name]``."""
    begin = time.perf_counter()
    try:
        yield
    finally:
        phases[name] = phases.get(name, 0.0) + time.perf_counter() - begin


def _page() -> tuple[Page, int]:
    """A page for a batch's progress, and its descriptor for the worker."""
    fd = os.memfd_create("page", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.ftruncate(fd, 8 * PAGE_WORDS)
    seal(fd)
    return Page(mmap.mmap(fd, 8 * PAGE_WORDS)), fd


def close_all(fds: list[int]) -> None:
    """Close descriptors that were received and handed on."""
    for fd in fds:
        os.close(fd)


def _accuracy(verdict: dict[str, Any] | None, seeds: int) -> Accuracy | None:
    if verdict is None:
        return None
    return Accuracy(verdict["error"], verdict["reference_error"], verdict["max_abs_error"], seeds, verdict["detail"])
