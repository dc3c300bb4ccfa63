"""Charts: finite coordinates inside the frame for whatever was measured, and axes with a few round ticks."""

from __future__ import annotations

import math
import re
from xml.etree import ElementTree

from hypothesis import given, settings
from hypothesis import strategies as st

from agent.report import svg
from agent.report.batch import BatchRow, shown, summary
from agent.report.timing_charts import Bar, roofline_chart, samples, speedups, times
from evaluators.verdict import Roofline, Timing

positive = st.floats(1e-6, 1e6)


def _sound(drawing: str) -> None:
    """Parses as XML, and no coordinate is NaN, infinite or far outside the frame."""
    root = ElementTree.fromstring(drawing)
    width, height = float(root.get("width", "0")), float(root.get("height", "0"))
    for item in root.iter():
        for key in ("x", "x1", "x2", "cx"):
            if item.get(key) is not None:
                assert -1 <= float(item.get(key, "0")) <= width + 1
        for key in ("y", "y1", "y2", "cy"):
            if item.get(key) is not None:
                assert -1 <= float(item.get(key, "0")) <= height + 1
    assert not re.search(r"\b(nan|inf)\b", drawing)


@given(st.lists(positive, min_size=1, max_size=20))
def test_logarithmic_axes_hold_their_values_and_have_ticks(values: list[float]) -> None:
    axis = svg.logarithmic(values, 0, 100)
    assert all(0 <= axis(v) <= 100 for v in values)
    assert 1 <= len(axis.ticks) <= 25


@given(st.lists(st.floats(-1e9, 1e9), min_size=1, max_size=20))
def test_linear_axes_hold_their_values_and_have_few_ticks(values: list[float]) -> None:
    axis = svg.linear(values, 0, 100)
    assert all(-1e-6 <= axis(v) <= 100 + 1e-6 for v in values)
    assert 2 <= len(axis.ticks) <= 9


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(positive, positive), max_size=30), positive, positive)
def test_timing_charts_stand_any_measurement(pairs: list[tuple[float, float]], ms: float, base: float) -> None:
    ratio = base / ms
    timing = Timing(
        ms, "eager", {"eager": base, "compile": base * 2}, ratio, ratio * 0.9, ratio * 1.1, tuple(pairs), "wall"
    )
    bound = min(ms, base) / 2
    roofline = Roofline(1000, 5000, bound, "memory", bound / ms, 100.0, 1.0)
    if pairs:
        _sound(samples(timing))
    _sound(times(timing, roofline))
    _sound(roofline_chart(roofline, timing))


def test_a_copy_has_no_roofline_chart() -> None:
    assert roofline_chart(Roofline(1000, 0, 1.0, "memory", 0.5, 100.0, 1.0), None) == ""


def test_batch_bars_show_what_was_not_timed_too() -> None:
    drawing = speedups([Bar("a", 2.0, 1.8, 2.2), Bar("b <&>", None, note="failed"), Bar("c", 0.5, 0.4, 0.6)])
    _sound(drawing)
    assert "failed" in drawing
    assert "b &lt;&amp;&gt;" in drawing


def test_the_mean_counts_every_spec_that_keeps_pytorch_as_one_and_nothing_else() -> None:
    rows = [
        BatchRow("a", "t", "float32", recommendation="kernel", ratio=8.0, correct=3),
        BatchRow("b", "t", "float32", recommendation="baseline", ratio=0.7, correct=1),
        BatchRow("c", "t", "float32", recommendation="none"),
        BatchRow("d", "t", "float32", error="it broke"),
        BatchRow("e", "gpu", "float32", recommendation="untimed", correct=2, timeable=False),
        BatchRow("g", "t", "float32", recommendation="inconclusive", ratio=11.2, low=5.5, high=32.1, correct=1),
        BatchRow("f", "gpu", "float32", recommendation="none", timeable=False),
        BatchRow("h", "t", "float32", recommendation="baseline", ratio=90.0, correct=1, weak="zeros pass"),
    ]
    totals = summary(rows)
    assert math.isclose(totals["geomean_shipped"], 8.0 ** (1 / 4))
    assert (totals["specs"], totals["correct"], totals["faster"], totals["failed"]) == (8, 5, 1, 1)
    assert totals["weak"] == ["h"]
    shipped = [shown(r)["use"] for r in rows]
    assert shipped.pop() == "no credit: weak spec"
    assert shipped == ["kernel", "PyTorch", "PyTorch", "failed", "not timed", "PyTorch (too noisy)", "none correct"]
    assert totals["counted"] == sum(u.startswith(("kernel", "PyTorch")) for u in shipped), (
        "the table and its mean agree"
    )
