"""How the search went: speed of every candidate per step, and the tree of who came from whom."""

from __future__ import annotations

from agent.figures import interval, times
from agent.report import svg
from agent.report.data import Node, RunReport

_WIDTH = 860
_ROW = 28


def describe(node: Node) -> str:
    """One line about a candidate, for hovering."""
    c, e = node.candidate, node.evaluation
    parts = [c.id, c.note or c.exemplar or c.proposer, e.status if e else "not judged"]
    if e and e.timing and node.ratio:
        parts.append(f"{e.timing.candidate_ms:.4g} ms, {times(node.ratio)} ({interval(e.timing.low, e.timing.high)})")
    elif e and e.message:
        parts.append(e.message.strip().splitlines()[0][:120])
    return " · ".join(p for p in parts if p)


def look(node: Node, best_id: str | None) -> str:
    """CSS class of a candidate's mark: best, gain, correct, checked, failed or pending."""
    e = node.evaluation
    if node.candidate.id == best_id:
        return "best"
    if e is None:
        return "pending"
    if e.status == "correct" and e.timing:
        return "gain" if e.timing.low > 1 else "correct"
    return "checked" if e.status in ("checked", "correct") else "failed"


def mark(x: float, y: float, kind: str, hover: str, href: str, radius: float = 5) -> str:
    """A candidate's mark: a cross where it failed, else a dot; the shape tells as much as the colour."""
    if kind == "failed":
        d = f"M{x - 4:.1f} {y - 4:.1f}l8 8m0 -8l-8 8"
        shape = svg.element("path", svg.title(hover), d=d, class_="mark failed")
    else:
        shape = svg.element(
            "circle", svg.title(hover), cx=x, cy=y, r=radius + (2 if kind == "best" else 0), class_=f"mark {kind}"
        )
    return svg.element("a", shape, href=href)


def speed_per_step(report: RunReport) -> str:
    """Speed-up of each candidate by step with its interval, and the best so far. Candidates with no timing sit in a lane below."""
    steps = [n.candidate.step for n in report.nodes]
    if not steps:
        return ""
    timed = [n for n in report.nodes if n.ratio and n.ratio > 0]
    left, right, top, bottom = 56, _WIDTH - 16, 34, 250
    lane = bottom + 20
    x_axis = svg.linear(
        [min(steps), max(*steps, min(steps) + 1)],
        left + 34,
        right - 14,
        count=min(12, max(1, max(steps) - min(steps))),
    )
    spread = [
        v
        for n in timed
        if n.evaluation and n.evaluation.timing
        for v in (n.evaluation.timing.low, n.evaluation.timing.high)
        if v > 0
    ]
    y_axis = svg.logarithmic([1.0, *spread, *(n.ratio or 1.0 for n in timed)], bottom, top)
    parts = [
        svg.vertical_axis(y_axis, left, "speed-up over the stronger baseline", right, lambda v: f"{svg.figure(v)}×"),
        svg.element("line", x1=left, x2=right, y1=y_axis(1), y2=y_axis(1), class_="baseline"),
        svg.element("line", x1=left, x2=right, y1=lane, y2=lane, class_="lane"),
        svg.text(left - 8, lane + 4, "no time", "tick", "end"),
        svg.horizontal_axis(x_axis, lane + 16, "step", lane + 16, lambda v: f"{v:.0f}" if v == int(v) else ""),
        _best_so_far(report, x_axis, y_axis, right),
    ]
    for node, x in _spread_within_steps(report, x_axis):
        kind = look(node, report.best_id)
        href = f"#{node.candidate.id}"
        timing = node.evaluation.timing if node.evaluation else None
        if node.ratio and timing:
            parts.append(
                svg.element("line", x1=x, x2=x, y1=y_axis(timing.low), y2=y_axis(timing.high), class_=f"whisker {kind}")
            )
            parts.append(mark(x, y_axis(node.ratio), kind, describe(node), href))
        else:
            parts.append(mark(x, lane, kind, describe(node), href))
    return svg.drawing(_WIDTH, lane + 58, "Speed-up per step", *parts)


