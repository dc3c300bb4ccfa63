"""Judging for a device that is not here: numerics in Triton's interpreter on the CPU, compilation for the target, no timing.

Numerics run at the spec's own sizes where they are small, else at shrunken dims. For a kernel that is specialised for its full shape its
twin stands there, the same schedule written for smaller dims; one without a twin is tried at full size, within a time limit.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from evaluators import languages
from evaluators.candidate import Candidate, Twin
from evaluators.errors import CompileFailed, JudgeError, SourceRejected
from evaluators.judge import further
from evaluators.judge.processes.isolation import READ_ONLY
from evaluators.judge.processes.processes import Failed, Server, environment
from evaluators.judge.processes.workers import Worker
from evaluators.judge.reference import Reference
from evaluators.judge.session import Session, phase
from evaluators.judge.settings import JudgeSettings
from evaluators.judge.weak import weakness
from evaluators.languages.base import Build
from evaluators.spec.inputs import resolve_dims
from evaluators.spec.kernel_spec import KernelSpec
from evaluators.target import Target
from evaluators.verdict import Accuracy, Evaluation

SMALL = 1 << 17
"""Input elements up to which numerics run at full size at once."""
_POISON = 0xFF
_OTHER_SIZES, _OTHER_ELEMENTS = 2, 1 << 12
LARGEST = 1 << 23
"""Input elements beyond which the interpreter is not tried."""


class Absent:
    """The processes that check candidates for an absent device: two zygotes and a reference on the CPU, kept for a judge's life."""

    def __init__(self, spec: KernelSpec, target: Target, settings: JudgeSettings, threads: int) -> None:
        self.spec, self.target, self.settings, self.threads = spec, target, settings, threads
        self.folder = tempfile.TemporaryDirectory(prefix="absent-")
        self.servers: dict[str, Server] = {}
        self.references: dict[str, Reference] = {}
        self.full: dict[str, Any] | None = None

    def zygote(self, name: str) -> Server:
        """The zygote for compiling (``ahead``) or for interpreting (``interpreter``)."""
        if name not in self.servers:
            extra = {"TRITON_INTERPRET": "1"} if name == "interpreter" else {"TRITON_DEFAULT_FP_FUSION": "1"}
            place = tempfile.mkdtemp(dir=self.folder.name)
            frozen = {READ_ONLY: tempfile.gettempdir()} if self.settings.namespaces else {}
            env = environment(place, self.threads, {**extra, **frozen})
            self.servers[name] = Server("evaluators.judge.processes.zygote", ["numpy", "triton"], env, place)
        return self.servers[name]

    def reference(self, dims: Mapping[str, int] | None) -> Reference:
        """A reference on the CPU at ``dims``."""
        key = repr(dims)
        if key not in self.references:
            chosen = dict(dims) if dims else None
            reference = Reference(self.spec, self.target, self.settings, "cpu", self.threads)
            self.references[key] = reference.open(ipc=False, dims=chosen)
        return self.references[key]

    def describe(self) -> dict[str, Any]:
        """Constructor arguments and inputs at full size, without data."""
        if self.full is None:
            self.full, _ = self.reference(None).ask({"op": "describe"})
        return self.full

    def elements(self, dims: Mapping[str, int] | None) -> int | None:
        """Elements of all inputs and parameters together at ``dims``; None where the spec does not work at these."""
        found, _ = self.reference(None).ask({"op": "elements", "dims": dict(dims) if dims else None})
        return None if found["elements"] is None else int(found["elements"])

    def close(self) -> None:
        """End all processes."""
        for server in self.servers.values():
            server.close()
        for reference in self.references.values():
            reference.close()
        self.folder.cleanup()


def evaluate_absent(
    absent: Absent, candidate: Candidate, build: Build, base: Evaluation, phases: dict[str, float]
) -> Evaluation:
    """Compile and check a candidate without its device; status ``checked`` at best, fitness 0.

    Raises :class:`JudgeError` where the processes cannot work, which says nothing of the candidate.
    """
    target = absent.target
    if candidate.language != "triton":
        return replace(
            base,
            message=f"{target.name} is not on this machine, and {candidate.language} candidates can only be judged on their device",
        )
    try:
        with phase(phases, "compile"):
            kernels = compile_for(absent, build)
        base = replace(base, resources={**base.resources, "kernels": kernels})
        if not kernels:
            return replace(base, status="source_rejected", message="forward launches no Triton kernel")
        over = [k for k in kernels if (k.get("shared_bytes") or 0) > target.shared_memory_bytes > 0]
        if over:
            need, have = over[0]["shared_bytes"], target.shared_memory_bytes
            return replace(
                base,
                status="compile_error",
                message=f"kernel {over[0].get('name')} needs {need} bytes of shared memory; {target.name} has {have}",
            )
        with phase(phases, "correctness"):
            accuracy, how, isolation = numerics(absent, build, candidate.twin, candidate.language)
    except Failed as failure:
        return replace(base, status=failure.status, message=failure.message)  # type: ignore[arg-type]
    toolchain = f"compiled for {target.architecture}"
    return replace(
        base, status="checked", accuracy=accuracy, isolation=isolation,
        message=f"{target.name} is not on this machine: {toolchain}, {how}; nothing was timed",
    )  # fmt: skip


