"""Where and how a result is wrong, in one line: what a programmer looks for first when a kernel gives wrong numbers."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

_LARGEST = 1 << 24
"""Elements looked at; of larger results the first ones."""
_ALIKE = 1e-3
"""How far factors and offsets of wrong elements may lie apart, relatively, to be one factor or one offset."""
_BOUNDS = (1e-6, 1e-4, 1e-2, 1.0)


def describe(value: Any, oracle: Any, wrong_of: Callable[[Any, Any], Any]) -> str:
    """What the wrong elements have in common, and where they lie; ``wrong_of`` gives their mask for a result and what is right.

    Empty where nothing is wrong. One line, most telling first.
    """
    value, oracle = _limited(value), _limited(oracle)
    wrong = wrong_of(value, oracle)
    count, total = int(wrong.sum()), wrong.numel()
    if not count:
        return ""
    y, e = value[wrong].double(), oracle[wrong].double()
    parts = [f"{count} of {total} elements are wrong ({_share(count, total)})", *_how(y, e)]
    parts += _elsewhere(value, oracle, wrong) or _where(wrong)
    return ", ".join(parts) + f"; {_histogram(value, oracle)}"


def _limited(tensor: Any) -> Any:
    if tensor.numel() <= _LARGEST:
        return tensor.cpu()
    if tensor.dim() and tensor.numel() // tensor.shape[0] * 2 <= _LARGEST:
        return tensor[: _LARGEST * tensor.shape[0] // tensor.numel()].cpu()
    return tensor.reshape(-1)[:_LARGEST].cpu()


def _share(count: int, total: int) -> str:
    if count == total:
        return "all"
    percent = 100 * count / total
    return f"{percent:.3g}%" if percent >= 0.01 else "under 0.01%"


def _how(y: Any, e: Any) -> Iterator[str]:
    """What the wrong elements hold: NaN, what was never written, a factor or an offset away from what is right."""
    broken = int((~torch.isfinite(y) & torch.isfinite(e)).sum())
    if broken:
        yield "all of them NaN or infinite" if broken == y.numel() else f"{broken} of them NaN or infinite"
    if broken == y.numel():
        return
    finite = torch.isfinite(y) & torch.isfinite(e)
    y, e = y[finite], e[finite]
    if y.numel() < 2:
        return
    if bool((y == 0).all()):
        yield "all 0"
    elif bool((y == y[0]).all()):
        yield f"all {float(y[0]):.6g}"
    elif bool((e != 0).all()) and _one(y / e) and bool((e != e[0]).any()):
        yield f"each {float((y / e).median()):.4g} times what is right"
    elif _one(y - e):
        yield f"each off by {float((y - e).median()):+.4g}"
    elif bool(torch.isclose(y, -e, rtol=_ALIKE, atol=0.0).all()):
        yield "each of the wrong sign"


def _one(numbers: Any) -> bool:
    middle = float(numbers.median())
    return middle != 0 and float((numbers - middle).abs().max()) <= _ALIKE * abs(middle)


def _elsewhere(value: Any, oracle: Any, wrong: Any) -> list[str]:
    """Right values in wrong places: transposed, or shifted by one along an axis."""
    value, oracle = value.double(), oracle.double()
    if value.dim() >= 2 and value.shape[-1] > 1 and value.shape[-2] > 1:
        turned = oracle.transpose(-1, -2).reshape(value.shape)
        if bool(torch.isclose(value, turned, rtol=_ALIKE, atol=0.0)[wrong].all()):
            return ["the right values, laid out with the last two axes exchanged"]
    for axis in range(value.dim()):
        size = value.shape[axis]
        for step in (1, -1) if size > 2 else ():
            shifted = oracle.roll(step, axis)
            inner = wrong.clone()
            inner.select(axis, 0 if step == 1 else size - 1).fill_(False)
            if int(inner.sum()) > 2 and bool(torch.isclose(value, shifted, rtol=_ALIKE, atol=0.0)[inner].all()):
                return [f"each holds its {'left' if step == 1 else 'right'} neighbour's value along axis {axis}"]
    return []


def _where(wrong: Any) -> list[str]:
    """The places of the wrong elements along each axis, as far as they are fewer than all."""
    found = []
    for axis in range(wrong.dim()):
        others = [a for a in range(wrong.dim()) if a != axis]
        hit = wrong.any(dim=others) if others else wrong
        places = hit.nonzero().reshape(-1).tolist()
        if len(places) < wrong.shape[axis]:
            found.append(f"at {_places(places, wrong.shape[axis])} of axis {axis} ({wrong.shape[axis]} long)")
    return found


def _places(places: Sequence[int], size: int) -> str:
    first, last = places[0], places[-1]
    if len(places) == 1:
        return f"{'the last place' if first == size - 1 else f'place {first}'}"
    if last - first == len(places) - 1:
        end = ", the tail" if last == size - 1 else ", the head" if first == 0 else ""
        return f"{first}…{last}{end}"
    step = places[1] - first
    if all(b - a == step for a, b in itertools.pairwise(places)):
        return f"every {step}th place from {first} on"
    for period in (2, 4, 8, 16, 32, 64, 128, 256, 512, 1024):
        inside = sorted({p % period for p in places})
        if size > period and len(inside) <= period // 2 and inside[-1] - inside[0] == len(inside) - 1:
            whole = f"{inside[0]}…{inside[-1]}" if len(inside) > 1 else f"{inside[0]}"
            return f"{whole} modulo {period}"
    return f"{len(places)} places ({', '.join(map(str, places[:4]))}, …, {last})"


def _histogram(value: Any, oracle: Any) -> str:
    """How many elements lie how far off, as a share of their size (or of the root mean square, where that is larger)."""
    e = oracle.double().nan_to_num(0.0, 0.0, 0.0)
    scale = e.abs().maximum(e.square().mean().sqrt()).clamp_min(1e-300)
    gap = ((value.double() - oracle.double()).abs() / scale).nan_to_num(float("inf"), float("inf")).reshape(-1)
    borders = torch.tensor(_BOUNDS, dtype=torch.float64)
    counts = torch.bincount(torch.bucketize(gap, borders), minlength=len(_BOUNDS) + 1).tolist()
    names = [f"≤{b:g}" for b in _BOUNDS] + [f">{_BOUNDS[-1]:g}"]
    return "relative errors " + ", ".join(
        f"{n}: {_share(c, gap.numel())}" for n, c in zip(names, counts, strict=True) if c
    )