def _spread_within_steps(report: RunReport, axis: svg.Axis) -> list[tuple[Node, float]]:
    """Side by side where several candidates share a step."""
    groups: dict[int, list[Node]] = {}
    for node in report.nodes:
        groups.setdefault(node.candidate.step, []).append(node)
    room = abs(axis(axis.low + 1) - axis(axis.low)) * 0.8 if axis.high > axis.low else 40.0
    out = []
    for step, nodes in groups.items():
        gap = min(13.0, room / max(1, len(nodes)))
        for i, node in enumerate(nodes):
            out.append((node, axis(step) + (i - (len(nodes) - 1) / 2) * gap))
    return out


def _best_so_far(report: RunReport, x_axis: svg.Axis, y_axis: svg.Axis, right: float) -> str:
    best, points = 0.0, []
    for step in sorted({n.candidate.step for n in report.nodes}):
        here = max((n.ratio or 0.0 for n in report.nodes if n.candidate.step == step), default=0.0)
        if here > best:
            if best:
                points.append((x_axis(step), y_axis(best)))
            best = here
            points.append((x_axis(step), y_axis(best)))
    if not points:
        return ""
    points.append((right, points[-1][1]))
    return svg.element("polyline", points=" ".join(f"{x:.1f},{y:.1f}" for x, y in points), class_="best-line")


def tree(report: RunReport) -> str:
    """The search graph, roots on the left. Solid edges lead from a candidate's first parent, dashed ones from further parents."""
    if not report.nodes:
        return ""
    places = _layout(report)
    depth = max(d for d, _ in places.values())
    rows = max(r for _, r in places.values())
    column = max(90.0, min(190.0, (_WIDTH - 150) / max(1, depth)))

    def at(name: str) -> tuple[float, float]:
        d, r = places[name]
        return 18 + d * column, 26 + r * _ROW

    inner = {p for n in report.nodes for p in n.candidate.parents}
    parts, marks = [], []
    chain = _best_chain(report)
    for node in report.nodes:
        x, y = at(node.candidate.id)
        for order, parent in enumerate(p for p in node.candidate.parents if p in places):
            px, py = at(parent)
            bend = (px + x) / 2
            style = "edge" if order == 0 else "edge further"
            if node.candidate.id in chain and parent in chain:
                style += " winning"
            parts.append(
                svg.element(
                    "path", d=f"M{px:.1f} {py:.1f}C{bend:.1f} {py:.1f} {bend:.1f} {y:.1f} {x:.1f} {y:.1f}", class_=style
                )
            )
        kind = look(node, report.best_id)
        marks.append(mark(x, y, kind, describe(node), f"#{node.candidate.id}"))
        above = node.candidate.id in inner  # beside an inner candidate run the edges to its children
        place = (x - 4, y - 10) if above else (x + 11, y + 4)
        marks.append(svg.text(*place, _short(node), "tick" if kind != "best" else "tick strong"))
    return svg.drawing(int(18 + depth * column + 140), int(26 + rows * _ROW + 22), "Search tree", *parts, *marks)


def _short(node: Node) -> str:
    if node.ratio:
        return times(node.ratio)
    return node.evaluation.status.replace("_", " ") if node.evaluation else "…"


def _best_chain(report: RunReport) -> set[str]:
    by_id = {n.candidate.id: n for n in report.nodes}
    chain: set[str] = set()
    waiting = [report.best_id] if report.best_id in by_id else []
    while waiting:
        name = waiting.pop()
        if name and name in by_id and name not in chain:
            chain.add(name)
            waiting += by_id[name].candidate.parents[:1]
    return chain


def _layout(report: RunReport) -> dict[str, tuple[int, float]]:
    """Candidate → (depth, row): leaves take rows in order, a parent sits in the middle of its children."""
    known = {n.candidate.id for n in report.nodes}
    children: dict[str, list[str]] = {}
    roots = []
    for node in report.nodes:
        first = next((p for p in node.candidate.parents if p in known), None)
        if first is None or first == node.candidate.id:
            roots.append(node.candidate.id)
        else:
            children.setdefault(first, []).append(node.candidate.id)
    places: dict[str, tuple[int, float]] = {}
    row = 0.0
    for root in roots:
        order: list[tuple[str, int]] = []
        waiting = [(root, 0)]
        while waiting:
            name, depth = waiting.pop()
            order.append((name, depth))
            waiting += [(c, depth + 1) for c in reversed(children.get(name, []))]
        for name, depth in order:
            if name not in children:
                places[name] = (depth, row)
                row += 1
        for name, depth in reversed(order):
            if name in children:
                rows = [places[c][1] for c in children[name]]
                places[name] = (depth, (min(rows) + max(rows)) / 2)
    return places
