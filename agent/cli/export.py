"""export: the best kernel of a run as a module."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from agent.cli.exits import NONE_CORRECT, CommandError
from agent.cli.runs import RUN, resolve


def register(app: typer.Typer) -> None:
    """Add this command."""
    app.command()(export)


def export(
    run: RUN,
    to: Annotated[
        Path | None, typer.Option(help="File to write; standard output where absent.", show_default=False)
    ] = None,
    anyway: Annotated[
        bool, typer.Option("--anyway", help="Even where the run recommends PyTorch, or nothing was timed.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace a file that exists.")] = False,
) -> None:
    """The best kernel of a run as a Python module.

    The module defines ModelNew and imports nothing of this program.
    """
    from agent.report import load, module
    from knowledge.runs.store import RunStore

    store = RunStore()
    report = load(resolve(run, store), store)
    if report.best is None:
        raise CommandError(f"run {report.run_id} has no correct candidate to export", NONE_CORRECT)
    if report.recommendation != "kernel" and not anyway:
        raise CommandError(
            f"run {report.run_id} does not recommend its kernel ({report.sentence.rstrip('.')}); --anyway exports it all the same",
            NONE_CORRECT,
        )
    text = module(report)
    if to is None:
        typer.echo(text, nl=False)
        return
    if to.exists() and not force:
        raise CommandError(f"{to}: the file exists; --force replaces it")
    try:
        to.write_text(text, encoding="utf-8")
    except OSError as error:
        raise CommandError(f"{to}: cannot be written: {error.strerror}") from error
    typer.echo(f"wrote {to}: {report.sentence}", err=True)
