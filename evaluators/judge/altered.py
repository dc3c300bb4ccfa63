"""Inputs that change under a candidate's hands: what shows results that were kept from earlier calls and given again.

A few elements of a case's floating inputs take the values of other elements of the same tensor, at places that nobody can guess. They are
as few as make the expected result move visibly, one where the output follows its input, so that a candidate which looks only at
addresses, shapes or a sample of the elements does not notice, and one that looks at all of them has done the work of reading them.
"""

from __future__ import annotations

import copy
import random
from dataclasses import dataclass
from typing import Any

import torch

from evaluators.judge import accuracy, cases, wire
from evaluators.spec.kernel_spec import KernelSpec
from evaluators.spec.model import to_float64

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


def alter(case: cases.Case, spec: KernelSpec, model: Any, level: int = 0) -> Altered | None:
    """The case with a few input elements changed; None where no change of floating inputs shows in the result."""
    draw = random.SystemRandom()
    for number in range(level, len(SHARES)):
        inputs = [_changed(t, SHARES[number], draw) for t in case.inputs]
        arguments = wire.rebuild(case.argument_tree, inputs)
        with torch.no_grad():
            wide = cases.run_flat(*to_float64(model, arguments), case.seed, spec, "the float64 oracle")
            if not any(map(_moved, wide, case.expected)):
                continue
            kept = wire.rebuild(case.argument_tree, [t.clone(memory_format=torch.preserve_format) for t in inputs])
            narrow = cases.run_flat(copy.deepcopy(model), kept, case.seed, spec, "the reference")
        expected = [cases.expect(*outputs) for outputs in zip(narrow, wide, case.moved, strict=True)]
        other = cases.Case(
            case.seed, inputs, case.argument_tree, case.result_tree, expected, case.outputs, False, case.overlapping, case.moved
        )  # fmt: skip
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
