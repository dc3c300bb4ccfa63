"""Repaired specs: the same computation on other inputs and parameters, on which answers that compute nothing fail."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch

from evaluators.errors import EvaluatorError
from evaluators.lint import dead, dependence, trivial
from evaluators.lint.clock import Clock
from evaluators.lint.finding import HELPED_BY_INPUTS, WEAK, Finding
from evaluators.lint.recording import record
from evaluators.lint.subject import SEEDS, Subject, examine
from evaluators.spec.kernel_spec import InputSpec, KernelSpec
from evaluators.spec.model import build_model


@dataclass(frozen=True)
class Repaired:
    """The best variant found: the full spec, what was changed, and what is still found on it."""

    spec: KernelSpec
    changes: tuple[str, ...]
    remaining: tuple[Finding, ...]


_INPUTS = {
    "as they are": ("", {}),
    "signed": ("value * torch.randn_like(value)", {"mean": 0.0, "std": 1.0}),
    "wide": ("value * torch.randn_like(value) * 8.0", {"mean": 0.0, "std": 8.0}),
    "rows": ("value * _rows(value)", {"mean": 0.5, "std": 2.0}),
    "small": ("value * torch.randn_like(value) * 0.125", {"mean": 0.0, "std": 0.125}),
    "raised": ("value * torch.randn_like(value) * 2.0 + 2.0", {"mean": 2.0, "std": 2.0}),
    "lowered": ("value * torch.randn_like(value) * 2.0 - 2.0", {"mean": -2.0, "std": 2.0}),
}  # fmt: skip
"""For each way: the expression in a reference's own ``get_inputs``, and the arguments of ``normal`` for described inputs."""

_ORDER = (
    ("signed", "as they are"), ("as they are", "constants"), ("signed", "constants"), ("rows", "as they are"), ("rows", "constants"),
    ("wide", "as they are"), ("wide", "constants"), ("signed", "all"), ("rows", "all"), ("raised", "constants"), ("lowered", "constants"),
    ("small", "constants"), ("raised", "all"), ("lowered", "all"), ("wide", "all"),
    ("small", "all"),
)  # fmt: skip


def search(full: KernelSpec, subject: Subject, found: list[Finding], clock: Clock) -> Repaired | None:
    """The first variant with no finding that inputs can help, else the one with the fewest, on which no trivial answer may pass.

    Variants are tried on the sizes of ``subject``; ``full`` is what the answer is made of.
    """
    spec = subject.spec
    before = _score([f for f in found if f.kind in HELPED_BY_INPUTS])
    best: Repaired | None = None
    best_score = before
    has_constants = any(f.kind == "constant_parameter" for f in found)
    finite = _finite_share(subject)
    ways = [(i, "as they are" if p == "constants" and not has_constants else p) for i, p in _ORDER]
    for inputs, parameters in dict.fromkeys(ways):
        if clock.over():
            break
        changed = apply(spec, subject, inputs, parameters)
        whole = apply(full, subject, inputs, parameters) if changed is not None else None
        if changed is None or whole is None:
            continue
        try:
            candidate = examine(changed, SEEDS[:2])
        except (EvaluatorError, RuntimeError, ValueError, IndexError, TypeError):
            continue
        if _finite_share(candidate) < finite or not _runs(candidate):
            continue
        remaining = examine_weakness(candidate, clock)
        score = _score(remaining)
        if score < best_score:
            whole = replace(whole, repaired_from=full.digest)
            best, best_score = Repaired(whole, _words(inputs, parameters), tuple(remaining)), score
            if score == (0, 0, 0):
                break
    return None if best_score[0] else best


def examine_weakness(subject: Subject, clock: Clock) -> list[Finding]:
    """The findings that inputs can help, without those that take long."""
    found = trivial.find(subject) + dependence.find(subject, clock, thorough=False)
    found += dead.find(subject, [record(subject, i) for i in range(2)], clock, thorough=False)
    found += constants(subject)
    return [f for f in found if f.kind in HELPED_BY_INPUTS]


def constants(subject: Subject) -> list[Finding]:
    """A finding for each parameter whose elements are all the same."""
    return [
        Finding("constant_parameter", "warning", f"parameter {name}", "every element is the same", "")
        for name, parameter in subject.model.named_parameters()
        if dependence.is_constant(parameter)
    ]


def _score(found: list[Finding]) -> tuple[int, int, int]:
    """Answers that pass, ignored inputs, warnings: fewer is better, in this order."""
    errors = [f.kind for f in found if f.severity == "error" and f.kind in WEAK]
    ignored = errors.count("input_ignored")
    return len(errors) - ignored, ignored, sum(f.severity == "warning" for f in found)


