"""The lint's first question alone, cheap enough for every judge: does something that computes nothing pass, and what would change that?"""

from __future__ import annotations

from dataclasses import dataclass, replace

from evaluators.lint import dependence, trivial
from evaluators.lint.clock import Clock
from evaluators.lint.finding import WEAK, Finding
from evaluators.lint.subject import Subject, examine
from evaluators.lint.suspect import suspect
from evaluators.spec.inputs import resolve_dims
from evaluators.spec.kernel_spec import Dim, KernelSpec

SEARCH_S = 10.0
"""Seconds that looking for a repair may take."""
_WORDS = {
    "zeros_pass": "zeros pass",
    "constant_pass": "a constant passes",
    "identity_pass": "an input returned as it is passes",
    "other_seed_passes": "the result for other inputs passes",
}


@dataclass(frozen=True)
class Weakness:
    """What passes though it computes nothing, in words; the spec on other inputs and parameters on which it fails, and what was changed."""

    why: tuple[str, ...] = ()
    repaired: KernelSpec | None = None
    changes: tuple[str, ...] = ()


def find(subject: Subject) -> list[Finding]:
    """The errors that make a verdict on the spec worthless. At least two cases are needed."""
    if not suspect(subject):
        return []
    clock = Clock(SEARCH_S)
    found = trivial.find(subject, faint=False) + dependence.find(subject, clock, thorough=False)
    return [f for f in found if f.kind in WEAK and f.severity == "error"]


def weakness(spec: KernelSpec, found: list[Finding], dims: dict[str, int] | None = None) -> Weakness:
    """What findings of :func:`find` come to: a repair is looked for, on the CPU and at small sizes.

    An input that matters on no data tried is no weakness: leaving it out is no cheat.
    """
    if not found:
        return Weakness()
    # What a sound spec has no need of, and takes a while to import.
    from evaluators.lint import repair, sizes
    from evaluators.lint.checks import RUN_S

    if dims is not None:
        at = resolve_dims(spec, dims)
        spec = replace(spec, dims={n: Dim(at[n], d.low, d.high) for n, d in spec.dims.items()})
    clock = Clock(SEARCH_S)
    cost = sizes.cost(spec)
    small = spec if cost.seconds <= RUN_S else sizes.smaller(spec, cost, RUN_S, 0.4 * clock.left())[0]
    subject = examine(small)
    clock.start(0.9)
    best = repair.search(spec, subject, found + repair.constants(subject), clock)
    remaining = {f.where for f in best.remaining if f.kind == "input_ignored"} if best else set()
    why = [f for f in found if f.kind != "input_ignored" or (best is not None and f.where not in remaining)]
    if not why:
        return Weakness()
    return Weakness(words(why), best.spec if best else None, best.changes if best else ())


def words(found: list[Finding]) -> tuple[str, ...]:
    """Findings in a few words each."""
    return tuple(dict.fromkeys(_WORDS.get(f.kind, f"{f.where} may be ignored") for f in found))
