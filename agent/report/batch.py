"""One page and one JSON file for many runs: a table, and speed-ups with their intervals side by side."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from os.path import relpath
from pathlib import Path
from typing import Any

from agent.figures import count, interval, times
from agent.report.data import RunReport
from agent.report.page import environment, markup, plain, style
from agent.report.timing_charts import Bar, speedups


@dataclass(frozen=True)
class BatchRow:
    """One spec of a batch. Times are milliseconds; ``ratio`` with ``low`` and ``high`` comes from the fresh-process
    re-run; ``error`` is set where the run itself failed; ``timeable`` says whether the target was here; ``report`` is the path of
    the run's own page."""

    spec: str
    target: str
    dtype: str
    run_id: str | None = None
    recommendation: str = "none"
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    kernel_ms: float | None = None
    event_ms: float | None = None
    """The kernel's time by device events, which hold no gap between launches; None on a CPU."""
    eager_ms: float | None = None
    compile_ms: float | None = None
    roofline: float | None = None
    correct: int = 0
    evaluations: int = 0
    seconds: float = 0.0
    timeable: bool = True
    error: str = ""
    report: str = ""
    weak: str = ""
    """What passes on the spec though it computes nothing, so that no speed-up counts; empty where the spec is sound."""

    @classmethod
    def of(cls, run: RunReport, page: str = "") -> BatchRow:
        """The row of a run."""
        verdict = run.verdict
        t = verdict.timing if verdict else None
        return cls(
            spec=run.spec.name,
            target=run.target,
            dtype=run.spec.dtype,
            run_id=run.run_id,
            recommendation=run.recommendation,
            ratio=t.ratio if t else None,
            low=t.low if t else None,
            high=t.high if t else None,
            kernel_ms=t.candidate_ms if t else None,
            event_ms=t.event_ms if t else None,
            eager_ms=t.baselines.get("eager") if t else None,
            compile_ms=t.baselines.get("compile") if t else None,
            roofline=verdict.roofline.fraction if verdict and verdict.roofline else None,
            correct=sum(1 for n in run.nodes if n.evaluation and n.evaluation.status in ("correct", "checked")),
            evaluations=sum(1 for n in run.nodes if n.evaluation),
            seconds=run.seconds,
            timeable=run.target_present,
            report=page,
            weak="; ".join(run.weak_spec),
        )


def summary(rows: Sequence[BatchRow]) -> dict[str, Any]:
    """Counts, and the geometric mean of what is recommended: the kernel's speed-up, and 1 wherever that is PyTorch, also where no
    candidate was correct. Runs that failed, targets that are not here and weak specs say nothing of speed and are left out."""
    counted = [r for r in rows if not r.error and r.timeable and not r.weak]
    shipped = [r.ratio if r.recommendation == "kernel" and r.ratio else 1.0 for r in counted]
    geomean = math.exp(sum(math.log(x) for x in shipped) / len(shipped)) if shipped else None
    return {
        "specs": len(rows),
        "correct": sum(1 for r in rows if r.correct),
        "faster": sum(1 for r in rows if r.recommendation == "kernel"),
        "failed": sum(1 for r in rows if r.error),
        "counted": len(counted),
        "weak": [r.spec for r in rows if r.weak],
        "geomean_shipped": geomean,
    }


def write_batch(name: str, rows: Sequence[BatchRow], folder: Path) -> Path:
    """Write batch.html and batch.json into ``folder``; returns the page's path."""
    folder.mkdir(parents=True, exist_ok=True)
    totals = summary(rows)
    data = {"name": name, "summary": totals, "rows": [asdict(r) for r in rows]}
    (folder / "batch.json").write_text(json.dumps(plain(data), indent=1), encoding="utf-8")
    several = len({r.target for r in rows}) > 1
    names = [f"{r.spec} ({r.target})" if several else r.spec for r in rows]
    bars = [Bar(n, r.ratio, r.low, r.high, r.error and "failed") for n, r in zip(names, rows, strict=True)]
    tiles = [(f"{totals['correct']} of {totals['specs']}", "specs with a correct kernel")]
    tiles.append((str(totals["faster"]), "intervals wholly above 1"))
    if totals["geomean_shipped"]:
        tiles.append((f"{totals['geomean_shipped']:.2f}×", "geometric mean of what is recommended"))
    if totals["weak"]:
        tiles.append((str(len(totals["weak"])), "weak specs, without credit"))
    if totals["failed"]:
        tiles.append((str(totals["failed"]), "runs failed"))
    page = folder / "batch.html"
    text = (
        environment()
        .get_template("batch.html.j2")
        .render(
            name=name,
            plural=count,
            style=style(),
            rows=[shown(r) | {"report": relpath(r.report, folder) if r.report else ""} for r in rows],
            targets=sorted({r.target for r in rows}),
            tiles=tiles,
            chart=markup(speedups(bars)),
        )
    )
    page.write_text(text, encoding="utf-8")
    return page


def use(row: BatchRow) -> str:
    """What the row recommends, in a word or two; the geometric mean counts every ``PyTorch`` as 1 and nothing else as that."""
    if row.error:
        return "failed"
    if not row.timeable:
        return "not timed" if row.correct else "none correct"
    if row.weak:
        return "no credit: weak spec"
    if row.recommendation == "inconclusive":
        return "PyTorch (too noisy)"
    return "kernel" if row.recommendation == "kernel" else "PyTorch"


def shown(row: BatchRow) -> dict[str, str]:
    """The row as table cells."""

    def ms(value: float | None) -> str:
        return "" if value is None else f"{value:.4g}"

    return {
        "spec": row.spec,
        "target": row.target,
        "eager": ms(row.eager_ms),
        "compile": ms(row.compile_ms),
        "kernel": ms(row.kernel_ms),
        "ratio": "" if row.ratio is None else times(row.ratio),
        "interval": "" if row.low is None or row.high is None else interval(row.low, row.high, "–"),
        "roofline": "" if row.roofline is None else f"{100 * row.roofline:.0f}%",
        "use": use(row),
        "error": row.error,
        "weak": row.weak,
    }
