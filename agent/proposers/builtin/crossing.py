"""Crossover of two plans for one program: the first with parts of the second."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from agent.proposers.builtin.plan import Choice, Plan


def crossed(
    mine: Plan, theirs: Plan, kernels: Sequence[str], facts: Mapping[str, Mapping[str, Any]]
) -> Iterator[tuple[Plan, str]]:
    """Plans that are neither of the two, each with what was taken, for one kernel after another in the order given.

    Where the two schedule a kernel by different exemplars, the whole schedule is taken; else its knobs, all that differ and then one at a
    time, as far as the exemplar admits the mixture (``facts`` of the kernel).
    """
    for kernel in kernels:
        ours, its = mine[kernel], theirs[kernel]
        if ours.exemplar.name != its.exemplar.name:
            if len(kernels) > 1:  # of a single kernel that would be the other plan
                yield {**mine, kernel: its}, f"{kernel}: {its.exemplar.name}"
            continue
        differing = [name for name in ours.knobs if ours.knobs[name] != its.knobs[name]]
        sets = [differing] if len(kernels) > 1 and len(differing) > 1 else []
        for names in [*sets, *([n] for n in differing)]:
            knobs = {**ours.knobs, **{n: its.knobs[n] for n in names}}
            if ours.exemplar.admits(knobs, facts[kernel]):
                told = ", ".join(f"{kernel}.{n} {ours.knobs[n]} → {its.knobs[n]}" for n in names)
                yield {**mine, kernel: Choice(ours.exemplar, knobs)}, told
