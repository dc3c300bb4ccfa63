"""Does the output depend on every input and every parameter? Each is replaced alone, and the judge's rule says whether that shows."""

from __future__ import annotations

from typing import Any

import torch

from evaluators.lint.clock import Clock
from evaluators.lint.finding import Finding
from evaluators.lint.subject import Subject


def find(subject: Subject, clock: Clock, thorough: bool = True) -> list[Finding]:
    """Inputs and parameters that a candidate may ignore. ``thorough`` looks at halves of inputs and at parameters too."""
    found: list[Finding] = []
    for leaf, tensor in enumerate(subject.cases[0].inputs):
        if not tensor.numel():
            continue
        name = subject.label(leaf)
        if _ignored(subject, leaf, None):
            found.append(
                Finding(
                    "input_ignored",
                    "error",
                    f"input {name}",
                    "values of another seed in its place change no verdict: a candidate may ignore it",
                    "judge it on inputs where it matters (the repaired spec), or remove the input",
                    {"seeds": len(subject.cases), "elements": tensor.numel()},
                )
            )
        elif thorough and not clock.over():
            found += _halves(subject, leaf, name)
    if thorough:
        found += _parameters(subject, clock)
    return found


def _halves(subject: Subject, leaf: int, name: str) -> list[Finding]:
    shape = subject.cases[0].inputs[leaf].shape
    for axis in sorted(range(len(shape)), key=lambda d: -shape[d]):
        size = shape[axis]
        if size < 4:
            continue
        for part, half in (("second", slice(size // 2, size)), ("first", slice(0, size // 2))):
            if _ignored(subject, leaf, (slice(None),) * axis + (half,)):
                return [
                    Finding(
                        "input_partly_ignored",
                        "warning",
                        f"input {name}",
                        f"the {part} half along axis {axis} (size {size}) can hold another seed's values without changing a verdict",
                        "look whether the reference means to leave that part out; else use inputs where it matters",
                        {"axis": axis, "size": size, "seeds": len(subject.cases)},
                    )
                ]
    return []


def _ignored(subject: Subject, leaf: int, part: Any) -> bool:
    """Whether replacing an input (or the part of it) passes on every seed. What makes the reference fail matters."""
    for number, case in enumerate(subject.cases):
        inputs = list(case.inputs)
        other = another(inputs[leaf], subject.cases[number - 1].inputs[leaf])
        if other is None:
            return False
        inputs[leaf] = other if part is None else _mixed(inputs[leaf], other, part)
        try:
            if not subject.passes(number, subject.run(number, inputs)):
                return False
        except Exception:
            return False
    return True


def _mixed(tensor: Any, other: Any, part: Any) -> Any:
    mixed = tensor.clone()
    mixed[part] = other[part]
    return mixed


def another(tensor: Any, other: Any) -> Any:
    """Other values for a tensor: another seed's, or where these are the same, moved ones. None where there are none to be had."""
    if other.shape == tensor.shape and not torch.equal(other, tensor):
        return other
    if tensor.is_floating_point():
        return replaced(tensor, 0)
    rolled = tensor.reshape(-1).roll(1).reshape(tensor.shape)
    if not torch.equal(rolled, tensor):
        return rolled
    return ~tensor if tensor.dtype == torch.bool else None


def replaced(tensor: Any, seed: int) -> Any:
    """A floating tensor of other values of about the same size: shifted by one place, with noise of its own spread."""
    generator = torch.Generator().manual_seed(seed)
    wide = tensor.detach().double()
    spread = float(wide.std()) if wide.numel() > 1 else 0.0
    size = float(wide.abs().mean()) if wide.numel() else 0.0
    scale = spread if spread > 1e-3 * size and spread > 0 else (size or 1.0)
    noise = torch.randn(wide.shape, dtype=torch.float64, generator=generator) * scale
    return (wide.reshape(-1).roll(1).reshape(wide.shape) + noise).to(tensor.dtype)


def _named(names: list[str]) -> str:
    more = f" and {len(names) - 3} more" if len(names) > 4 else ""
    shown = names[:3] if more else names
    return f"parameter{'s' if len(names) > 1 else ''} {', '.join(shown)}{more}"


def is_constant(parameter: Any) -> bool:
    """Whether all elements of a parameter of several are the same number."""
    return parameter.numel() > 1 and bool((parameter == parameter.reshape(-1)[0]).all())


def _parameters(subject: Subject, clock: Clock) -> list[Finding]:
    found: list[Finding] = []
    own = list(subject.model.named_parameters())
    constant = {n: float(p.reshape(-1)[0]) for n, p in own if is_constant(p)}
    if constant:
        values = ", ".join(f"{v:g}" for v in sorted(set(constant.values()))[:4])
        found.append(
            Finding(
                "constant_parameter",
                "warning",
                _named(list(constant)),
                f"every element is the same number ({values}), so that leaving it out may pass",
                "draw it from a distribution (the repaired spec does)",
                {"parameters": list(constant), "of": len(own)},
            )
        )
    ignored: list[str] = []
    tested = 0
    for name, parameter in own:
        if clock.over():
            break
        tested += 1
        if parameter.is_floating_point() and parameter.numel() and _parameter_ignored(subject, parameter):
            ignored.append(name)
    if ignored:
        found.append(
            Finding(
                "parameter_ignored",
                "warning",
                _named(ignored),
                "other values in its place change no verdict: what follows cancels it, or it is not used",
                "look whether a later operator cancels it (a bias before a normalisation does); a candidate may leave it out",
                {"parameters": ignored, "of": len(own)},
            )
        )
    if tested < len(own):
        found.append(
            Finding(
                "unfinished",
                "info",
                "parameters",
                f"{tested} of {len(own)} parameters were replaced before the time was over",
                "give it more time (--seconds)",
                {"tested": tested, "of": len(own)},
            )
        )
    return found


def _parameter_ignored(subject: Subject, parameter: Any) -> bool:
    kept = parameter.detach().clone()
    try:
        for number in range(len(subject.cases)):
            with torch.no_grad():
                parameter.copy_(replaced(kept, number))
            try:
                if not subject.passes(number, subject.run(number)):
                    return False
            except Exception:
                return False
        return True
    finally:
        with torch.no_grad():
            parameter.copy_(kept)
