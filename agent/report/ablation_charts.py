"""Charts of an ablation: effects with their intervals, and the best so far by evaluation."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from agent.figures import interval, times
from agent.report import svg
from retrieval.ablation.analysis import Effect

_WIDTH = 860
_ROW = 26
_DASHES = ("", "6 4", "2 3", "9 3 2 3", "1 5", "12 4")


def effects(found: Sequence[Effect], label: str) -> str:
    """A row for each effect: the ratio of geometric means and its 95% interval, and 1 as a line. Empty where there are none."""
    if not found:
        return ""
    left, right, top = 330, _WIDTH - 170, 14
    bottom = top + _ROW * len(found)
    limits = [math.exp(v) for e in found for v in (e.estimate, e.low, e.high) if v is not None]
    axis = svg.logarithmic([1.0, *limits], left, right)
    parts = [
        svg.horizontal_axis(axis, bottom, "ratio of geometric means", top, lambda v: f"{svg.figure(v)}×"),
        svg.element("line", x1=axis(1), x2=axis(1), y1=top, y2=bottom, class_="baseline"),
    ]
    for n, e in enumerate(found):
        y = top + _ROW * (n + 0.5)
        kind = "gain" if e.low is not None and e.low > 0 else ""
        name = e.name if len(e.name) <= 46 else f"{e.name[:28]}…{e.name[-17:]}"
        parts.append(svg.element("g", svg.title(e.name), svg.text(left - 12, y + 4, name, "label", "end")))
        words = times(math.exp(e.estimate))
        if e.low is not None and e.high is not None:
            low, high = math.exp(e.low), math.exp(e.high)
            parts.append(svg.element("line", x1=axis(low), x2=axis(high), y1=y, y2=y, class_=f"whisker {kind}"))
            words += f" ({interval(low, high, '–')})"
        parts.append(svg.element("circle", cx=axis(math.exp(e.estimate)), cy=y, r=4.5, class_=f"mark {kind}"))
        parts.append(svg.text(right + 12, y + 4, words, "tick"))
    return svg.drawing(_WIDTH, bottom + 44, label, *parts)


def curves(lines: Mapping[str, Sequence[float]], label: str) -> str:
    """The best so far after each evaluation, a line for each name; lines differ by dashes, and are named at their ends."""
    left, right, top, bottom = 56, _WIDTH - 270, 34, 220
    last = max((len(v) for v in lines.values()), default=0)
    if not last:
        return ""
    ticks = tuple(float(n) for n in range(1, last + 1, max(1, math.ceil(last / 12))))
    x_axis = svg.Axis(1, max(2, last), left + 8, right - 8, False, ticks)
    y_axis = svg.logarithmic([1.0, *(v for line in lines.values() for v in line)], bottom, top)
    parts = [
        svg.vertical_axis(y_axis, left, "geometric mean of the best so far", right, lambda v: f"{svg.figure(v)}×"),
        svg.horizontal_axis(x_axis, bottom, "evaluation", bottom),
    ]
    ends: list[float] = []
    for n, (name, line) in enumerate(sorted(lines.items(), key=lambda item: -item[1][-1])):
        points = " ".join(f"{x_axis(i):.1f},{y_axis(v):.1f}" for i, v in enumerate(line, 1))
        dash = _DASHES[n % len(_DASHES)] or None
        parts.append(svg.element("polyline", svg.title(name), points=points, class_="best-line", stroke_dasharray=dash))
        y = max(y_axis(line[-1]) + 4, ends[-1] + 16 if ends else 0.0)
        ends.append(y)
        short = name if len(name) <= 26 else f"{name[:25]}…"
        parts.append(
            svg.element(
                "line", x1=right + 4, x2=right + 30, y1=y - 4, y2=y - 4, class_="best-line", stroke_dasharray=dash
            )
        )
        parts.append(svg.text(right + 36, y, f"{short} {times(line[-1])}", "tick"))
    return svg.drawing(_WIDTH, max(bottom, *ends) + 44, label, *parts)
