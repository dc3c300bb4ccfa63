"""A glance at a sample of elements: an answer that is wrong there is wrong. What passes it needs to be looked at in full."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from evaluators.lint import dependence, trivial
from evaluators.lint.subject import Subject

_ELEMENTS = 1 << 16
_PLAINLY = 2.0
"""How many times its limit an error must be: the sample's root mean square is not that of all elements."""


def suspect(subject: Subject) -> bool:
    """Whether a trivial answer may pass, or an input be ignored."""
    sizeable = [o for o, like in enumerate(subject.cases[0].outputs) if like.numel()]
    if not sizeable:
        return False
    answered = all(any(_passes(subject, o, values) for values in _answers(subject, o)) for o in sizeable)
    leaves = len(subject.cases[0].inputs)
    # A single input that may be ignored lets the result for other inputs pass.
    return answered or (leaves > 1 and any(_ignored(subject, leaf, sizeable) for leaf in range(leaves)))


def _places(count: int, device: Any) -> Any:
    """Flat indices of a sample, evenly spread."""
    return torch.arange(0, count, max(1, count // _ELEMENTS), device=device)


def _sample(tensor: Any) -> Any:
    flat = tensor.reshape(-1)
    return flat[_places(flat.numel(), flat.device)]


def _right(subject: Subject, number: int, output: int) -> Any:
    want = subject.cases[number].expected[output]
    return _sample(want.oracle if want.gates is not None else want.reference).double()


def _answers(subject: Subject, output: int) -> Iterator[list[Any]]:
    """Samples of each trivial answer, one for each case (:func:`evaluators.lint.trivial.answers` has them whole)."""
    numbers = range(len(subject.cases))
    right = [_right(subject, n, output) for n in numbers]
    like = subject.cases[0].outputs[output]
    for value in (0.0, *(v for _, v in trivial.constants(right[0]))):
        yield [torch.full_like(r, value).to(like.dtype) for r in right]
    want = subject.cases[0].expected[output]
    if like.ndim and 1 < like.shape[0] < like.numel() and want.gates is not None:
        row = want.oracle.double().mean(0).reshape(-1)
        yield [row[_places(like.numel(), row.device) % row.numel()].to(like.dtype) for _ in numbers]
    yield [right[n - 1].to(like.dtype) for n in numbers]
    held = [[p.detach()] * len(right) for p in subject.model.parameters()]
    given = [[case.inputs[leaf] for case in subject.cases] for leaf in range(len(subject.cases[0].inputs))]
    for tensors in given + held:
        if all(trivial.fits(t, like) for t in tensors):
            yield [_sample(t if t.numel() == like.numel() else t.expand(like.shape)).to(like.dtype) for t in tensors]


def _passes(subject: Subject, output: int, values: list[Any]) -> bool:
    return all(not _wrong(subject, number, output, value) for number, value in enumerate(values))


def _ignored(subject: Subject, leaf: int, outputs: list[int]) -> bool:
    """Whether the first case's results stay with other values in place of an input."""
    inputs = list(subject.cases[0].inputs)
    if not inputs[leaf].numel():
        return False
    other = dependence.another(inputs[leaf], subject.cases[-1].inputs[leaf])
    if other is None:
        return False
    inputs[leaf] = other
    try:
        found = subject.run(0, inputs)
    except Exception:
        return False  # what makes the reference fail matters
    cases = subject.cases[0]
    if any(found[o].shape != cases.outputs[o].shape for o in outputs):
        return False
    return not any(_wrong(subject, 0, o, _sample(found[o])) for o in outputs)


def _wrong(subject: Subject, number: int, output: int, value: Any) -> bool:
    """Whether a sample is wrong for certain."""
    want, right = subject.cases[number].expected[output], _right(subject, number, output)
    if want.gates is None:
        return want.ties is None and bool((value.double() != right).any())
    if want.unordered is not None:
        return False  # it is sorted first
    finite = torch.isfinite(right)
    e, y = right[finite], value.double()[finite]
    gap = (y - e).abs().nan_to_num(float("inf"), float("inf"))
    if subject.tolerance is not None:
        atol, rtol = subject.tolerance
        return bool((gap > _PLAINLY * (atol + rtol * e.abs())).any())
    rms = float(e.square().mean().sqrt()) if e.numel() else 0.0
    return bool((gap > _PLAINLY * want.gates.element * (e.abs() + rms)).any())
