"""A mismatch says where and how: each kind of mistake is named in the line that describes it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from evaluators.judge.oracle import patterns


def said(change: Callable[[torch.Tensor], torch.Tensor], shape: tuple[int, ...] = (48, 83)) -> str:
    """What is said of a changed result."""
    right = torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(3)) + 0.1
    value = change(right.clone()).float()
    return patterns.describe(value, right, lambda y, e: ~((y.double() - e).abs() <= 1e-5 * (e.abs() + 1)))


def part(index: object, new: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[torch.Tensor], torch.Tensor]:
    """A change of a part."""

    def change(t: torch.Tensor) -> torch.Tensor:
        t[index] = new(t[index])  # type: ignore[index]
        return t

    return change


NAN = float("nan")
ROW, COLUMN = slice(None), slice(None)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda t: t * 2, ["(all)", "each 2 times what is right", "≤1: "]),
        (lambda t: t + 0.25, ["each off by +0.25"]),
        (lambda t: -t, ["each -1 times what is right"]),
        (lambda t: t * 0, ["all 0"]),
        (part((ROW, slice(80, None)), lambda t: t + torch.randn_like(t)), ["at 80…82, the tail of axis 1 (83 long)"]),
        (part((slice(0, 16),), lambda t: t * 0 + NAN), ["all of them NaN or infinite", "at 0…15, the head of axis 0 (48 long)"]),
        (part((ROW, slice(3, None, 8)), lambda t: t * 3), ["each 3 times what is right", "every 8th place from 3 on of axis 1"]),
        (part((slice(16, 32), slice(32, 64)), lambda t: t * 0), ["all 0", "at 16…31 of axis 0", "at 32…63 of axis 1"]),
        (part((47, 82), lambda t: t + 1), ["1 of 3984 elements are wrong (0.0251%)", "the last place of axis 1"]),
        (lambda t: t.roll(1, 1), ["each holds its left neighbour's value along axis 1"]),
        (lambda t: t.t().reshape(t.shape), ["the right values, laid out with the last two axes exchanged"]),
        (part((ROW, torch.arange(83) % 8 < 3), lambda t: t + torch.randn_like(t)), ["0…2 modulo 8 of axis 1"]),
    ],
)  # fmt: skip
def test_each_kind_of_mistake_is_named(change: Callable[[torch.Tensor], torch.Tensor], words: list[str]) -> None:
    found = said(change)
    for word in words:
        assert word in found, found
    assert "\n" not in found


def test_nothing_is_said_of_what_is_right() -> None:
    assert said(lambda t: t) == ""


def test_shapes_without_axes_or_elements_are_described_too() -> None:
    assert "1 of 1 elements are wrong (all)" in said(lambda t: t + 1, ())
    assert said(lambda t: t, (0, 3)) == ""


def test_integers_are_described_as_well() -> None:
    right = torch.arange(64).reshape(8, 8)
    found = patterns.describe(right + 1, right, lambda y, e: y != e)
    assert "each off by +1" in found or "right neighbour" in found
