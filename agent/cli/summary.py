"""What a finished run says: the final table for people, the record for scripts."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent.figures import count, interval, times
from agent.report.data import Node, RunReport, compiled

if TYPE_CHECKING:
    from rich.table import Table


def result_table(report: RunReport, folder: Path | None) -> Table:
    """The final table: times, speed-up with its interval, accuracy, roofline, recommendation and where the files are."""
    from rich.markup import escape
    from rich.table import Table

    table = Table(show_header=False, box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    table.add_row("run", report.run_id)
    table.add_row("spec", f"{report.spec.name}, {report.spec.dtype}, on {report.target}")
    verdict = report.verdict
    if verdict and verdict.timing:
        t = verdict.timing
        for name in ("eager", "compile"):
            if name in t.baselines:
                table.add_row(f"PyTorch {name}", f"{t.baselines[name]:.4g} ms")
        table.add_row("candidate", verdict.candidate_id)
        table.add_row("kernel", f"{t.candidate_ms:.4g} ms{report.of_origin and f' (the one{report.of_origin})'}")
        source = "re-run in a fresh process" if t.fresh_process else "measured while searching"
        spread = f"95% interval {interval(t.low, t.high)}, median of {count(len(t.samples), 'pair')}, {source}"
        table.add_row("speed-up", f"[bold]{times(t.ratio)}[/] over {t.baseline} ({spread})")
    if verdict and verdict.accuracy:
        a = verdict.accuracy
        table.add_row("accuracy", f"error {a.error:.2e} against float64; PyTorch's own {a.reference_error:.2e}")
    if verdict and verdict.roofline and verdict.roofline.fraction is not None:
        r = verdict.roofline
        table.add_row("roofline", f"{100 * (r.fraction or 0):.0f}% of the {r.limit} bound ({r.bound_ms:.4g} ms)")
    if verdict and verdict.status == "checked":
        table.add_row("compiled", compiled(verdict) or "no figures reported")
        table.add_row("checks", verdict.message)
    if report.weak_spec:
        table.add_row("weak spec", f"[yellow]no credit[/]: {escape('; '.join(report.weak_spec))}")
    table.add_row("candidates", _counts(report))
    if report.stop_reason:
        table.add_row("ended", report.stop_reason)
    colour = {"kernel": "green", "baseline": "yellow", "inconclusive": "yellow", "untimed": "yellow", "none": "red"}[
        report.recommendation
    ]
    table.add_row("recommendation", f"[{colour}]{report.sentence}[/]")
    if folder is not None and folder.is_dir():
        names = [n for n in ("best.py", "report.html", "run.json") if (folder / n).exists()]
        table.add_row("files", f"{folder}: {', '.join(names)}")
    return table


def candidate_table(report: RunReport) -> Table:
    """Every candidate of the run, one a line."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for name in (
        "candidate",
        "step",
        "phase",
        "proposer",
        "language",
        "status",
        "ms",
        "ratio",
        "95% interval",
        "tries",
    ):
        table.add_column(name, justify="right" if name in ("step", "ms", "ratio") else "left", overflow="fold")
    for node in report.nodes:
        c = node.candidate
        best = "bold" if c.id == report.best_id else ""
        ms, ratio, interval = _figures(node)
        status = node.evaluation.status if node.evaluation else "not judged"
        table.add_row(
            c.id, str(c.step), c.phase, c.proposer, c.language, status, ms, ratio, interval, c.note, style=best
        )
    return table


def record(report: RunReport, folder: Path | None) -> dict[str, Any]:
    """What ``--json`` prints of a run. Keys are stable; times are milliseconds, ``seconds`` is wall clock."""
    verdict = report.verdict
    timing = verdict.timing if verdict else None
    accuracy = verdict.accuracy if verdict else None
    roofline = verdict.roofline if verdict else None
    paths = {n: str(folder / n) for n in ("best.py", "report.html", "run.json") if folder and (folder / n).exists()}
    return {
        "run_id": report.run_id,
        "spec": report.spec.name,
        "target": report.target,
        "dtype": report.spec.dtype,
        "status": report.status,
        "recommendation": report.recommendation,
        "summary": report.sentence,
        "weak_spec": list(report.weak_spec),
        "best": report.best_id,
        "speedup": None if timing is None else {
            "ratio": timing.ratio, "low": timing.low, "high": timing.high, "baseline": timing.baseline, "confirmed": timing.fresh_process,
        },
        "ms": None if timing is None else {"kernel": timing.candidate_ms, **timing.baselines},
        "accuracy": None if accuracy is None else {"error": accuracy.error, "reference_error": accuracy.reference_error},
        "roofline_fraction": roofline.fraction if roofline else None,
        "evaluations": sum(1 for n in report.nodes if n.evaluation),
        "correct": sum(1 for n in report.nodes if n.evaluation and n.evaluation.status in ("correct", "checked")),
        "seconds": report.seconds,
        "tokens": report.tokens,
        "dollars": report.dollars,
        "files": paths,
    }  # fmt: skip


def _figures(node: Node) -> tuple[str, str, str]:
    e = node.evaluation
    if e is None or e.timing is None:
        return "", "", ""
    t = e.timing
    return f"{t.candidate_ms:.4g}", times(t.ratio), interval(t.low, t.high, "–")


def _counts(report: RunReport) -> str:
    counts: dict[str, int] = {}
    for node in report.nodes:
        status = node.evaluation.status.replace("_", " ") if node.evaluation else "not judged"
        counts[status] = counts.get(status, 0) + 1
    listed = ", ".join(f"{n} {s}" for s, n in sorted(counts.items(), key=lambda item: -item[1]))
    return f"{len(report.nodes)} in {report.seconds:.0f} s" + (f": {listed}" if listed else "")