def compile_for(absent: Absent, build: Build) -> list[dict[str, Any]]:
    """Compile every launch for the target; the kernels' resources. Raises :class:`Failed`."""
    target, spec = absent.target, absent.spec
    named = dict(target.toolchain.get("triton") or {})
    if not {"backend", "arch"} <= set(named):
        raise JudgeError(f"target {target.name}: its file names no Triton backend (toolchain: triton: backend, arch)")
    about = absent.describe()
    reference = absent.reference(None)
    worker = Worker(absent.zygote("ahead"), absent.settings.limits("cpu"), {})
    try:
        reply = worker.ask(
            {
                "op": "check_ahead", "source": build.source, "arguments": reference.arguments, "keywords": reference.keywords,
                "dtype": spec.dtype, "mode": spec.mode, "tree": about["tree"], "inputs": about["inputs"],
                "target": {
                    "backend": named["backend"], "arch": named["arch"], "warp_size": target.warp_size,
                    "compute_units": target.compute_units, "shared_bytes": target.shared_memory_bytes,
                },
            },
            absent.settings.ahead_s,
        )  # fmt: skip
    except Failed as failure:
        raise Failed(
            "compile_error" if failure.status == "timeout" else failure.status,
            f"compiling for {target.architecture}: {failure.message}",
        ) from None
    finally:
        worker.close()
    kernels: list[dict[str, Any]] = reply["kernels"]
    return kernels


def numerics(
    absent: Absent, build: Build, twin: Twin | None = None, language: str = "triton"
) -> tuple[Accuracy | None, str, str]:
    """Check numerics in the interpreter: accuracy, how it was done in words, and the isolation. Raises :class:`Failed`."""
    full = absent.elements(None)
    if full is None:
        raise JudgeError(f"{absent.spec.name}: the reference cannot be built without data")
    if twin is not None and full > SMALL:
        return _by_twin(absent, twin, language)
    dims = shrink(absent.spec, absent.elements)
    attempts: list[dict[str, int] | None] = [None] if full <= SMALL or dims is None else [dims, None]
    failure: Failed | None = None
    for attempt in attempts:
        if attempt is None and full > LARGEST:
            break
        try:
            found, more, isolation = _interpret(absent, build, attempt)
        except further.Beyond:
            raise
        except Failed as error:
            if attempt is not None and error.status in ("crash", "wrong_shape", "load_error"):
                failure = error  # perhaps only because the kernel is specialised for its full shape
                continue
            if attempt is None and error.status == "timeout":
                break
            raise
        sizes = "at full size" if attempt is None else _sizes(attempt)
        return found, f"numerics checked in Triton's interpreter {sizes} ({found.seeds} seeds){more}", isolation
    if failure is not None and full <= LARGEST:
        raise failure
    return None, "numerics NOT checked (too large for the interpreter, and the kernel takes no smaller shape)", ""


def _by_twin(absent: Absent, twin: Twin, language: str) -> tuple[Accuracy, str, str]:
    """Numerics of the same schedule at the twin's sizes. Raises :class:`Failed`."""
    sizes = _sizes(twin.dims)
    try:
        checked = languages.get(language)
        checked.check(twin.source)
        build = checked.build(twin.source, absent.target)
        found, more, isolation = _interpret(absent, build, dict(twin.dims), fixed=True)
    except (SourceRejected, CompileFailed) as error:
        raise Failed("compile_error", f"the same schedule {sizes}: {error}") from None
    except Failed as failure:
        raise Failed(failure.status, f"the same schedule {sizes}: {failure.message}") from None
    schedule = f"the same schedule but for {twin.changed}" if twin.changed else "the same schedule"
    how = f"{schedule} checked in Triton's interpreter {sizes} ({found.seeds} seeds){more}; the full-size text itself was compiled, not run"
    return found, how, isolation


def _sizes(dims: Mapping[str, int]) -> str:
    return "at " + ", ".join(f"{k}={v}" for k, v in dims.items())


def _interpret(
    absent: Absent, build: Build, dims: dict[str, int] | None, fixed: bool = False
) -> tuple[Accuracy, str, str]:
    """Accuracy, what else was checked in words, and the isolation; a kernel that is ``fixed`` is not tried at other sizes."""
    settings = replace(absent.settings, seeds=2, run_s=absent.settings.interpreter_s)
    reference = absent.reference(dims)
    with Session(build, absent.zygote("interpreter"), reference, settings, interpreter=True) as session:
        session.start()
        found = session.correctness((_POISON,))
        weak = weakness(reference)
        lines = [further.hard_inputs(session, _POISON), further.other_parameters(session, _POISON)]
        further.repaired(session, weak, _POISON)
        lines += [weak.no_credit, *weak.lines]
        if not fixed:
            count = min(settings.other_sizes, _OTHER_SIZES)
            places = reference.elsewhere(further.ELSEWHERE, count, _OTHER_ELEMENTS)
            lines.append(further.other_sizes(session, places, _POISON))
        return found, "".join(f", {line}" for line in lines if line), session.isolation


def shrink(spec: KernelSpec, elements: Callable[[Mapping[str, int]], int | None]) -> dict[str, int] | None:
    """Dims at which the inputs are small: the largest dims halved in turn, never below their declared range.

    ``elements`` counts them at given dims. ``None`` where the spec has no dims or none of them can shrink.
    """
    steps = shrinking(spec, elements)
    return steps[-1] if steps else None


def shrinking(
    spec: KernelSpec, elements: Callable[[Mapping[str, int]], int | None], last: str = ""
) -> list[dict[str, int]]:
    """The steps of :func:`shrink`, largest first; empty where nothing shrinks. Dim ``last`` is left alone while others shrink."""
    values = resolve_dims(spec)
    out: list[dict[str, int]] = []
    while values and (elements(values) or 0) > SMALL:
        movable = {k: v for k, v in values.items() if v // 2 >= max(spec.dims[k].low, 4)}
        if not movable:
            break
        name = max(movable, key=lambda k: (k != last, movable[k]))
        smaller = {**values, name: values[name] // 2}
        if elements(smaller) is None:
            break
        values = smaller
        out.append(smaller)
    return out
