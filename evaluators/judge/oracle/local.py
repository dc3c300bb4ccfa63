"""A bound for each element from its own size and its own conditioning.

A norm, and an element's error against the largest ones, do not see what becomes of small elements: a row of a millionth of the others'
size may be zero. What an element may err is therefore also measured against what is its own: let ``p_1 … p_K`` be the oracle's results on
inputs and parameters perturbed by one unit roundoff, drawn K times, and

    s_i = |e_i| + max_k |p_k,i − e_i| / u + τ · min(8, rms(e)) + t
    local(a) = max_i |a_i − e_i| / s_i

The second term is what a sum with cancellation can be held to: not its result's size but its terms'. The third allows for a one that was
added on the way (1 + erf, 1 + exp; mish multiplies that by x), four roundoffs of it; the fourth for what devices flush to zero. A
candidate passes if ``|y_i − e_i| ≤ max(L·u, 8·local(r)) · s_i`` for all but few elements: one in many is hardly moved by any of K draws,
by chance, and beside a kink (a ReLU at 0) neither perturbation nor reference need show what rounding does. Bugs of more than rounding
seldom touch so few.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch

from evaluators.judge.oracle import accuracy

DRAWS = 4
"""Perturbations that a scale is made from."""
MOST = {"cpu": 1 << 21, "cuda": 1 << 27}
"""Elements of inputs and outputs together up to which that is affordable. Larger specs have such bounds at their other sizes only."""
_LIMIT = {torch.float32: 512.0, torch.float64: 2048.0, torch.bfloat16: 16.0, torch.float16: 16.0}
"""Unit roundoffs that an element may err, in units of its scale: eight times what the rule of the whole allows the largest of few."""
_ADDED = {torch.float32: 4.0, torch.float64: 4.0, torch.bfloat16: 0.125, torch.float16: 0.125}
"""The same for a one that was added on the way; results in half precision are computed in float32."""
_LARGEST_ONE = 8.0
_LIKE_REFERENCE = 8.0
_FEW = 1e-5
_SEVERAL, _LEAST = 2, 128
"""Elements that may lie beyond their bound where there are at least so many."""


@dataclass
class Local:
    """The scale of each element of one output, and how many times its scale an element may err."""

    scale: Any
    limit: float

    def beyond(self, value: Any, oracle: Any) -> int:
        """How many elements of ``value`` lie beyond their bound; 0 where these are as few as chance explains."""
        count = 0
        flat = self.scale.reshape(-1)
        step = accuracy.chunk(oracle.device)
        for number, (y, e) in enumerate(accuracy.chunks(value, oracle)):
            count += int(self.wrong(y, e, flat[number * step : (number + 1) * step]).sum())
        total = oracle.numel()
        return count if count > (max(_SEVERAL, _FEW * total) if total >= _LEAST else 0) else 0

    def wrong(self, y: Any, e: Any, scale: Any = None) -> Any:
        """The mask of elements beyond their bound; NaN and infinity are judged elsewhere."""
        own = self.scale.reshape(-1)[: e.numel()].reshape(e.shape).to(e.device) if scale is None else scale
        return (y.double() - e.double()).abs_() > own.double().mul(self.limit)


def local(reference: Any, oracle: Any, moved: Any, rms: float) -> Local:
    """The bound for an output: ``moved`` is the largest change of each element among the perturbed oracles."""
    dtype = reference.dtype
    u = accuracy.roundoff(dtype)
    within = _LIMIT.get(dtype, 512.0)
    about = torch.finfo(dtype)
    least = about.tiny if dtype != torch.float16 else about.smallest_normal * about.eps  # no device flushes float16
    added = _ADDED.get(dtype, 4.0) / within * min(_LARGEST_ONE, rms)
    kept = torch.float64 if dtype == torch.float64 else torch.float32
    scale = torch.empty(oracle.shape, dtype=kept, device=oracle.device)
    flat, far = scale.view(-1), moved.reshape(-1)
    own, step = 0.0, accuracy.chunk(oracle.device)
    for number, (r, e) in enumerate(accuracy.chunks(reference, oracle)):
        part = slice(number * step, (number + 1) * step)
        size = e.abs() + far[part] / u + (added + 2.0 * least / (within * u))
        gap = (r - e).abs_().div_(size).nan_to_num_(0.0, 0.0)
        own = max(own, float(gap.max()) if gap.numel() else 0.0)
        flat[part] = size.nan_to_num_(math.inf)
    return Local(scale, max(within * u, _LIKE_REFERENCE * own))
