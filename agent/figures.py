"""How figures are written wherever people read them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def border(value: float) -> str:
    """A border of a speed-up's interval: two decimals, and more where these would hide on which side of 1 it lies."""
    digits = 2
    while value != 1 and digits < 6 and float(f"{value:.{digits}f}") == 1:
        digits += 1
    return f"{value:.{digits}f}"


def times(value: float) -> str:
    """A speed-up: ``1.85×``, with more decimals where two would hide whether it is one."""
    return f"{border(value)}×"


def interval(low: float, high: float, between: str = " to ") -> str:
    """Both borders."""
    return f"{border(low)}{between}{border(high)}"


def count(number: int, noun: str) -> str:
    """``1 run``, ``2 runs``: for nouns that take an s."""
    return f"{number} {noun}{'s' * (number != 1)}"


def whose(shares: Mapping[str, Any]) -> str:
    """Whose work a call is, as the judge found it (``attribution`` in a verdict): ``own code 92%, libraries 3% (libtorch_cpu.so), …``."""
    names = {"own": "own code", "library": "libraries", "memory": "copies and fills"}
    parts = [f"{name} {shares[key]:.0%}" for key, name in names.items() if key == "own" or shares.get(key)]
    if shares.get("of"):
        parts = [f"{p} ({', '.join(shares['of'])})" if p.startswith("libraries") else p for p in parts]
    rest = 1 - sum(shares.get(key, 0.0) for key in names)
    return ", ".join([*parts, *([f"Python and the system {rest:.0%}"] if rest >= 0.005 else [])])
