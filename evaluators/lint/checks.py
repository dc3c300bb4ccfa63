"""All checks on one spec, in this process, in the order in which they can still say something when time runs out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from evaluators.errors import EvaluatorError
from evaluators.lint import behaviour, dead, dependence, precision, repair, sizes, trivial
from evaluators.lint.clock import Clock
from evaluators.lint.finding import HELPED_BY_INPUTS, WEAK, Finding
from evaluators.lint.recording import record
from evaluators.lint.subject import SEEDS, Subject, examine
from evaluators.spec.kernel_spec import KernelSpec

Tell = Callable[[dict[str, Any]], None]
RUN_S = 0.05
"""Seconds of one run, roughly, above which the checks use smaller sizes."""


LARGER = 20.0
"""Times as long may one run take where an error found at small sizes is looked at again."""


@dataclass(frozen=True)
class Asked:
    """What is to be examined: the spec, the device it is for (name, bytes of memory; 0 unknown), the seconds there are, the seconds one
    run may take (0: never change sizes), and whether repairs are searched."""

    spec: KernelSpec
    device: str
    memory: int
    seconds: float
    run_s: float = RUN_S
    repair: bool = True


def examine_all(asked: Asked, tell: Tell) -> None:
    """Run every check; each finding, phase, and at last the repair is handed to ``tell`` as plain data."""
    clock = Clock(asked.seconds)
    spec = asked.spec
    all_found: list[Finding] = []

    def say(found: list[Finding]) -> None:
        all_found.extend(found)
        for f in found:
            tell({"finding": f.to_dict()})

    def phase(name: str) -> None:
        tell({"phase": name})

    phase("sizes")
    try:
        full = sizes.cost(spec)
    except Exception as error:
        say([_fails(error, "with shapes alone")])
        return
    say(sizes.fits(spec, full, asked.device, asked.memory))
    say(precision.switches(spec))
    if asked.run_s and full.seconds > asked.run_s:
        spec, changed = sizes.smaller(spec, full, asked.run_s, 0.4 * clock.left())
        if changed:
            tell({"sizes": changed})
            words = ", ".join(f"{n} {a} → {b}" for n, (a, b) in changed.items())
            message = f"checked at smaller sizes: {words}"
            say([Finding("sizes", "info", "sizes", message, "--full-size checks the spec's own", {"changed": changed})])

    phase("running the reference")
    try:
        subject = examine(spec)
    except Exception as error:
        say([_fails(error, "")])
        return
    phase("trivial answers")
    larger = _Larger(asked, full, spec, clock)
    say(larger.confirmed(trivial.find(subject)))
    phase("behaviour")
    recordings = [record(subject, number) for number in range(2)]
    say(behaviour.find(subject, recordings[0]))
    say(precision.computed(subject, recordings[0]))
    if not any(map(_weak, all_found)):
        say(precision.tolerance(subject))
    phase("dependence")
    clock.start(0.3)
    say(larger.confirmed(dependence.find(subject, clock)))
    phase("operators")
    clock.start(0.4)
    say(_settled(dead.find(subject, recordings, clock)))
    phase("repair")
    clock.start(0.9)
    _repair(asked, subject, all_found, clock, tell)


class _Larger:
    """The same spec at sizes nearer its own: what makes a verdict worthless must hold there too. Made where it is first needed."""

    def __init__(self, asked: Asked, full: sizes.Cost, used: KernelSpec, clock: Clock) -> None:
        self.asked, self.full, self.used, self.clock = asked, full, used, clock
        self.again: set[tuple[str, str]] | None = None

    def confirmed(self, found: list[Finding]) -> list[Finding]:
        """Findings, with errors of the weak kinds that larger sizes do not have as information only."""
        if self.used == self.asked.spec or not any(_weak(f) for f in found):
            return found
        if self.again is None:
            self.again = self._look()
        if self.again is None:
            return found
        return [f if not _weak(f) or (f.kind, f.where) in self.again else _only_small(f) for f in found]

    def _look(self) -> set[tuple[str, str]] | None:
        """Errors at larger sizes; None where there are no larger ones to be had."""
        left = self.clock.left()
        spec, _ = sizes.smaller(self.asked.spec, self.full, LARGER * self.asked.run_s, 0.2 * left)
        if spec == self.used:
            return None
        try:
            subject = examine(spec, SEEDS[:2])
        except Exception:
            return None
        self.clock.start(0.5)
        found = trivial.find(subject) + dependence.find(subject, self.clock, thorough=False)
        return {(f.kind, f.where) for f in found if _weak(f)}


def _weak(finding: Finding) -> bool:
    return finding.kind in WEAK and finding.severity == "error"


def _only_small(finding: Finding) -> Finding:
    return replace(
        finding,
        severity="info",
        message=f"{finding.message}, but at the smaller sizes only",
        advice="nothing need be done for it",
    )


def _repair(asked: Asked, subject: Subject, found: list[Finding], clock: Clock, tell: Tell) -> None:
    helped = [f for f in found if f.kind in HELPED_BY_INPUTS and f.severity != "info"]
    weak = any(f.severity == "error" for f in helped)
    if not helped:
        tell({"repair": "not needed"})
        return
    if not asked.repair:
        tell({"repair": "not tried"})
        return
    best = repair.search(asked.spec, subject, helped, clock)
    ignored = [f.where for f in helped if f.kind == "input_ignored"]
    answered = any(f.severity == "error" and f.kind != "input_ignored" for f in helped)
    if best is None:
        if weak and not answered:
            # It mattered on no data: no answer is wrong for leaving it out.
            tell({"unused": ignored})
        tell({"repair": "unrepairable" if answered else "not needed"})
        return
    tell({"unused": [f.where for f in best.remaining if f.kind == "input_ignored" and f.where in ignored]})
    remaining = [f.to_dict() for f in best.remaining if f.kind != "input_ignored"]
    tell({"repair": "repaired", "spec": best.spec.to_json(), "changes": list(best.changes), "remaining": remaining})


def _settled(found: list[Finding]) -> list[Finding]:
    """Each dead operator once: what its own result shows says more than that it never matters."""
    seen: set[str] = set()
    kept = []
    for f in found:
        key = f"{f.kind} {f.where}"
        if f.kind != "dead_operator" or key not in seen:
            kept.append(f)
        seen.add(key)
    return kept


def _fails(error: Exception, how: str) -> Finding:
    text = str(error) if isinstance(error, EvaluatorError) else f"{type(error).__name__}: {error}"
    words = " ".join(text.split())[:400]
    return Finding(
        "reference_fails",
        "error",
        "reference",
        f"the reference does not run{' ' + how if how else ''}: {words}",
        "make it run with its own inputs first",
        {"error": type(error).__name__},
    )
