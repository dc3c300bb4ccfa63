"""An ablation's output: tidy tables as CSV and Parquet, and one page with effects, interactions and speed per evaluation."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from agent.figures import count, interval, times
from agent.report.ablation_charts import curves, effects
from agent.report.page import environment, markup, plain, style
from retrieval.ablation.analysis import Effect, analyse, complete, tidy, tidy_curves
from retrieval.ablation.plan import Plan
from retrieval.ablation.records import Record


def write_ablation(plan: Plan, records: Sequence[Record], folder: Path) -> dict[str, Any]:
    """Write report.html, results.json and the tables (runs, curves, effects; .csv and .parquet) into ``folder``; returns what results.json
    holds."""
    import pandas as pd

    found = analyse(plan, records)
    table = pd.DataFrame([asdict(e) for e in found.effects], columns=list(Effect.__dataclass_fields__))
    for name, frame in (("runs", tidy(plan, records)), ("curves", tidy_curves(records)), ("effects", table)):
        frame.to_csv(folder / f"{name}.csv", index=False)
        frame.to_parquet(folder / f"{name}.parquet", index=False)
    results = {
        "name": plan.name,
        "runs": sum(1 for r in records if not r.error),
        "failed": [{"spec": r.spec, "seed": r.seed, "arm": r.arm, "error": r.error} for r in records if r.error],
        "arms": _means(plan, records),
        **asdict(found),
    }
    (folder / "results.json").write_text(json.dumps(plain(results), indent=1), encoding="utf-8")
    page = environment().get_template("ablation.html.j2").render(
        plan=plan, style=style(), plural=count, r=results, shown=shown,
        main=markup(effects([e for e in found.effects if e.kind == "main"], "Main effects")),
        pairs=markup(effects([e for e in found.effects if e.kind == "interaction"], "Two-way interactions")),
        controls=markup(effects([e for e in found.effects if e.kind == "control"], "Controls")),
        curves=[(title, markup(curves(lines, title))) for title, lines in _lines(plan, records)],
    )  # fmt: skip
    (folder / "report.html").write_text(page, encoding="utf-8")
    return results


def shown(effect: Mapping[str, Any]) -> dict[str, str]:
    """An effect as table cells: ratios of geometric means."""

    def span(low: float | None, high: float | None) -> str:
        return "" if low is None or high is None else interval(math.exp(low), math.exp(high), "–")

    return {
        "name": effect["name"],
        "ratio": times(math.exp(effect["estimate"])),
        "interval": span(effect["low"], effect["high"]),
        "method": effect["method"],
        "bootstrap": span(effect["boot_low"], effect["boot_high"]),
    }


def sentences(results: Mapping[str, Any]) -> list[str]:
    """What a terminal shows: the effects, one a line, and what must be known of them."""
    out = [
        f"{results['name']}: {count(results['blocks'], 'complete block')} of {count(results['specs'], 'spec')}; ratios of geometric means"
    ]
    for effect in results["effects"]:
        s = shown(effect)
        limits = f"95% {s['interval']}, {s['method']}" if s["interval"] else "no interval"
        out.append(f"  {s['name']}: {s['ratio']} ({limits})")
    return [*out, *results["notes"]]


def _means(plan: Plan, records: Sequence[Record]) -> list[dict[str, Any]]:
    """Geometric mean of max(F, 1) of every arm over the complete blocks."""
    blocks = complete(plan, records).values()
    out = []
    for arm in plan.arms:
        logs = [math.log(runs[arm.name].best) for runs in blocks]
        out.append({"arm": arm.name, "geomean": math.exp(sum(logs) / len(logs)) if logs else None, "runs": len(logs)})
    return out


def _lines(plan: Plan, records: Sequence[Record]) -> list[tuple[str, dict[str, list[float]]]]:
    """Title → line → geometric mean of the best so far after each evaluation, over the complete blocks: a chart for every
    factor, and one for the product and the controls."""
    blocks = list(complete(plan, records).values())
    if not blocks:
        return []

    def mean(arms: Sequence[str]) -> list[float]:
        curves = [runs[a].curve for runs in blocks for a in arms]
        return [math.exp(sum(map(math.log, at)) / len(at)) for at in zip(*curves, strict=True)]

    out: list[tuple[str, dict[str, list[float]]]] = []
    product, *others = plan.arms
    apart = [a.name for a in others if not a.levels]
    if apart:
        out.append(
            (
                "the product and the controls",
                {
                    "product" if a.levels else a.name: mean([a.name])
                    for a in (product, *others)
                    if a is product or not a.levels
                },
            )
        )
    for f in plan.factors:
        arms = {level: [a.name for a in plan.arms if a.levels.get(f.name) == level] for level in f.levels}
        out.append((f.name, {level: mean(names) for level, names in arms.items()}))
    return out
