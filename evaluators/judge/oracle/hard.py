"""Inputs harder than those a spec describes: signed, with a mean that is not 0, heavy-tailed, with outliers, ties and zeros.

On what is usually drawn, kernels pass that leave out what such inputs hardly need: the mean of normal numbers, the largest element of a
softmax, everything a ReLU does to numbers that are positive anyway. Only inputs are redrawn whose description allows any number: drawn
as ``normal``, or as ``uniform`` without borders of its own. A problem file's own tensors are changed element by element, which keeps
what they may be made for: zeros, symmetry, equal elements.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping
from typing import Any

import torch

from evaluators.errors import JudgeError
from evaluators.judge.memory import wire
from evaluators.judge.oracle import cases
from evaluators.judge.oracle.local import DRAWS
from evaluators.spec.calls import described, make_arguments
from evaluators.spec.inputs import stream_seed
from evaluators.spec.kernel_spec import InputSpec, KernelSpec

_OUTLIERS = 512
"""One element in so many is an outlier, :data:`_FAR` times as large."""
_FAR = 16.0
_STEEP = 4.0
_MEANINGFUL = 0.05
"""Relative error from which on a limit says nothing."""


@dataclasses.dataclass(frozen=True)
class Way:
    """How inputs are changed: whether positive ones get signs, and whether some rows get equal elements, or zeros."""

    words: str
    signed: bool
    rows: bool


WAYS = (
    Way("signed, heavy-tailed, with outliers, a row of equal elements and one of zeros", True, True),
    Way("signed, heavy-tailed, with outliers", True, False),
    Way("heavy-tailed, with outliers, signs as they were", False, False),
)


def variants(
    spec: KernelSpec, seed: int, device: torch.device, dims: Mapping[str, int] | None
) -> Iterator[tuple[str, list[Any]]]:
    """The inputs of ``seed`` made harder, the hardest way first, with how in words; nothing where no input allows it."""
    before: list[Any] = []
    for way in WAYS:
        inputs = list(make_arguments(spec, seed, device, dims))
        items = described(spec, len(inputs))
        if items is not None:
            made = [
                _described(item, value, way, torch.Generator(device).manual_seed(stream_seed(seed, "hard", item.name)))
                for item, value in zip(items, inputs, strict=True)
            ]
        else:
            tensors: list[Any] = []
            tree = wire.flatten(inputs, tensors)
            made = wire.rebuild(tree, [_published(t, way) for t in tensors])
        flat: list[Any] = []
        wire.flatten(made, flat)
        given: list[Any] = []
        wire.flatten(inputs, given)
        if all(a is b for a, b in zip(flat, given, strict=True)):
            continue  # this way changes nothing
        if len(before) == len(flat) and all(map(torch.equal, flat, before)):
            continue
        before = flat
        yield way.words, list(made)


def hardest(
    spec: KernelSpec, model: Any, device: torch.device, dims: Mapping[str, int] | None, seed: int
) -> cases.Case | None:
    """The case with the hardest inputs on which the reference is finite and a verdict means something; ``None`` where there is none."""
    for words, inputs in variants(spec, seed, device, dims):
        try:
            case = cases.build_case(spec, model, device, seed, dims, None, inputs, DRAWS)
        except JudgeError:
            continue  # the reference itself refuses them
        if meaningful(case.expected):
            case.words = words
            case.relax()
            return case
    return None


def meaningful(expected: list[Any]) -> bool:
    """Whether a verdict on these expected outputs says something: all of them finite, and held to a limit that means something."""
    for want in expected:
        if want.gates is None:
            continue
        if want.reference is not None or not bool(torch.isfinite(want.oracle).all()):
            return False
        if not math.isfinite(want.gates.norm) or want.gates.norm > _MEANINGFUL:
            return False
    return True


def free(item: InputSpec) -> bool:
    """Whether a described input may be any number."""
    floating = item.dtype.startswith(("float", "bfloat"))
    return floating and (item.dist == "normal" or (item.dist == "uniform" and not {"low", "high"} & set(item.args)))


def _described(item: InputSpec, value: Any, way: Way, generator: Any) -> Any:
    if not isinstance(value, torch.Tensor) or not free(item) or not value.numel():
        return value
    made = _heavy(value, way)
    outliers = torch.rand(made.shape, device=made.device, generator=generator) * _OUTLIERS < 1
    made = torch.where(outliers, made * _FAR, made)
    if way.rows and made.dim() > 1 and made.shape[0] >= 4:
        # A power of two: sums of it are exact in any order, so that such a row shows ties and not rounding.
        made[1], made[2] = 2.0 ** round(math.log2(max(float(value.double().abs().mean()), 1e-30))), 0.0
    return made.to(value.dtype)


def _published(value: Any, way: Way) -> Any:
    """The same for a tensor that nothing is known of, element by element; itself where it does not look like a continuous one."""
    if not value.is_floating_point() or value.numel() < 3 or wire.overlaps(value.shape, value.stride()):
        return value
    sample = value.reshape(-1)[:4096].float()
    if len(torch.unique(sample)) < 3 or not bool(torch.isfinite(sample).all()) or _sorted(value):
        return value
    made = torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device=value.device)
    return made.copy_(_heavy(value, way))


def _sorted(value: Any) -> bool:
    if not value.dim() or value.shape[-1] < 8:
        return False
    step = value.diff(dim=-1)
    return bool((step >= 0).all()) or bool((step <= 0).all())


def _heavy(value: Any, way: Way) -> Any:
    """Each number stretched the more the larger it is, alike ones alike, 0 to 0; the positive ones more, so that the mean is not 0."""
    wide = value.float()
    if bool((wide >= 0).all()):
        largest = float(wide.max())
        if not largest:
            return value
        part = wide / (largest * 1.0005)
        made = wide / (1.0 - part).sqrt()
        if way.signed:  # a quarter becomes negative, by digits that say nothing of its size
            made = torch.where((part * 1021.0).frac() < 0.25, -made, made)
    else:
        scale = float(wide.square().mean().sqrt()) or 1.0
        made = wide * (1.0 + (wide / scale).square() / _STEEP)
        made = torch.where(made > 0, 2.0 * made, made)
    return made if value.dtype != torch.float64 else made.double()
