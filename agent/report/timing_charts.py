"""How fast the result is: the paired samples behind the headline, times side by side, the roofline, and a batch's bars."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from agent.figures import interval
from agent.figures import times as speedup
from agent.report import svg
from evaluators.verdict import Roofline, Timing

_WIDTH = 860


@dataclass(frozen=True)
class Bar:
    """One row of a bar chart: a speed-up with its 95% interval; ``value`` None where nothing was timed."""

    name: str
    value: float | None
    low: float | None = None
    high: float | None = None
    note: str = ""


def samples(timing: Timing) -> str:
    """Every pair's ratio in the order measured, the median and its interval as a band, and 1 as a line."""
    ratios = [base / mine for base, mine in timing.samples if mine > 0]
    if not ratios:
        return ""
    left, right, top, bottom = 56, _WIDTH - 150, 34, 220
    x_axis = svg.linear([1, max(2, len(ratios))], left + 8, right - 8, count=8)
    x_axis = svg.Axis(
        1, max(2, len(ratios)), left + 8, right - 8, False, tuple(t for t in x_axis.ticks if 1 <= t <= len(ratios))
    )
    y_axis = svg.linear([*ratios, timing.low, timing.high, 1.0], bottom, top)
    band = y_axis(timing.low) - y_axis(timing.high)
    parts = [
        svg.vertical_axis(
            y_axis, left, f"ratio: {timing.baseline} time / kernel time, pair by pair", right, lambda v: f"{v:.3g}×"
        ),
        svg.horizontal_axis(x_axis, bottom, "pair", bottom),
        svg.element("rect", x=left, y=y_axis(timing.high), width=right - left, height=max(band, 1.0), class_="band"),
        svg.element("line", x1=left, x2=right, y1=y_axis(timing.ratio), y2=y_axis(timing.ratio), class_="median"),
        svg.element("line", x1=left, x2=right, y1=y_axis(1), y2=y_axis(1), class_="baseline"),
    ]
    for i, ((base, mine), ratio) in enumerate(zip([s for s in timing.samples if s[1] > 0], ratios, strict=True), 1):
        hover = svg.title(f"pair {i}: {base:.4g} ms against {mine:.4g} ms, {ratio:.3f}×")
        parts.append(svg.element("circle", hover, cx=x_axis(i), cy=y_axis(ratio), r=3, class_="sample"))
    label = y_axis(timing.ratio)
    parts.append(svg.text(right + 8, label, speedup(timing.ratio), "label strong"))
    parts.append(svg.text(right + 8, label + 15, f"95%: {interval(timing.low, timing.high, '–')}", "tick"))
    if abs(y_axis(1) - label) > 32:
        parts.append(svg.text(right + 8, y_axis(1) + 4, "no gain", "tick"))
    return svg.drawing(_WIDTH, bottom + 44, "Paired timing samples", *parts)


def times(timing: Timing, roofline: Roofline | None) -> str:
    """Milliseconds per call: the bound of the roofline, the kernel, and each baseline."""
    rows = [("kernel", timing.candidate_ms, "kernel")]
    rows += [(name, ms, "other") for name, ms in sorted(timing.baselines.items(), key=lambda item: item[1])]
    left, right, top = 110, _WIDTH - 90, 12
    bottom = top + 30 * len(rows)
    bound = [roofline.bound_ms] if roofline else []
    axis = svg.linear([0.0, *(ms for _, ms, _ in rows), *bound], left, right, zero=True)
    parts = [svg.horizontal_axis(axis, bottom, "milliseconds per call (median)", top)]
    for i, (name, ms, kind) in enumerate(rows):
        y = top + 30 * i + 5
        parts.append(
            svg.element("rect", x=left, y=y, width=max(1.0, axis(ms) - left), height=20, rx=2, class_=f"bar {kind}")
        )
        parts.append(svg.text(left - 8, y + 15, name, "label", "end"))
        parts.append(svg.text(axis(ms) + 6, y + 15, f"{ms:.4g} ms", "tick"))
    if roofline:
        x = axis(roofline.bound_ms)
        parts.append(
            svg.element(
                "line",
                svg.title(f"roofline bound {roofline.bound_ms:.4g} ms"),
                x1=x,
                x2=x,
                y1=top,
                y2=bottom,
                class_="bound",
            )
        )
    return svg.drawing(_WIDTH, bottom + 44, "Times per call", *parts)


