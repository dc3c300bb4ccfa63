"""The same computation at other sizes, on other parameters, or on repaired inputs: what a candidate must be right on beside the spec's own.

A variant is an oracle beside the first one, in the same process, with a model of its own. A candidate is constructed again for it, so
that the model which is timed keeps the reference's own parameters.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import torch

from evaluators.errors import EvaluatorError, JudgeError, SpecError
from evaluators.judge.memory import wire
from evaluators.judge.oracle import hard, sizes
from evaluators.spec.inputs import stream_seed
from evaluators.spec.model import signature

if TYPE_CHECKING:
    from evaluators.lint.subject import Subject

Oracle = Any
"""An ``evaluators.judge.oracle.oracle.Oracle``, which calls the functions here."""

PARAMETERS, REPAIRED = "parameters", "repaired"
_MOVED = 0.25
"""Parts of its size by which an element of a parameter is moved."""
_STATISTICS = ("running_mean", "running_var")
"""Buffers that a trained model has other values in than a fresh one."""


def parameters(oracle: Oracle, message: dict[str, Any]) -> dict[str, Any]:
    """Make the variant with other parameters, and a case on it, numbered and seeded as asked; ``none`` says why there is no such."""
    held = sum(map(wire.nbytes, oracle.model.parameters()))
    if oracle.slow() or held > oracle.memory() // 16:
        return {"none": "it would take too long or too much memory"}
    model = copy.deepcopy(oracle.model)
    if not perturb(model, message["seeds"][0]):
        return {"none": "the reference has no parameters"}
    other = oracle.beside(PARAMETERS, {})
    other.model = model
    if not oracle.quick():  # it is conditioned much like the reference's own parameters
        other.moved, other.made_s = oracle.moved, oracle.made_s
    try:
        other.case({"case": message["cases"][0], "seed": message["seeds"][0], "hard": False})
    except JudgeError as error:
        return {"none": str(error)}  # the reference refuses them
    if not hard.meaningful(other.cases[message["cases"][0]].expected):
        return {"none": "the reference is not finite on them, or held to no limit"}
    return {}


def perturb(model: Any, seed: int) -> bool:
    """Other values for a model's parameters, in place; whether there are any.

    What is one constant (a fresh norm's ones and zeros) becomes numbers of its sign and about its size, or about 0. What is not is moved a
    little, so that zeros, signs and what else it may be made for stay.
    """
    tensors = dict(model.named_parameters())
    if not model.training:
        tensors |= {n: b for n, b in model.named_buffers() if n.rpartition(".")[2] in _STATISTICS}
    changed = False
    with torch.no_grad():
        for name, tensor in tensors.items():
            if not tensor.is_floating_point() or not tensor.numel():
                continue
            generator = torch.Generator(tensor.device).manual_seed(stream_seed(seed, "perturbed", name))
            drawn = torch.rand(tensor.shape, device=tensor.device, generator=generator)
            first = float(tensor.reshape(-1)[0])
            if not bool((tensor == first).all()):
                tensor.mul_((1.0 - _MOVED + 2.0 * _MOVED * drawn).to(tensor.dtype))
            else:
                tensor.copy_(first * (0.5 + drawn) if first else drawn - 0.5)
            changed = True
    return changed


def other_sizes(oracle: Oracle, message: dict[str, Any]) -> dict[str, Any]:
    """Other sizes within the declared ranges at which the reference runs, with a case made at each: its number and seed as given."""
    found: list[dict[str, Any]] = []
    for dims in sizes.draw(oracle.spec, oracle.seed, len(message["seeds"]), message["elements"]):
        number = len(found)
        try:
            oracle.at(dims).case({"case": message["first"] + number, "seed": message["seeds"][number], "hard": False})
        except (JudgeError, SpecError):
            continue  # the reference does not work there, whatever the ranges say
        found.append(dims)
    return {"sizes": found}


def weakness(oracle: Oracle, message: dict[str, Any]) -> dict[str, Any]:
    """What passes for the spec though it computes nothing, and the repaired spec, found with the cases of the numbers and seeds given."""
    from evaluators.lint import weak

    if oracle.spec.direction != "forward":
        return {"unknown": "gradients are not looked at"}
    numbers = message["cases"]
    for number, seed in zip(numbers, message["seeds"], strict=True):
        oracle.case({"case": number, "seed": seed, "hard": False})
        if oracle.affordable(oracle.cases[number]) < len(numbers):
            return {"unknown": "two sets of inputs do not fit into memory"}
    try:
        found = weak.find(subject(oracle, numbers))
        if not found:
            return {"why": [], "repaired": None, "changes": []}
        about = weak.weakness(oracle.spec, found, oracle.dims)
    except (EvaluatorError, RuntimeError, ValueError, IndexError, TypeError, NotImplementedError) as error:
        return {"unknown": f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"}
    repaired = about.repaired.to_json() if about.repaired else None
    return {"why": list(about.why), "repaired": repaired, "changes": list(about.changes)}


def repaired(oracle: Oracle, message: dict[str, Any]) -> dict[str, Any]:
    """Make the variant with the repaired spec and its cases; ``none`` says why it is of no use."""
    from evaluators.lint import weak

    other = oracle.beside(REPAIRED, {"spec": message["spec"]})
    try:
        for number, seed in zip(message["cases"], message["seeds"], strict=True):
            other.case({"case": number, "seed": seed, "hard": False})
    except EvaluatorError as error:
        return {"none": str(error)}
    if not all(hard.meaningful(case.expected) for case in other.cases.values()):
        return {"none": "the reference is not finite on repaired inputs, or held to no limit"}
    found = weak.find(subject(other, message["cases"]))
    return {"none": f"{', '.join(weak.words(found))} on repaired inputs too"} if found else {}


def subject(oracle: Oracle, numbers: list[int]) -> Subject:
    """What the lint's checks look at, made of an oracle's cases."""
    from evaluators.lint.subject import Subject

    buffers = {n: b.clone() for n, b in oracle.model.named_buffers()}
    return Subject(oracle.spec, oracle.model, [oracle.cases[n] for n in numbers], signature(oracle.spec), buffers)
