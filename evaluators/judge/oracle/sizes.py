"""Other sizes within a spec's declared ranges: small ones, drawn for each judge, at which a kernel must be right as well."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace

from evaluators.errors import EvaluatorError
from evaluators.judge.oracle import cases
from evaluators.spec.kernel_spec import Dim, KernelSpec
from evaluators.spec.model import check

_PRIMES = tuple(n for n in range(2, 132) if all(n % d for d in range(2, n)))
_POWERS = (8, 16, 32, 64, 128)
_LONG = (257, 509, 769, 1021, 1531, 2053)
_TRIES = 6


def draw(spec: KernelSpec, seed: int, count: int, elements: int) -> list[dict[str, int]]:
    """At most ``count`` different sets of sizes with at most ``elements`` elements of inputs and parameters together, at which the
    reference works. Empty where no dim has a range."""
    dice = random.Random(seed)
    free = {n: d for n, d in spec.dims.items() if d.low < d.high}
    own = {n: d.value for n, d in spec.dims.items()}
    found: list[dict[str, int]] = []
    for wish in _wishes(free, dice, count):
        sizes = _affordable(spec, {**own, **wish}, free, elements)
        if sizes is not None and sizes != own and sizes not in found:
            found.append(sizes)
        if len(found) == count:
            break
    return found


def _wishes(free: dict[str, Dim], dice: random.Random, count: int) -> Iterator[dict[str, int]]:
    """Sets of sizes: primes, powers of two and one more or less, one long dim among short ones, the least ones; then others like these."""
    if not free:
        return
    kinds = ("primes", "edges", "long", "least")
    for number in range(_TRIES * count):
        kind = kinds[number % len(kinds)]
        longest = dice.choice(list(free))
        wish = {}
        for name, dim in free.items():
            if kind == "least" and number < len(kinds):
                size = dim.low
            elif kind == "long" and name == longest:
                size = dice.choice(_LONG)
            elif kind == "edges":
                size = dice.choice(_POWERS) + dice.choice((-1, 0, 1))
            else:
                size = dice.choice(_PRIMES[:12] if kind == "long" else _PRIMES)
            wish[name] = min(max(size, dim.low), dim.high)
        yield wish


def _affordable(spec: KernelSpec, sizes: dict[str, int], free: dict[str, Dim], elements: int) -> dict[str, int] | None:
    """The sizes, the largest free ones reduced until they are few enough elements; ``None`` where the reference does not work there."""
    for _ in range(40):
        try:
            held = cases.elements(spec, sizes)
            if held <= elements:
                check(replace(spec, dims={n: Dim(v, v, v) for n, v in sizes.items()}))
                return sizes
        except (EvaluatorError, RuntimeError, ValueError, IndexError, TypeError):
            return None
        movable = [n for n in free if sizes[n] > max(free[n].low, 1)]
        if not movable:
            return None
        largest = max(movable, key=lambda n: sizes[n])
        sizes = {**sizes, largest: max(sizes[largest] * 5 // 8 | 1, free[largest].low, 1)}
        if sizes[largest] > free[largest].high:
            return None
    return None
