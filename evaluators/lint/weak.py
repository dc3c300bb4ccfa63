"""The lint's first question alone, cheap enough for every judge: does something that computes nothing pass, and what would change that?"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch

from evaluators.judge.memory import wire
from evaluators.lint import dependence, trivial
from evaluators.lint.clock import Clock
from evaluators.lint.finding import WEAK, Finding
from evaluators.lint.subject import Subject, examine
from evaluators.lint.suspect import suspect
from evaluators.spec.inputs import resolve_dims
from evaluators.spec.kernel_spec import Dim, KernelSpec
from evaluators.spec.model import to_float64

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
    why = [f for f in found if f.kind != "input_ignored"]
    ignored = [f for f in found if f.kind == "input_ignored"]
    if best is not None and ignored:
        shrunk = best.spec if small == spec else sizes.smaller(best.spec, cost, RUN_S, clock.left())[0]
        repaired = examine(shrunk)
        why += [f for f in ignored if matters(repaired, f.where)]
    if not why:
        return Weakness()
    return Weakness(words(why), best.spec if best else None, best.changes if best else ())


def matters(subject: Subject, where: str) -> bool:
    """Whether other values of an input change the exact result. Where they change nothing but how the reference rounds (a shift before a
    softmax), leaving the input out is no cheat."""
    case = subject.cases[0]
    inputs = list(case.inputs)
    leaf = next(n for n in range(len(inputs)) if f"input {subject.label(n)}" == where)
    other = dependence.another(inputs[leaf], subject.cases[-1].inputs[leaf])
    if other is None:
        return True
    inputs[leaf] = other
    model, arguments = to_float64(subject.model, wire.rebuild(case.argument_tree, inputs))
    torch.manual_seed(case.seed % 2**63)
    flat: list[Any] = []
    with torch.no_grad():
        wire.flatten(model(*arguments), flat)
    return any(
        not want.judge(value.to(like.dtype), subject.tolerance, explain=False).ok
        for value, want, like in zip(flat, case.expected, case.outputs, strict=True)
    )


def words(found: list[Finding]) -> tuple[str, ...]:
    """Findings in a few words each."""
    return tuple(dict.fromkeys(_WORDS.get(f.kind, f"{f.where} may be ignored") for f in found))
