"""The judge: is a candidate right, and how fast is it really?

``Judge`` holds the token and the clock. The reference and everything expected live in one process (``oracle``), every candidate in a
fresh one forked from a clean interpreter (``zygote``); this process runs no tensor code at all.
"""

from __future__ import annotations

import os
import tempfile
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from types import TracebackType
from typing import Any

from evaluators import languages
from evaluators.candidate import Candidate
from evaluators.errors import CompileFailed, JudgeError, SourceRejected, ToolMissing, UnknownLanguage
from evaluators.home import home
from evaluators.ir.kernel import Program
from evaluators.judge import facts, further
from evaluators.judge.absent import Absent, evaluate_absent
from evaluators.judge.diagnose import diagnose
from evaluators.judge.processes.device_lock import DeviceLock
from evaluators.judge.processes.isolation import READ_ONLY
from evaluators.judge.processes.processes import PINNED, Failed, Server, environment, unpin
from evaluators.judge.processes.replies import clean
from evaluators.judge.processes.transport import usable_ipc
from evaluators.judge.processes.workers import Worker
from evaluators.judge.reference import Reference
from evaluators.judge.session import Session, phase
from evaluators.judge.settings import JudgeSettings
from evaluators.judge.timing.contest import Contest
from evaluators.judge.weak import Weak, weakness
from evaluators.judge.whose.attribution import mostly_libraries
from evaluators.judge.worker.fallback import allowed
from evaluators.languages.sightings import CLOSER
from evaluators.spec.kernel_spec import KernelSpec
from evaluators.target import Target
from evaluators.verdict import Evaluation, Roofline, Timing

_IMPOSSIBLE = {"gpu": 1.25, "cpu": 5.0}
"""How many times faster than memory can deliver the bytes a kernel may seem: on a CPU, caches hold much of what is read again. Rates of
arithmetic are no such bound: matrix units and split products exceed what a target's file says of the plain type."""
_POISONS = (0xFF, 0x4B)  # NaN in every floating type; 1.3e7 in float32


