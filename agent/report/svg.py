"""Just enough to draw: an element writer, linear and logarithmic axes, and the frame every chart shares.

Colours and fonts come from the page's style sheet through class names, so that a chart follows the reader's light or dark setting.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape

Number = int | float


def element(name: str, *content: str, **attributes: Number | str | None) -> str:
    """One SVG element. ``content`` is markup already; ``class_`` and ``stroke_width`` become ``class`` and ``stroke-width``."""
    parts = [name]
    for key, value in attributes.items():
        if value is not None:
            parts.append(f'{key.rstrip("_").replace("_", "-")}="{escape(_number(value))}"')
    return f"<{' '.join(parts)}>{''.join(content)}</{name}>"


def text(x: Number, y: Number, words: str, class_: str = "label", anchor: str = "start") -> str:
    """A line of text; ``words`` is escaped."""
    return element("text", escape(words), x=x, y=y, class_=class_, text_anchor=anchor)


def title(words: str) -> str:
    """What a reader sees on hovering the enclosing element."""
    return element("title", escape(words))


def drawing(width: Number, height: Number, label: str, *content: str) -> str:
    """The outermost element. ``label`` is what a screen reader says."""
    return element(
        "svg", *content, viewBox=f"0 0 {_number(width)} {_number(height)}", width=width, height=height, role="img",
        aria_label=label, xmlns="http://www.w3.org/2000/svg",
    )  # fmt: skip


@dataclass(frozen=True)
class Axis:
    """Maps values in [low, high] to pixels in [start, end]; ``ticks`` are the values that get a label."""

    low: float
    high: float
    start: float
    end: float
    log: bool
    ticks: tuple[float, ...]

    def __call__(self, value: float) -> float:
        f: Callable[[float], float] = math.log if self.log else float
        share = (f(min(max(value, self.low), self.high)) - f(self.low)) / (f(self.high) - f(self.low))
        return self.start + share * (self.end - self.start)


def linear(values: Sequence[float], start: float, end: float, count: int = 5, zero: bool = False) -> Axis:
    """A linear axis over finite ``values``, widened to round ticks. ``zero`` makes it include 0."""
    low, high = min(values), max(values)
    low = min(low, 0.0) if zero else low
    if (high - low) / count < sys.float_info.min:  # equal, or subnormally close to it
        high = low + max(abs(low), 1.0)
    step = _round_step((high - low) / count)
    first, last = math.floor(low / step), math.ceil(high / step)
    return Axis(first * step, last * step, start, end, False, tuple(i * step for i in range(first, last + 1)))


def logarithmic(values: Sequence[float], start: float, end: float) -> Axis:
    """A logarithmic axis over positive ``values``, with ticks at 1, 2, 5 per decade (powers of ten where that is too many)."""
    low, high = min(values) / 1.15, max(values) * 1.15
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    span = math.log10(high / low)
    mantissas = (1.0,) if span > 2.5 else (1.0, 2.0, 5.0) if span > 0.9 else (1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 7.0)
    if span < 0.25:
        ticks = [t for t in linear([low, high], 0, 1).ticks if t > 0]
    else:
        ticks = [m * 10.0**d for d in decades for m in mantissas]
    if len(decades) > 8:
        ticks = ticks[:: math.ceil(len(decades) / 8)]
    return Axis(low, high, start, end, True, tuple(t for t in ticks if low <= t <= high))


def horizontal_axis(axis: Axis, y: Number, name: str, top: Number, form: Callable[[float], str] | None = None) -> str:
    """Ticks, grid lines up to ``top``, and the axis's name below."""
    form = form or figure
    parts = [element("line", x1=axis.start, x2=axis.end, y1=y, y2=y, class_="axis")]
    for tick in axis.ticks:
        x = axis(tick)
        parts.append(element("line", x1=x, x2=x, y1=y, y2=top, class_="grid"))
        parts.append(text(x, float(y) + 16, form(tick), "tick", "middle"))
    parts.append(text((axis.start + axis.end) / 2, float(y) + 34, name, "name", "middle"))
    return "".join(parts)


def vertical_axis(axis: Axis, x: Number, name: str, right: Number, form: Callable[[float], str] | None = None) -> str:
    """Ticks, grid lines across to ``right``, and the axis's name above."""
    form = form or figure
    parts = []
    for tick in axis.ticks:
        y = axis(tick)
        parts.append(element("line", x1=x, x2=right, y1=y, y2=y, class_="grid"))
        parts.append(text(float(x) - 8, y + 4, form(tick), "tick", "end"))
    parts.append(text(float(x) - 8, min(axis.start, axis.end) - 12, name, "name", "start"))
    return "".join(parts)


def figure(value: float) -> str:
    """A number as a reader wants it on an axis: 0.25, 3, 1,500."""
    if value == 0:
        return "0"
    if abs(value) >= 1000 or float(value).is_integer():
        return f"{value:,.0f}"
    return f"{value:.3g}"


def _round_step(raw: float) -> float:
    power = 10.0 ** math.floor(math.log10(raw))
    return next(m * power for m in (1.0, 2.0, 2.5, 5.0, 10.0) if m * power >= raw * (1 - 1e-9))


def _number(value: Number | str) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)
