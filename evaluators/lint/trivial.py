"""Answers that compute nothing, put to the judge's own rule: zeros, a constant, an input returned as it is, another seed's output."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch

from evaluators.lint.finding import Finding
from evaluators.lint.subject import Subject

ELSEWHERE = (1e-4, 1e-2)
"""Values of atol = rtol that other evaluators accept results at."""
_ADVICE = "judge it on other inputs and parameters (the repaired spec), or change what it computes"


@dataclass(frozen=True)
class Trivial:
    """A trivial answer to one output: the kind of finding it makes, its name, and its value for case ``i``."""

    kind: str
    name: str
    value: Callable[[int], Any]


def answers(subject: Subject, output: int) -> Iterator[Trivial]:
    """Every trivial answer to one output."""
    right = [subject.expected(i)[output] for i in range(len(subject.cases))]
    first = right[0]

    def constant(value: float) -> Callable[[int], Any]:
        return lambda i: torch.full_like(right[i], value)

    def given(leaf: int) -> Callable[[int], Any]:
        return lambda i: _as(subject.cases[i].inputs[leaf], right[i])

    def held(parameter: Any) -> Callable[[int], Any]:
        return lambda i: _as(parameter.detach(), right[i])

    yield Trivial("zeros_pass", "zeros", lambda i: torch.zeros_like(right[i]))
    for how, value in constants(first):
        if value:
            yield Trivial("constant_pass", f"the constant {value:.6g} ({how})", constant(value))
    if first.ndim and 1 < first.shape[0] < first.numel() and first.is_floating_point():
        row = first.double().mean(0, keepdim=True).to(first.dtype)
        name = "one row, the mean over the first axis, for all rows"
        yield Trivial("constant_pass", name, lambda i: row.expand_as(right[i]).clone())
    yield Trivial("other_seed_passes", "the output for other inputs", lambda i: right[i - 1])
    for leaf, tensor in enumerate(subject.cases[0].inputs):
        if fits(tensor, first):
            yield Trivial("identity_pass", f"input {subject.label(leaf)} as it is", given(leaf))
    for name, parameter in subject.model.named_parameters():
        if fits(parameter, first):
            yield Trivial("identity_pass", f"parameter {name} as it is", held(parameter))


def constants(right: Any) -> list[tuple[str, float]]:
    """How a constant is chosen that may be near to all of a right answer's finite elements, and the constant."""
    wide = right.double()
    wide = wide[torch.isfinite(wide)]
    if not wide.numel():
        return []
    middle = float(wide.min() + wide.max()) / 2
    named = [("the mean", float(wide.mean())), ("the middle of its range", middle)]
    return [*named, ("the first element", float(wide[0]))]


def fits(tensor: Any, like: Any) -> bool:
    """Whether a tensor can be returned as it is."""
    if tensor.numel() == like.numel():
        return True
    try:
        return bool(torch.broadcast_shapes(tensor.shape, like.shape) == like.shape and tensor.numel() > 1)
    except RuntimeError:
        return False


def _as(tensor: Any, like: Any) -> Any:
    same = tensor.numel() == like.numel()
    return (tensor.reshape(like.shape) if same else tensor.expand(like.shape)).to(like.dtype).clone()


def find(subject: Subject, faint: bool = True) -> list[Finding]:
    """What passes though it computes nothing. An error where it passes as the whole answer, a warning for one output of several.

    Without ``faint`` it is not looked for what passes elsewhere only.
    """
    outputs = len(subject.cases[0].outputs)
    sizeable = [o for o in range(outputs) if subject.cases[0].outputs[o].numel()]
    passing = {o: _passing(subject, o) for o in sizeable}
    whole = bool(sizeable) and all(passing.values())
    found: list[Finding] = []
    for output in sizeable:
        where = "output" if outputs == 1 else f"output {output}"
        for trivial, evidence in passing[output]:
            if whole:
                message = f"{trivial.name}: passes on every seed"
                found.append(Finding(trivial.kind, "error", where, message, _ADVICE, evidence))
            else:
                message = f"{trivial.name}: passes for this output on every seed"
                found.append(Finding("output_weak", "warning", where, message, _ADVICE, evidence))
        if faint and not passing[output]:
            found += _faint(subject, output, where)
    return found


def _passing(subject: Subject, output: int) -> list[tuple[Trivial, dict[str, Any]]]:
    """The first passing answer of each kind."""
    passing: dict[str, tuple[Trivial, dict[str, Any]]] = {}
    for trivial in answers(subject, output):
        if trivial.kind in passing:
            continue
        judged = []
        for number in range(len(subject.cases)):
            judged.append(subject.judge_one(number, output, trivial.value(number)))
            if not judged[-1].ok:
                break
        else:
            worst = max(judged, key=lambda f: f.errors.norm)
            evidence = {
                "error": worst.errors.norm,
                "limit": worst.gates.norm,
                "element_error": worst.errors.element,
                "element_limit": worst.gates.element,
                "rms": _rms(subject, output),
                "seeds": len(judged),
            }
            passing[trivial.kind] = (trivial, evidence)
    return list(passing.values())


def _rms(subject: Subject, output: int) -> float:
    wide = subject.cases[0].expected[output].oracle.double()
    return float(wide.square().mean().sqrt()) if wide.numel() else 0.0


def _faint(subject: Subject, output: int, where: str) -> list[Finding]:
    """The trivial answer that passes at the tightest tolerance common elsewhere."""
    if not subject.cases[0].outputs[output].is_floating_point() or subject.tolerance is not None:
        return []
    oracles = [case.expected[output].oracle for case in subject.cases]
    for trivial in answers(subject, output):
        bound = _accepted(trivial, oracles, ELSEWHERE[-1])
        if bound is None:
            continue
        tight = _accepted(trivial, oracles, ELSEWHERE[0]) is not None
        tolerance = ELSEWHERE[0] if tight else ELSEWHERE[-1]
        message = f"{trivial.name}: fails here, but would pass at atol = rtol = {tolerance:g}"
        advice = "compare results only under this rule; inputs of larger spread make errors show at any tolerance"
        evidence = {"tolerance": tolerance, "answer": trivial.kind, "difference": bound, "rms": _rms(subject, output)}
        return [Finding("faint_output", "warning" if tight else "info", where, message, advice, evidence)]
    return []


def _accepted(trivial: Trivial, oracles: list[Any], bound: float) -> float | None:
    """The largest difference from the oracle where all cases are within ``bound``, absolute and relative; None where one is not."""
    largest = 0.0
    for number, oracle in enumerate(oracles):
        value = trivial.value(number).double()
        if not torch.allclose(value, oracle, rtol=bound, atol=bound, equal_nan=True):
            return None
        largest = max(largest, float((value - oracle).abs().nan_to_num(0.0).max()))
    return largest
