"""Operators of the reference that do nothing on the spec's inputs: seen on their own results, or by replacing a result and judging
what comes out at the end."""

from __future__ import annotations

from typing import Any

import torch

from evaluators.lint.clock import Clock
from evaluators.lint.dependence import replaced
from evaluators.lint.finding import Finding, Severity
from evaluators.lint.recording import Recording, Step, run_replacing
from evaluators.lint.subject import Subject

_ADVICE = "use inputs and parameters on which it matters (the repaired spec), or take it out of the reference"
_MOVING = (
    "expand",
    "reshape",
    "native_dropout",
    "dropout",
    "_reshape_copy",
    "view_copy",
    "index_select",
    "gather",
    "slice_copy",
)
_SHOWN = 8


def find(subject: Subject, recordings: list[Recording], clock: Clock, thorough: bool = True) -> list[Finding]:
    """Dead operators. ``recordings`` are runs of the first cases; ``thorough`` also replaces results one by one."""
    found = _seen(recordings)
    if thorough:
        found += _replaced(subject, recordings, clock)
    return found


def _seen(recordings: list[Recording]) -> list[Finding]:
    """What the results themselves show, on every recording."""
    found: list[Finding] = []
    first, *others = recordings
    for index, step in enumerate(first.steps):
        same = [r.steps[index] for r in others if index < len(r.steps) and r.steps[index].name == step.name]
        if len(same) < len(others):
            continue
        if step.constant is not None and all(s.constant == step.constant for s in same):
            message = f"every element of its result is {step.constant:g}, whatever it is given"
            evidence: dict[str, Any] = {"how": "constant", "value": step.constant}
            found.append(Finding("dead_operator", "warning", step.where, message, _ADVICE, evidence))
        elif step.copies is not None and step.name not in _MOVING and all(s.copies == step.copies for s in same):
            severity: Severity = "info" if step.guard else "warning"
            message = "its result equals what it was given: leaving it out passes"
            evidence = {"how": "no effect", "argument": step.copies}
            found.append(Finding("dead_operator", severity, step.where, message, _ADVICE, evidence))
    return found


def _replaced(subject: Subject, recordings: list[Recording], clock: Clock) -> list[Finding]:
    """Replace each step's result by another case's, or else by other values of its size. Where no output shows it, nothing up to there
    matters; the operator that is named is the last such, and the one that loses its effect."""
    steps = recordings[0].steps
    dead: list[int] = []
    tested = 0
    for index in range(len(steps)):
        if clock.over():
            break
        tested += 1
        if _never_matters(subject, recordings, index):
            dead.append(index)
    found = [_finding(steps, index, dead) for index in dead if _last(steps, index, dead)][:_SHOWN]
    if tested < len(steps):
        evidence = {"tested": tested, "of": len(steps)}
        message = f"{tested} of {len(steps)} operators' results were replaced before the time was over"
        found.append(Finding("unfinished", "info", "operators", message, "give it more time (--seconds)", evidence))
    return found


def _last(steps: list[Step], index: int, dead: list[int]) -> bool:
    """Whether a dead step's result is read by a step that is not dead: there the effect is lost. One that nobody reads is a dead end
    of an operator with several results, and no finding."""
    return any(index in s.reads and at not in dead for at, s in enumerate(steps)) or steps[index].returned


def _finding(steps: list[Step], index: int, dead: list[int]) -> Finding:
    readers = [s.where for at, s in enumerate(steps) if index in s.reads and at not in dead]
    before = sorted(_above(steps, index) & set(dead))
    lost = f" its effect is lost in {readers[0]};" if readers else ""
    names = [steps[i].where for i in before]
    whole = f" so do those of the {len(before)} operators before it" if before else ""
    message = f"other values in place of its result change no verdict;{lost}{whole}".rstrip(";")
    evidence = {"how": "never matters", "lost_in": readers[:4], "operators": [*names, steps[index].where][-_SHOWN:]}
    return Finding("dead_operator", "warning", steps[index].where, message, _ADVICE, evidence)


def _above(steps: list[Step], index: int) -> set[int]:
    seen: set[int] = set()
    frontier = [index]
    while frontier:
        for source in steps[frontier.pop()].reads:
            if source not in seen:
                seen.add(source)
                frontier.append(source)
    return seen


def _never_matters(subject: Subject, recordings: list[Recording], index: int) -> bool:
    """Whether other values of a step's result pass on every case. What makes the reference fail matters."""
    for number in range(len(subject.cases)):
        recorded = recordings[1 if number == 0 else 0].steps
        natural = recorded[index].value if index < len(recorded) else None

        def other(value: Any, number: int = number, natural: Any = natural) -> Any:
            return _other(value, natural, number)

        try:
            outputs = run_replacing(subject, number, index, other)
        except Exception:
            return False
        if outputs is None or not subject.passes(number, outputs):
            return False
    return True


def _other(value: Any, natural: Any, seed: int) -> Any:
    """What the step gave for other inputs, where that differs; else values of about the same size."""
    if not value.numel():
        return None
    if (
        natural is not None
        and natural.shape == value.shape
        and natural.dtype == value.dtype
        and not natural.equal(value)
    ):
        return natural.clone()
    if value.is_floating_point():
        return replaced(value, seed)
    if value.dtype == torch.bool:
        return ~value
    moved = value.reshape(-1).roll(1).reshape(value.shape)
    return None if torch.equal(moved, value) else moved
