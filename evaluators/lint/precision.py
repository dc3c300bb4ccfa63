"""Precision: what the reference really computes in, against what the spec declares; and what its tolerance admits."""

from __future__ import annotations

import ast
from typing import Any

import torch

from evaluators.judge.oracle import accuracy
from evaluators.lint.finding import Finding, Severity
from evaluators.lint.recording import Recording
from evaluators.lint.subject import Subject
from evaluators.spec.kernel_spec import KernelSpec

_SWITCHES = (
    "autocast",
    "allow_tf32",
    "set_float32_matmul_precision",
    "fp32_precision",
    "allow_fp16_reduced_precision_reduction",
)
_BITS = {torch.float16: 11, torch.bfloat16: 8, torch.float32: 24, torch.float64: 53}

ILL = 500.0
"""Times what float32 earns, from which on a limit lets TF32 operands (relative error 5e-4) through."""


def switches(spec: KernelSpec) -> list[Finding]:
    """Settings of PyTorch's precision that the text of the reference touches."""
    found = []
    for node in ast.walk(ast.parse(spec.reference)):
        if not isinstance(node, ast.Attribute | ast.Name):
            continue
        name = node.attr if isinstance(node, ast.Attribute) else node.id
        if name in _SWITCHES:
            found.append(
                Finding(
                    "precision",
                    "error",
                    f"line {node.lineno}",
                    f"the reference sets {name}, so that its precision is not the declared {spec.dtype}",
                    "take it out and declare the type with dtype (and precision: ieee or default)",
                    {"setting": name},
                )
            )
    return found


def computed(subject: Subject, recording: Recording) -> list[Finding]:
    """Operators and outputs in another floating type than the spec's."""
    own: Any = getattr(torch, subject.spec.dtype)
    found = []
    lines: dict[tuple[str, bool], list[Any]] = {}
    for step in recording.steps:
        if step.dtype in _BITS and step.dtype != own:
            lines.setdefault((str(step.dtype).removeprefix("torch."), _BITS[step.dtype] < _BITS[own]), []).append(step)
    for (dtype, narrower), steps in lines.items():
        if not narrower and subject.spec.dtype in ("float16", "bfloat16") and dtype == "float32":
            continue  # widening half types inside is good practice
        found.append(
            Finding(
                "precision",
                "error" if narrower else "warning",
                steps[0].where,
                f"{len(steps)} operators compute in {dtype}, the spec declares {subject.spec.dtype}",
                f"declare dtype: {dtype}, or take the cast out of the reference",
                {"computed_in": dtype, "declared": subject.spec.dtype, "operators": [s.where for s in steps[:8]]},
            )
        )
    for index, out in enumerate(subject.cases[0].outputs):
        if out.is_floating_point() and out.dtype != own:
            dtype = str(out.dtype).removeprefix("torch.")
            message = f"has type {dtype}, the spec declares {subject.spec.dtype}"
            found.append(
                Finding("precision", "info", f"output {index}", message, "cast it, where that is not meant", {"returned": dtype})
            )  # fmt: skip
    return found


def tolerance(subject: Subject) -> list[Finding]:
    """What the accuracy rule, or the declared tolerance, lets pass that it should not, and the reverse."""
    found = _declared(subject) if subject.tolerance is not None else []
    limits = [e.gates.norm for e in subject.cases[0].expected if e.gates is not None]
    if subject.spec.dtype != "float32" or not limits:
        return found
    floor, limit = 16 * accuracy.roundoff(torch.float32), max(limits)
    if subject.tolerance is None and limit > ILL * floor:
        message = (
            f"the problem is ill conditioned at these inputs: the accuracy rule admits relative errors of {limit:.1e}"
        )
        advice = "use inputs on which less cancels, or declare a tolerance"
        evidence = {"limit": limit, "float32_earns": floor}
        found.append(Finding("tolerance_loose", "warning", "outputs", message, advice, evidence))
    narrow = _narrow_operands(subject)
    if narrow is None:
        return found
    if subject.tolerance is not None:
        what, advice = "the declared tolerance", "declare the tolerance float32 earns, or none"
    elif limit > 4 * floor:
        what = f"the accuracy rule (limit {limit:.1e})"
        advice = (
            "these inputs are ill conditioned for it (a cancellation, a long chain): use others, or declare a tolerance"
        )
    else:
        what = f"the accuracy rule (limit {limit:.1e})"
        advice = "nothing need be done: the errors of single operands average out in what is returned"
    found.append(
        Finding(
            "tolerance_loose",
            "info" if subject.tolerance is None and limit <= 4 * floor else "warning",
            "outputs",
            f"operands rounded to {narrow} pass {what}: a kernel in that precision cannot be told from one in float32",
            advice,
            {"passes": narrow, "limit": limit, "float32_earns": floor},
        )
    )
    return found