def roofline_chart(roofline: Roofline, timing: Timing | None) -> str:
    """Achieved rate against the target's ceilings, by operations per byte; empty where nothing is computed (a pure copy)."""
    if roofline.operations <= 0 or roofline.bytes <= 0:
        return ""
    intensity = roofline.operations / roofline.bytes
    ridge = roofline.rate_tflops * 1000 / roofline.bandwidth_gbs
    points = [("kernel", timing.candidate_ms, "best")] if timing else []
    points += [(name, ms, "correct") for name, ms in (timing.baselines.items() if timing else ())]
    rates = {name: roofline.operations / (ms / 1000) / 1e12 for name, ms, _ in points if ms > 0}
    left, right, top, bottom = 72, _WIDTH - 150, 34, 260
    low, high = min(intensity / 8, ridge / 4), max(intensity * 8, ridge * 8)
    x_axis = svg.logarithmic([low, high], left, right)
    ceiling = min(roofline.rate_tflops, roofline.bandwidth_gbs * intensity / 1000)
    y_axis = svg.logarithmic(
        [min([ceiling / 20, *(r / 2 for r in rates.values())]), roofline.rate_tflops * 1.6], bottom, top
    )

    def roof(x: float) -> float:
        return min(roofline.rate_tflops, roofline.bandwidth_gbs * x / 1000)

    start = max(x_axis.low, y_axis.low * 1000 / roofline.bandwidth_gbs)
    corners = [(x, roof(x)) for x in (start, ridge, x_axis.high) if x_axis.low <= x <= x_axis.high]
    line = " ".join(f"{x_axis(x):.1f},{y_axis(y):.1f}" for x, y in corners)
    parts = [
        svg.vertical_axis(y_axis, left, "TFLOP/s", right),
        svg.horizontal_axis(x_axis, bottom, "operations per byte of memory traffic", top),
        svg.element("polyline", points=line, class_="roof"),
        svg.element(
            "line", x1=x_axis(intensity), x2=x_axis(intensity), y1=bottom, y2=y_axis(ceiling), class_="baseline"
        ),
        svg.text(right + 8, y_axis(roofline.rate_tflops) + 4, f"{roofline.rate_tflops:.4g} TFLOP/s", "tick"),
        svg.text(right + 8, y_axis(roofline.rate_tflops) + 19, f"{roofline.bandwidth_gbs:,.0f} GB/s", "tick"),
    ]
    taken: list[float] = []
    for name, ms, kind in points:
        if name not in rates:
            continue
        x, y = x_axis(intensity), y_axis(rates[name])
        hover = svg.title(f"{name}: {ms:.4g} ms, {rates[name]:.4g} TFLOP/s, {roofline.bound_ms / ms:.0%} of the bound")
        parts.append(svg.element("circle", hover, cx=x, cy=y, r=6 if kind == "best" else 5, class_=f"mark {kind}"))
        level = y + 4
        while any(abs(level - t) < 14 for t in taken):
            level += 14
        taken.append(level)
        parts.append(
            svg.text(
                x + 12, level, f"{name} {roofline.bound_ms / ms:.0%}", "label strong" if kind == "best" else "tick"
            )
        )
    return svg.drawing(_WIDTH, bottom + 44, "Roofline", *parts)


def speedups(bars: Sequence[Bar]) -> str:
    """Speed-ups of many runs with their intervals, on a logarithmic axis around 1."""
    values = [v for b in bars for v in (b.value, b.low, b.high) if v and v > 0]
    if not values:
        return ""
    left, right, top = 24 + 7 * max(len(b.name) for b in bars), _WIDTH - 70, 12
    bottom = top + 26 * len(bars)
    axis = svg.logarithmic([1.0, *values], left, right)
    parts = [
        svg.horizontal_axis(
            axis, bottom, "speed-up over the stronger baseline, 95% interval", top, lambda v: f"{svg.figure(v)}×"
        )
    ]
    parts.append(svg.element("line", x1=axis(1), x2=axis(1), y1=top, y2=bottom, class_="baseline"))
    for i, bar in enumerate(bars):
        y = top + 26 * i + 13
        parts.append(svg.text(left - 10, y + 4, bar.name, "label", "end"))
        if not bar.value:
            parts.append(svg.text(axis(1) + 8, y + 4, bar.note or "not timed", "tick"))
            continue
        kind = "gain" if bar.low and bar.low > 1 else "correct"
        start, end = sorted((axis(1), axis(bar.value)))
        hover = svg.title(
            f"{bar.name}: {speedup(bar.value)}" + (f" ({interval(bar.low, bar.high)})" if bar.low and bar.high else "")
        )
        parts.append(
            svg.element(
                "rect", hover, x=start, y=y - 8, width=max(1.0, end - start), height=16, rx=2, class_=f"bar {kind}"
            )
        )
        if bar.low and bar.high:
            parts.append(svg.element("line", x1=axis(bar.low), x2=axis(bar.high), y1=y, y2=y, class_="whisker strong"))
        parts.append(svg.text(max(end, axis(bar.high or bar.value)) + 6, y + 4, speedup(bar.value), "tick"))
    return svg.drawing(_WIDTH, bottom + 44, "Speed-ups", *parts)