def _runs(subject: Subject) -> bool:
    """Whether the reference passes its own rule on the variant: a variant on which it does not would say nothing."""
    try:
        return all(subject.passes(i, subject.run(i)) for i in range(len(subject.cases)))
    except Exception:
        return False


def _finite_share(subject: Subject) -> float:
    shares = [
        float(torch.isfinite(e.oracle).double().mean()) for c in subject.cases for e in c.expected if e.oracle.numel()
    ]
    return min(shares, default=1.0)


def _words(inputs: str, parameters: str) -> tuple[str, ...]:
    words = []
    if inputs != "as they are":
        expression, args = _INPUTS[inputs]
        how = f"value becomes {expression}, or normal with mean {args['mean']:g}, std {args['std']:g}"
        words.append(f"inputs: {inputs} ({how})")
    if parameters == "constants":
        words.append("parameters that are one constant: normal around it, std 0.5")
    elif parameters == "all":
        words.append("all parameters: normal, std 2/sqrt(fan-in), constant ones around their value with std 0.5")
    return tuple(words)


def apply(spec: KernelSpec, subject: Subject, inputs: str, parameters: str) -> KernelSpec | None:
    """The spec with inputs and parameters drawn another way; ``subject`` is the same spec built (at any size). None where nothing
    would change."""
    changed = spec
    if inputs != "as they are":
        drawn = _published(spec, subject, inputs) if spec.inputs is None else _described(spec, inputs)
        if drawn is None:
            return None
        changed = drawn
    if parameters != "as they are":
        drawn_parameters = tuple(_parameters(changed, subject, parameters == "all"))
        if not drawn_parameters:
            return None
        names = {p.name for p in drawn_parameters}
        kept = tuple(p for p in changed.parameters if p.name not in names)
        changed = replace(changed, parameters=(*kept, *drawn_parameters))
    return None if changed == spec else changed


def _described(spec: KernelSpec, way: str) -> KernelSpec | None:
    assert spec.inputs is not None
    args = _INPUTS[way][1]
    fresh = tuple(
        replace(i, dist="normal", args=args)
        if i.dtype != "python" and i.dist in ("normal", "uniform", "zeros", "ones", "constant") and _floating(i.dtype)
        else i
        for i in spec.inputs
    )
    return None if fresh == spec.inputs else replace(spec, inputs=fresh)


def _floating(dtype: str) -> bool:
    return dtype.startswith(("float", "bfloat"))


_REDRAWN = '''

_published_inputs = get_inputs


def get_inputs():
    """The published inputs with the floating ones among {chosen} redrawn, so that answers that compute nothing are wrong."""
    return [_redrawn(value) if place in {chosen} else value for place, value in enumerate(_published_inputs())]


def _rows(value):
    scale = torch.rand(value.shape[:1], device=value.device) * 4.0 + 0.25
    return scale.reshape(-1, *[1] * (value.dim() - 1)) * torch.randn_like(value)


def _redrawn(value):
    return {expression}
'''


def _published(spec: KernelSpec, subject: Subject, way: str) -> KernelSpec | None:
    """A problem file whose own inputs are redrawn from: multiplied, so that what is zero (a triangle, a mask) stays zero. Inputs of two
    values (labels, signs) stay as they are."""
    tensors = subject.cases[0].inputs
    trees = subject.cases[0].argument_tree["list"]
    chosen = [
        place
        for place, tree in enumerate(trees)
        if "tensor" in tree and _continuous(tensors[tree["tensor"]]) and tensors[tree["tensor"]].dim()
    ]
    if not chosen:
        return None
    imported = "" if "import torch\n" in spec.reference else "\n\nimport torch\n"
    text = _REDRAWN.format(chosen=tuple(chosen), expression=_INPUTS[way][0])
    return replace(spec, reference=spec.reference.rstrip("\n") + "\n" + imported + text)


def _continuous(value: Any) -> bool:
    return value.is_floating_point() and value.numel() > 2 and len(torch.unique(value.reshape(-1)[:4096])) > 2


def _parameters(spec: KernelSpec, subject: Subject, everything: bool) -> Iterator[InputSpec]:
    shapes = {n: tuple(p.shape) for n, p in build_model(spec, "meta").named_parameters()}
    for name, parameter in subject.model.named_parameters():
        if not parameter.is_floating_point() or not parameter.numel():
            continue
        if dependence.is_constant(parameter):
            mean = float(parameter.reshape(-1)[0])
            yield InputSpec(name, shapes[name], args={"mean": mean, "std": 0.5})
        elif everything:
            fan_in = max(math.prod(shapes[name][1:]), 1) if parameter.dim() > 1 else 4
            yield InputSpec(name, shapes[name], args={"mean": 0.0, "std": round(2.0 / fan_in**0.5, 6)})
