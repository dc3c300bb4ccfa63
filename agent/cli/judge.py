"""judge: the judge alone, on one kernel file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from agent.cli.exits import FAILURE, NONE_CORRECT, CommandError
from agent.figures import count, interval, times, whose

if TYPE_CHECKING:
    from rich.table import Table

    from evaluators.verdict import Evaluation


def register(app: typer.Typer) -> None:
    """Add this command."""
    app.command()(judge)


def judge(
    candidate: Annotated[
        Path,
        typer.Argument(help="Python file that defines ModelNew (docs/candidates.md has examples).", show_default=False),
    ],
    reference: Annotated[
        str,
        typer.Option(
            metavar="SPEC",
            help="The spec it must compute: any spec `optimize` takes, such as a KernelBench file.",
            show_default=False,
        ),
    ],
    target: Annotated[str, typer.Option(help="Target name; auto is the device of this machine.")] = "auto",
    dtype: Annotated[str | None, typer.Option(help="Floating type instead of the spec's own.")] = None,
    timed: Annotated[
        bool, typer.Option("--timing/--no-timing", help="Whether to time it, or only check that it is right.")
    ] = True,
    as_json: Annotated[bool, typer.Option("--json", help="Print the whole verdict as JSON on stdout.")] = False,
) -> None:
    """Is this kernel right, and how fast?

    Needs no run and no proposer. A kernel is C++ in SOURCES or functions decorated with @triton.jit; C++ needs no loader, which is added.
    Exits 4 where it is not correct, 1 where it could not be judged."""
    from agent.cli.console import print_json, stdout
    from agent.cli.reading import read_kernel
    from agent.cli.session import require_tools

    source = read_kernel(candidate)
    from evaluators.languages import guess

    require_tools([guess(source)])
    from evaluators.judge.alone import judge_file

    verdict: Evaluation = judge_file(
        candidate, reference, target, timed=timed, dtype=dtype, on_wait=lambda text: typer.echo(text, err=True)
    )
    if as_json:
        print_json(verdict.to_dict())
    else:
        stdout().print(_table(verdict))
    if verdict.status == "infrastructure":
        raise CommandError(f"the judge could not work: {verdict.message}", FAILURE)
    if verdict.status not in ("correct", "checked"):
        raise typer.Exit(NONE_CORRECT)


def _table(verdict: Evaluation) -> Table:
    from rich.markup import escape
    from rich.table import Table

    from evaluators.judge import facts

    table = Table(show_header=False, box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    right = verdict.status in ("correct", "checked")
    table.add_row("verdict", f"[{'green' if right else 'red'}]{verdict.status.replace('_', ' ')}[/]")
    if verdict.message:
        table.add_row("", escape(verdict.message))
    if verdict.accuracy:
        a = verdict.accuracy
        # A mismatch's detail is its message, which stands above.
        detail = f" {a.detail}" if a.detail and a.detail not in verdict.message else ""
        table.add_row(
            "accuracy",
            f"error {a.error:.2e} against float64, PyTorch's own {a.reference_error:.2e}, {count(a.seeds, 'seed')}{escape(detail)}",
        )
    if verdict.timing:
        t = verdict.timing
        for name, ms in t.baselines.items():
            table.add_row(f"PyTorch {name}", f"{ms:.4g} ms")
        table.add_row("kernel", f"{t.candidate_ms:.4g} ms")
        table.add_row(
            "speed-up",
            f"[bold]{times(t.ratio)}[/] over {t.baseline} (95% interval {interval(t.low, t.high)}, {count(len(t.samples), 'pair')})",
        )
    if verdict.roofline and verdict.roofline.fraction is not None:
        table.add_row("roofline", f"{100 * verdict.roofline.fraction:.0f}% of the {verdict.roofline.limit} bound")
    if verdict.resources.get("attribution"):
        table.add_row("whose work", escape(whose(verdict.resources["attribution"])))
    if verdict.diagnosis != "unknown" and right:
        because = verdict.resources.get("because") or ()
        table.add_row("held back", escape("; ".join([verdict.diagnosis.replace("_", " "), *because])))
    lines = [*map(str, facts.known(verdict.resources))]
    table.add_row("facts" if lines else "", "\n".join(map(escape, lines)))
    for name, value in sorted(verdict.resources.items()):
        if name in (*facts.TOLD, "attribution", "samples") or value in (None, "", [], {}):
            continue  # said above; --json has the counts
        text = "; ".join(map(str, value)) if isinstance(value, list) else str(value)
        table.add_row(name.replace("_", " "), escape(text))
    if verdict.isolation:
        table.add_row("isolation", verdict.isolation)
    table.add_row("took", f"{sum(verdict.phases.values()):.1f} s")
    return table