class Judge:
    """A context manager that judges candidates for one spec on one target.

    Infrastructure errors (the reference fails, no compiler) raise :class:`JudgeError` from ``__enter__`` or give status
    ``infrastructure``; they never count as the candidate's failure. ``on_wait`` is told where other judges keep the device, and that the
    spec is weak.
    """

    def __init__(
        self,
        spec: KernelSpec,
        target: Target,
        settings: JudgeSettings | None = None,
        on_wait: Callable[[str], None] | None = None,
    ) -> None:
        self.on_wait = on_wait
        self.spec, self.target, self.settings = spec, target, settings or JudgeSettings()
        available = len(os.sched_getaffinity(0))
        self.threads = self.settings.threads or (
            min(max(target.compute_units, 1), available) if target.kind == "cpu" else min(8, available)
        )
        self.device = target.device
        self.reference: Reference | None = None
        self.weak = Weak()
        self.zygote: Server | None = None
        self.folder: Any = None
        self.absent: Absent | None = None
        self.environment: dict[str, str] = {}
        self.triton_seed: str | None = None
        self._program: Program | None = None
        self._untraced = ""
        self._facts: list[facts.Fact] = []
        """What was measured of the present candidate's timed batches, beside time."""

    def __enter__(self) -> Judge:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def baselines(self) -> dict[str, float]:
        """Milliseconds per call of the baselines measured so far."""
        chosen = self.reference.baselines if self.reference else None
        return dict(chosen.ms) if chosen else {}

    @property
    def baselines_note(self) -> str:
        """Why a baseline is not among them, where an earlier measurement is the reason; else empty."""
        chosen = self.reference.baselines if self.reference else None
        return chosen.note if chosen else ""

    def close(self) -> None:
        """End all processes."""
        if self.zygote is not None:
            self.zygote.close()
            self.zygote = None
        if self.reference is not None:
            self.reference.close()
            self.reference = None
        if self.absent is not None:
            self.absent.close()
            self.absent = None
        if self.folder is not None:
            self.folder.cleanup()
            self.folder = self.triton_seed = None

    def evaluate(self, candidate: Candidate, timed: bool = True, whole: bool = False) -> Evaluation:
        """Judge one candidate; with ``whole``, time it beside every baseline.

        Never raises for what the candidate does: the last resort is a verdict of ``infrastructure``.
        """
        phases: dict[str, float] = {}
        self._facts = []
        base = Evaluation(candidate.id, self.target.name, "infrastructure", 0.0)
        try:
            return self._evaluate(candidate, base, timed, phases, whole)
        except Exception as error:
            # Nothing foreseen raises here. A verdict is recorded and the run goes on, with every process fresh.
            self.close()
            place = traceback.extract_tb(error.__traceback__)[-1]
            where = f"{os.path.basename(place.filename)}:{place.lineno}"
            reason = f"the judge failed unexpectedly: {type(error).__name__} at {where}: {str(error)[:300]}"
            return self._close(replace(base, message=reason), phases)

    def _evaluate(
        self, candidate: Candidate, base: Evaluation, timed: bool, phases: dict[str, float], whole: bool
    ) -> Evaluation:
        try:
            with phase(phases, "check"):
                language = languages.get(candidate.language)
                if self.target.languages and candidate.language not in self.target.languages:
                    known = ", ".join(self.target.languages)
                    raise SourceRejected(f"{self.target.name} runs candidates in {known}, not in {candidate.language}")
                try:
                    review = language.check(candidate.source)
                except (RecursionError, MemoryError):
                    raise SourceRejected("the source is nested too deeply to be reviewed: split it up") from None
            with phase(phases, "compile"):
                build = language.build(candidate.source, self.target)
        except (SourceRejected, UnknownLanguage) as error:
            return self._close(replace(base, status="source_rejected", message=str(error)), phases)
        except CompileFailed as error:
            return self._close(replace(base, status="compile_error", message=str(error)), phases)
        except ToolMissing as error:
            return self._close(replace(base, message=str(error)), phases)
        base = replace(
            base,
            resources={
                **build.resources,
                "uses_library": review.uses_library,
                "library_calls": list(review.library_calls),
                "seen": [str(s) for s in review.sightings],
            },
        )
        try:
            if not self.target.present:
                if self.absent is None:
                    self.absent = Absent(self.spec, self.target, self.settings, self.threads)
                return self._close(evaluate_absent(self.absent, candidate, build, base, phases), phases)
            self._start(phases, timed)
            assert self.reference is not None
            assert self.zygote is not None
            with Session(build, self.zygote, self.reference, self.settings, self.triton_seed) as session:
                session.closer = any(s.kind in CLOSER for s in review.sightings)
                return self._close(self._judge(session, base, timed, phases, whole), phases)
        except JudgeError as error:
            self.close()
            return self._close(replace(base, message=str(error)), phases)

    def confirm(self, candidate: Candidate) -> Evaluation:
        """Judge again with every process fresh (reference included); only these samples are worth reporting."""
        self.close()
        found = self.evaluate(candidate, whole=True)
        return replace(found, timing=replace(found.timing, fresh_process=True)) if found.timing else found

    def _judge(
        self, session: Session, base: Evaluation, timed: bool, phases: dict[str, float], whole: bool
    ) -> Evaluation:
        base = replace(base, isolation=session.isolation)
        try:
            with self._having(False, phases):
                with phase(phases, "load"):
                    session.start()
                    base = replace(base, isolation=session.isolation)
                with phase(phases, "correctness"):
                    accuracy = session.correctness(_POISONS)
                self._further(session, phases, whole)
            with phase(phases, "reference"):
                may = allowed(self._traced())
            resources = session.resources({**base.resources, "library_operators": session.operators}, whole)
            base = replace(base, accuracy=accuracy, resources=resources)
            if self.weak.why:
                base = replace(base, resources={**base.resources, "weak_spec": [*self.weak.why, *self.weak.lines]})
            if not timed:
                said = "; ".join(["correct; not timed", *filter(None, [self.weak.no_credit]), *session.further])
                return replace(base, status="correct", message=said)
            batch_ms = self.settings.batch_ms_gpu if self.device == "cuda" else self.settings.batch_ms_cpu
            contest = Contest(session, batch_ms)
            with self._having(True, phases):
                with phase(phases, "baselines"):
                    contest.prepare(whole)
                with phase(phases, "timing"):
                    measured, notes = contest.run(whole)
                notes += session.further
        except Failed as failure:
            partial = session.accuracy if session.accuracy is not None else base.accuracy
            return replace(base, status=failure.status, message=failure.message, accuracy=partial)  # type: ignore[arg-type]
        with phase(phases, "roofline"):
            bound, why = self._roofline(measured)
        notes += [why] if why else []
        batches = contest.batches
        looks = batches.samples
        looked = {
            "samples": looks.counts(), "timed_sets": batches.side.sets, "timed_results_checked": batches.looks,
        }  # fmt: skip
        profiled = base.resources.get("attribution") or {}
        looked |= {"attribution": shares} if (shares := looks.attribution()) else {}
        base = replace(base, resources={**base.resources, **looked, "library_operators": session.operators})
        self._facts = batches.facts()
        found = replace(base, status="correct", fitness=measured.ratio, timing=measured, roofline=bound)
        if bound is not None and measured.candidate_ms * _IMPOSSIBLE[self.target.kind] < _bytes_ms(bound):
            times = _bytes_ms(bound) / measured.candidate_ms
            reason = f"{times:.1f} times faster than its bytes allow: results were not computed in every call"
            return replace(found, status="tampering", fitness=0.0, message="; ".join([reason, *notes]))
        looks.hybrid = bool(may)
        whose = looks.said or ("" if may else mostly_libraries(profiled))
        outside = [n for n in session.operators if n not in may]
        if outside or whose:
            found = replace(found, fitness=0.0)
            who = f"PyTorch does the work of {', '.join(outside[:6])}" if outside else whose
            notes.insert(0, f"does not count as a generated kernel: {who}")
        if self.weak.why:
            found = replace(found, fitness=0.0)
            notes.insert(0, self.weak.no_credit)
        return replace(found, message="; ".join(notes))

    @contextmanager
    def _having(self, alone: bool, phases: dict[str, float]) -> Iterator[None]:
        """Have the device, and note how long that was waited for."""
        lock = DeviceLock(self.environment.get("uuid", self.device), self.settings.device_wait_s, self.on_wait)
        with lock.held(alone) as waited:
            phases["waiting"] = phases.get("waiting", 0.0) + waited
            yield

    def _further(self, session: Session, phases: dict[str, float], whole: bool) -> None:
        """Checks beyond the spec's own inputs and sizes; raises :class:`Failed`. On a GPU other sizes may mean compiling for each of
        them, so there they wait for what will be reported."""
        assert self.reference is not None
        with phase(phases, "hard inputs"):
            session.further.append(further.hard_inputs(session, _POISONS[0]))
        with phase(phases, "other parameters"):
            session.further.append(further.other_parameters(session, _POISONS[0]))
        with phase(phases, "weak spec"):
            further.repaired(session, self.weak, _POISONS[0])
            session.further += self.weak.lines
        if self.device == "cpu" or whole:
            with phase(phases, "other sizes"):
                count = self.settings.other_sizes if self.device == "cpu" else min(self.settings.other_sizes, 3)
                places = self.reference.elsewhere(further.ELSEWHERE, count, self.settings.other_elements)
                session.further.append(further.other_sizes(session, places, _POISONS[0]))
        with phase(phases, "repeats"):
            session.further.append(further.races(session))
        session.further = [line for line in session.further if line]

    def _close(self, found: Evaluation, phases: dict[str, float]) -> Evaluation:
        kernels = found.resources.get("kernels") or []
        known = [*facts.of_work(found.timing, found.roofline), *facts.of_kernels(kernels, self.target), *self._facts]
        known += facts.of_loops(found.resources.get("loops") or ()) if known else []
        diagnosis, because = diagnose(found.status, self.target, found.timing, found.roofline, kernels, known)
        resources = dict(found.resources)
        if known:
            resources |= {"facts": [f.to_dict() for f in known], "because": [str(f) for f in because]}
        return replace(
            found,
            message=clean(found.message, 8000),  # it may quote the candidate or a compiler
            phases={k: round(v, 3) for k, v in phases.items()},
            environment=self.environment,
            diagnosis=diagnosis,
            resources=resources,
        )

    def _traced(self) -> Program | None:
        """The reference's program, traced once; ``None`` where it cannot be, and ``_untraced`` then says why."""
        if self._program is None and not self._untraced:
            from evaluators.trial import traced

            # A verdict already found must not be lost to a reference that cannot be counted, whatever the tracer makes of it.
            try:
                self._program = traced(self.spec)
            except Exception as error:
                said = str(error).splitlines()[0][:160] if str(error) else "no message"
                self._untraced = f"no roofline: {type(error).__name__}: {said}"
        return self._program

    def _roofline(self, measured: Timing | None) -> tuple[Roofline | None, str]:
        """Roofline of the spec, or ``None`` and why there is none."""
        from evaluators.ir.facts import work
        from evaluators.roofline import roofline

        program = self._traced()
        if program is None:
            return None, self._untraced
        return roofline(work(program), self.target, measured.candidate_ms if measured else None), ""

    def prepare(self) -> None:
        """Start the processes that :meth:`evaluate` will need, without waiting for them: what they import takes seconds."""
        if not self.target.present:
            return
        if self.reference is None:
            self.reference = Reference(self.spec, self.target, self.settings, self.device, self.threads)
        if self.zygote is None:
            self.folder = tempfile.TemporaryDirectory(prefix="zygote-")
            preload = ["numpy", "triton"] if self.device == "cuda" else ["numpy"]
            frozen = self.device == "cpu" and self.settings.namespaces
            extra = {READ_ONLY: tempfile.gettempdir()} if frozen else {}
            env = environment(self.folder.name, self.threads, {**extra, **(PINNED if self.device == "cpu" else {})})
            self.zygote = Server("evaluators.judge.processes.zygote", preload, env, self.folder.name)

    def _start(self, phases: dict[str, float], timed: bool) -> None:
        """Start what is not running: the zygote, the reference. Where one has died since, both are started afresh."""
        if any(p is not None and not p.alive for p in (self.zygote, self.reference)):
            self.close()
        with phase(phases, "start"):
            # Reference and zygote import PyTorch side by side.
            self.prepare()
            assert self.zygote is not None
            assert self.reference is not None
            if not self.zygote.started:
                self.zygote.ready()
                unpin(self.zygote.pid, os.sched_getaffinity(0))
                if self.device == "cuda":
                    self._seed_triton()
        if timed:
            self.reference.start_baseline()
        if not self.reference.opened:
            with phase(phases, "reference"):
                ipc = self.device == "cuda" and usable_ipc(str(home() / "cache"))
                reference, self.reference = self.reference, None  # one that cannot be opened is closed
                self.reference = reference.open(ipc)
                self.environment = {
                    **self.reference.environment, "threads": str(self.threads), "transport": "device IPC" if ipc else "host memory",
                }  # fmt: skip
            with self._having(False, phases), phase(phases, "weak spec"):
                self.weak = weakness(self.reference)
            if self.weak.no_credit and self.on_wait:
                self.on_wait("; ".join([self.weak.no_credit, *self.weak.lines]))

    def _seed_triton(self) -> None:
        """Have Triton's driver module (compiled with the host's C compiler, a second or more) built once, for workers to start from."""
        assert self.zygote is not None
        folder = f"{self.folder.name}/triton-seed"
        worker = Worker(self.zygote, self.settings.limits(self.device), {"TRITON_CACHE_DIR": folder})
        try:
            worker.ask({"op": "seed"}, 120.0)
        except Failed as failure:
            raise JudgeError(f"Triton cannot set up its driver on {self.target.name}: {failure.message}") from None
        finally:
            worker.close()
        self.triton_seed = folder if os.path.isdir(folder) else None


def _bytes_ms(bound: Roofline) -> float:
    """Milliseconds in which memory delivers the compulsory bytes."""
    return bound.bytes / (bound.bandwidth_gbs * 1e9) * 1e3
