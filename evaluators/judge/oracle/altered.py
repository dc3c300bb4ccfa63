"""Inputs that change under a candidate's hands: what shows results that were kept from earlier calls and given again.

A few elements of a case's floating inputs take the values of other elements of the same tensor, at places that nobody can guess. They are
as few as make the expected result move visibly, one where the output follows its input, so that a candidate which looks only at
addresses, shapes or a sample of the elements does not notice, and one that looks at all of them has done the work of reading them.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from evaluators.judge.memory import wire
from evaluators.judge.oracle import accuracy, cases
from evaluators.spec.kernel_spec import KernelSpec

SHARES = (0.0, 1e-4, 1e-3, 1e-2, 0.1)
"""Shares of a tensor's elements to change, one at least, until the result moves visibly."""
VISIBLE = 4.0
"""How many times its limit an error must be to count as visible."""


@dataclass
class Altered:
    """A case with other inputs: these, and what is expected of them."""

    case: cases.Case
    level: int
    """Which of :data:`SHARES` it took: where the next one may begin."""


def alter(
    case: cases.Case, spec: KernelSpec, model: Any, device: torch.device, dims: Mapping[str, int] | None, level: int = 0
) -> Altered | None:
    """The case with a few input elements changed; None where no change of floating inputs shows in the result.

    Raises :class:`evaluators.errors.JudgeError` where the reference fails on such inputs.
    """
    draw = random.SystemRandom()
    for number in range(level, len(SHARES)):
        arguments = wire.rebuild(case.argument_tree, [_changed(t, SHARES[number], draw) for t in case.inputs])
        other = cases.build_case(spec, model, device, case.seed, dims, case.moved, arguments)
        if any(_moved(now.oracle, before) for now, before in zip(other.expected, case.expected, strict=True)):
            return Altered(other, number)
    return None


def _changed(tensor: Any, share: float, draw: random.Random) -> Any:
    """A copy of a tensor, as it lies, in which a share of the elements have the values of others; integers stay as they are."""
    count = wire.extent(tensor)
    flat = tensor.as_strided((count,), (1,)).clone()
    changed = flat.as_strided(tensor.shape, tensor.stride())
    if not tensor.is_floating_point() or count < 2:
        return changed
    generator = torch.Generator(flat.device).manual_seed(draw.getrandbits(63))
    several = max(1, int(share * count))
    places, sources = (torch.randint(count, (several,), generator=generator, device=flat.device) for _ in range(2))
    flat[places] = flat[sources]
    return changed


def _moved(wide: Any, before: cases.Expected) -> bool:
    """Whether a result is visibly another than before."""
    if before.gates is None:
        return bool((wide != before.oracle).any())
    found = accuracy.errors(wide, before.oracle)
    return found.norm > VISIBLE * before.gates.norm or found.element > VISIBLE * before.gates.element
