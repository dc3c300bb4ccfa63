"""A candidate's twin: the same plan rendered at smaller sizes, for an absent device whose judge can only interpret small ones.

Built-in kernels are specialised for their sizes, so that the full-size text itself takes no smaller input.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from math import prod
from typing import Any

from agent.errors import EmitError
from agent.proposers.builtin import space
from agent.proposers.builtin.plan import Choice, Plan, flatten
from evaluators.candidate import Twin
from evaluators.errors import SpecError
from evaluators.ir.kernel import Program
from evaluators.ir.pattern import classify
from evaluators.judge.absent import shrinking
from evaluators.spec.kernel_spec import KernelSpec
from evaluators.spec.shapes import shape
from evaluators.trial import tried

INTERPRETED = ("triton",)
"""Languages with an interpreter."""
LARGEST = 1 << 20
"""Elements of inputs and parameters up to which a twin may need more than the smallest sizes to keep its knobs."""

Facts = Callable[[Program], Mapping[str, Mapping[str, Any]]]
"""What exemplars' constraints may read of each of a program's kernels."""
Render = Callable[[Program, Plan], str]


def twin_of(spec: KernelSpec, program: Program, plan: Plan, facts: Facts, render: Render) -> Twin | None:
    """The plan at small sizes inside the spec's ranges that admit its knobs, else at the smallest with the nearest knobs.

    ``None`` where nothing shrinks, or the reference falls into other kernels at smaller sizes.
    """
    nearest: Twin | None = None
    for dims, small in _smaller(spec):
        if _outline(small) != _outline(program):
            continue
        known = facts(small)
        fitted: dict[str, Choice] = {}
        for kernel, choice in plan.items():
            knobs = space.repaired(choice.exemplar, choice.knobs, known[kernel])
            if knobs is not None:
                fitted[kernel] = Choice(choice.exemplar, knobs)
        if len(fitted) < len(plan) or (nearest and flatten(fitted) != flatten(plan)):
            continue
        before, after = flatten(plan), flatten(fitted)
        changed = ", ".join(f"{name} {before[name]} → {after[name]}" for name in before if before[name] != after[name])
        try:
            found = Twin(dims, render(small, fitted), changed)
        except EmitError:
            continue
        if not changed:
            return found
        nearest = found
    return nearest


def _smaller(spec: KernelSpec) -> Iterator[tuple[dict[str, int], Program]]:
    """The reference at smaller sizes; those that it does not take are left out."""
    for dims in _sizes(spec):
        changed = {name: replace(dim, value=dims[name]) for name, dim in spec.dims.items()}
        try:
            found = tried(replace(spec, dims=changed)).program
        except SpecError:
            continue
        if found is not None:
            yield dims, found


def _sizes(spec: KernelSpec) -> list[dict[str, int]]:
    """All dims shrunk alike, then one of them left as long as may be (a schedule for long rows needs them), then ever larger ones."""

    def count(dims: Mapping[str, int]) -> int | None:
        return _elements(spec, dims)

    alike = shrinking(spec, count)[::-1]
    favoured = [steps[-1] for name in spec.dims if (steps := shrinking(spec, count, last=name))]
    out = [dims for dims in (*alike[:1], *favoured, *alike[1:]) if (count(dims) or 0) <= LARGEST]
    return [dims for i, dims in enumerate(out) if dims not in out[:i]]


def _elements(spec: KernelSpec, dims: Mapping[str, int]) -> int | None:
    """Elements of the declared inputs and parameters; what a reference makes for itself is not counted. None where a shape is none."""
    try:
        return sum(prod(shape(i.shape, dims)) for i in (*(spec.inputs or ()), *spec.parameters))
    except ValueError:
        return None


def _outline(program: Program) -> list[tuple[str, str, int]]:
    return [(k.name, classify(k), len(k.passes)) for k in program.kernels]