def _narrow_operands(subject: Subject) -> str | None:
    """The narrowest operand type whose answers pass on every case, if any is narrower than float32."""
    for name, keep in (("bfloat16", 8), ("TF32", 11)):
        if all(_passes_rounded(subject, number, keep) for number in range(len(subject.cases))):
            return name
    return None


def _passes_rounded(subject: Subject, number: int, keep: int) -> bool:
    floating = [t for t in subject.cases[number].inputs if t.is_floating_point()]
    own = [p for p in subject.model.parameters() if p.is_floating_point()]
    if not floating and not own:
        return False
    kept = [p.detach().clone() for p in own]
    try:
        with torch.no_grad():
            for p in own:
                p.copy_(_rounded(p, keep))
        inputs = [_rounded(t, keep) if t.is_floating_point() else t for t in subject.cases[number].inputs]
        moved = any(not torch.equal(a, b) for a, b in zip(inputs, subject.cases[number].inputs, strict=True))
        moved = moved or any(not torch.equal(a, b) for a, b in zip(own, kept, strict=True))
        has_floats = any(o.is_floating_point() for o in subject.cases[number].outputs)
        return moved and has_floats and subject.passes(number, subject.run(number, inputs))
    except Exception:
        return False
    finally:
        with torch.no_grad():
            for p, value in zip(own, kept, strict=True):
                p.copy_(value)


def _rounded(value: Any, keep: int) -> Any:
    """Float32 values with ``keep`` significant bits, rounded to nearest."""
    fraction, exponent = torch.frexp(value.detach().float())
    return torch.ldexp(torch.round(fraction * 2.0**keep) / 2.0**keep, exponent).to(value.dtype)


def _declared(subject: Subject) -> list[Finding]:
    assert subject.tolerance is not None
    atol, rtol = subject.tolerance
    for number, case in enumerate(subject.cases):
        values = subject.run(number)
        for index, (value, want) in enumerate(zip(values, case.expected, strict=True)):
            if want.gates is None or not value.numel():
                continue
            gap = (value.double() - want.oracle).abs()
            allowed = atol + rtol * want.oracle.abs()
            used = float((gap / allowed.clamp_min(1e-300)).nan_to_num(0.0).max())
            where = f"output {index}"
            if used > 0.5:
                text = "misses" if used > 1 else "uses more than half of"
                message = f"PyTorch's own result {text} the declared tolerance (atol {atol:g}, rtol {rtol:g}): {used:.2g} times it"
                severity: Severity = "error" if used > 1 else "warning"
                return [
                    Finding("tolerance_tight", severity, where, message, "declare a wider one, or none", {"used": used})
                ]
            scale = float(want.oracle.square().mean().sqrt())
            earned = max(want.gates.norm, 1e-300) * scale
            given = float(allowed.square().mean().sqrt())
            if earned > 0 and given > 100 * earned:
                message = (
                    f"the declared tolerance allows errors of {given:.1e}, {subject.spec.dtype} earns {earned:.1e}"
                )
                evidence = {"allowed": given, "earned": earned}
                return [
                    Finding("tolerance_loose", "warning", where, message, "declare a narrower one, or none", evidence)
                ]
    return []
