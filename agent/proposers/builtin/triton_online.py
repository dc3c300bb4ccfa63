"""The running maximum and the sum of exponentials below it, as Triton text (Milakov and Gimelshein 2018, arXiv 1805.02867)."""

from __future__ import annotations

from collections.abc import Sequence

from agent.proposers.builtin.triton_scope import Scope

LOWEST = "-3.4028234663852886e38"
"""Where a running maximum starts: minus infinity would give NaN against elements that are themselves minus infinity."""


SHORT = "_exp_half"
"""The exponential of a term below the maximum. Its relative error grows with the distance from the maximum, but the term shrinks faster: in
a sum whose largest term is 1 the error of a term at distance d is at most d exp(-d) units of float32's last place."""


def exp(scope: Scope) -> str:
    """Name of the exponential that suits the scope's precision, for results that are the exponentials themselves."""
    return "_exp_half" if scope.fast else "_exp"


def step(scope: Scope, value: str, m: str, s: str) -> None:
    """Fold a tile into per-lane maxima ``m`` and sums ``s`` with one exponential per element: it is the new term, or rescales."""
    up = scope.let(f"{value} > {m}")
    scale = scope.let(f"{SHORT}(-tl.abs({value} - {m}))")
    scope.lines.append(f"{s} = tl.where({up}, {s} * {scale} + 1.0, {s} + {scale})")
    scope.lines.append(f"{m} = tl.where({up}, {value}, {m})")


def grouped_step(scope: Scope, value: str, m: str, s: str, sizes: Sequence[int | str], group: int) -> None:
    """The same with one maximum per ``group`` neighbouring columns, all held by one thread: rescaling is paid once for all of them."""
    last = scope.rank
    shape = ", ".join([*map(str, sizes[:-1]), f"{sizes[-1]} // {group}", str(group)])
    wide = scope.let(f"tl.reshape({value}, [{shape}])")
    top = scope.let(f"tl.maximum({m}, tl.max({wide}, axis={last}))")
    spread = ", ".join([":"] * last + ["None"])
    below = scope.let(f"tl.sum({SHORT}({wide} - {top}[{spread}]), axis={last})")
    scope.lines.append(f"{s} = {s} * {SHORT}({m} - {top}) + {below}")
    scope.lines.append(f"{m} = {top}")


def rescaled(scope: Scope, s: str, m: str, whole: str) -> str:
    """Sums below ``m`` as sums below ``whole``."""
    return scope.let(f"{s} * {SHORT}({m} - {whole})")


def spoiled(text: str, whole: str) -> str:
    """A sum that becomes NaN where the maximum is infinite, as subtracting it from itself would make it."""
    return f"{text} + ({whole} - {whole})"
