"""How figures are written wherever people read them."""

from __future__ import annotations


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
