"""lint: what is wrong with a spec, before any budget is spent on it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from agent.cli.exits import FLAWED, CommandError
from agent.cli.options import Profile

if TYPE_CHECKING:
    from evaluators.lint.finding import Finding, LintReport
    from evaluators.spec import KernelSpec

_COLOURS = {"error": "red", "warning": "yellow", "info": "dim"}


def register(app: typer.Typer) -> None:
    """Add this command."""
    app.command()(lint)


def lint(
    specs: Annotated[
        list[str],
        typer.Argument(metavar="SPEC", help="Specs as `optimize` takes them, suites or folders.", show_default=False),
    ],
    target: Annotated[
        str, typer.Option(help="Target whose memory it must fit; auto is the device of this machine.")
    ] = "auto",
    dtype: Annotated[str | None, typer.Option(help="Floating type instead of the spec's own.")] = None,
    profile: Annotated[
        Profile | None, typer.Option(help="Sizes for two CPU cores or for a GPU (default: what the target is).")
    ] = None,
    full_size: Annotated[
        bool, typer.Option("--full-size", help="Check at the spec's own sizes, however long one run takes.")
    ] = False,
    seconds: Annotated[float, typer.Option(min=1.0, help="Time for one spec.")] = 60.0,
    memory: Annotated[float, typer.Option(min=0.5, help="Memory for one spec's process, GiB.")] = 4.0,
    repair: Annotated[
        bool, typer.Option("--repair/--no-repair", help="Whether to look for inputs on which trivial answers fail.")
    ] = True,
    as_json: Annotated[bool, typer.Option("--json", help="Print all reports as JSON on stdout.")] = False,
) -> None:
    """What can a kernel for this spec get away with?

    Finds specs on which zeros, a constant or an input returned as it is pass, inputs and operators that do not matter, and much more
    (docs/lint.md); looks for inputs that repair it. Runs on the CPU, in a process with bounds. Exits 7 where a finding is an error."""
    from agent.cli.console import Activity, print_json, stderr, stdout
    from evaluators import targets
    from evaluators.lint.checks import RUN_S
    from evaluators.lint.lint import LintSettings
    from evaluators.lint.lint import lint as examine

    goal = targets.load(target)
    sizes = profile.value if profile is not None else goal.kind
    loaded = [spec for ref in specs for spec in _load(ref, dtype, sizes)]
    settings = LintSettings(seconds, int(memory * 2**30), run_s=0.0 if full_size else RUN_S, repair=repair)
    reports = []
    console = stdout()
    with Activity(stderr(), "starting") as activity:
        for spec in loaded:

            def doing(phase: str, name: str = spec.name) -> None:
                activity.doing(f"{name}: {phase}")

            report = examine(spec, goal, settings, doing)
            reports.append(report)
            if not as_json:
                _show(report, console)
    if as_json:
        print_json([r.to_dict() for r in reports])
    if any(r.errors for r in reports):
        raise typer.Exit(FLAWED)


def _load(ref: str, dtype: str | None, profile: str) -> list[KernelSpec]:
    from pathlib import Path

    from evaluators.spec import load, load_suite, suites

    sizes: Profile = Profile(profile)
    if ref in suites.names() or Path(ref).is_dir():
        return load_suite(ref, sizes.value, dtype)
    if not ref.strip():
        raise CommandError("SPEC: is empty; name a spec, a file or a suite")
    return [load(ref, dtype=dtype, profile=sizes.value)]


def _show(report: LintReport, console: object) -> None:
    from rich.console import Console
    from rich.markup import escape

    assert isinstance(console, Console)
    verdict = "weak" if report.weak else "flawed" if report.errors else "fine"
    colour = "green" if verdict == "fine" else "red"
    console.print(f"[bold]{escape(report.name)}[/]: [{colour}]{verdict}[/], {report.seconds:.1f} s")
    for finding in report.findings:
        console.print(
            f"  [{_COLOURS[finding.severity]}]{finding.severity:7}[/] {escape(_line(finding))}", soft_wrap=True
        )
        if finding.severity != "info":
            console.print(f"          [dim]→ {escape(finding.advice)}[/]", soft_wrap=True)
    if report.repair == "repaired" and report.repaired is not None:
        console.print(f"  repaired as {report.repaired.digest}: {escape('; '.join(report.changes))}", soft_wrap=True)
        for finding in report.remaining:
            console.print(f"          still {finding.severity}: {escape(_line(finding))}", soft_wrap=True)
    elif report.repair == "unrepairable":
        console.print(
            "  [red]unrepairable[/]: on none of the inputs and parameters tried does every trivial answer fail"
        )


def _line(finding: Finding) -> str:
    return f"{finding.kind}: {finding.where}: {finding.message}"
