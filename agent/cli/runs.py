"""Runs already recorded: list and show."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from agent import figures

if TYPE_CHECKING:
    from knowledge.runs.store import RunStore

RUN = Annotated[
    str, typer.Argument(metavar="RUN", help="Run id, the unambiguous beginning of one, or `last`.", show_default=False)
]


_USE = {"kernel": "kernel", "baseline": "PyTorch", "inconclusive": "PyTorch (too noisy)", "untimed": "not timed"}
"""What a finished run recommends, as the table says it."""


def register(app: typer.Typer) -> None:
    """Add this group's commands."""
    app.command("list")(list_runs)
    app.command()(show)


def resolve(run: str, store: RunStore) -> str:
    """The full id behind what was typed. Raises ``knowledge.errors.RunNotFound``."""
    if run == "last":
        newest = store.list_runs(limit=1)
        if newest:
            return newest[0].id
    return store.get_run(run).id


def list_runs(
    target: Annotated[str | None, typer.Option(help="Only runs on this target.")] = None,
    limit: Annotated[int, typer.Option("-n", "--limit", min=1, help="At most this many, newest first.")] = 20,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON on stdout.")] = False,
) -> None:
    """The recorded runs, newest first."""
    from agent.cli.console import print_json, stdout
    from knowledge.runs.store import RunStore

    found = RunStore().list_runs(limit=limit, target=target)
    if as_json:
        print_json([asdict(r) for r in found])
        return
    console = stdout()
    if not found:
        console.print("No runs yet. Try: kernelevolve optimize layernorm")
        return
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for name in (
        "run",
        "spec",
        "target",
        "status",
        "evaluated",
        "correct",
        "speed-up",
        "95% interval",
        "use",
        "started",
    ):
        table.add_column(
            name, justify="right" if name in ("evaluated", "correct", "speed-up") else "left", overflow="fold"
        )
    for r in found:
        ratio = figures.times(r.ratio) if r.ratio else f"({r.fitness:.2f}×)" if r.fitness else ""
        interval = figures.interval(r.low, r.high, "–") if r.low and r.high else ""
        use = {"kernel": "kernel", "baseline": "PyTorch", "inconclusive": "too noisy", "untimed": "not timed"}.get(
            r.recommendation or "", ""
        )
        started = r.created[:16].replace("T", " ")
        table.add_row(
            r.id, r.spec_name, r.target, r.status, str(r.evaluations), str(r.correct), ratio, interval, use, started
        )
    console.print(table)
    if any(r.ratio is None and r.fitness for r in found):
        console.print("\nA speed-up in brackets is not confirmed by a re-run in a fresh process.")


def show(
    run: RUN,
    source: Annotated[
        str | None,
        typer.Option(metavar="CANDIDATE", help="Print this candidate's source instead; `best` for the best one."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the whole record as JSON on stdout.")] = False,
) -> None:
    """One run: its result and every candidate.

    Also writes its report again.
    """
    from agent.cli.console import print_json, stdout
    from agent.cli.exits import CommandError
    from agent.report import load, write
    from knowledge.runs.store import RunStore

    store = RunStore()
    report = load(resolve(run, store), store)
    if source is not None:
        wanted = report.best_id if source == "best" else source
        found = next((n.candidate for n in report.nodes if n.candidate.id == wanted), None)
        if found is None:
            raise CommandError(
                f"run {report.run_id} has no candidate {source!r}; `kernelevolve show {report.run_id}` lists them"
            )
        typer.echo(found.source)
        return
    if as_json:
        print_json(report.to_dict())
        return
    from agent.cli.summary import candidate_table, result_table
    from agent.result import folder_of

    folder = folder_of(report.run_id, report.settings.get("home"))
    write(report.run_id, store, folder)
    console = stdout()
    console.print(candidate_table(report))
    console.print()
    console.print(result_table(report, folder))
