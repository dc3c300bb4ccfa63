"""What is here: doctor, targets, specs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from agent.cli.exits import MISSING
from agent.cli.options import Profile

if TYPE_CHECKING:
    from agent.doctor import Check
    from evaluators.spec.kernel_spec import InputSpec


def register(app: typer.Typer) -> None:
    """Add this group's commands."""
    app.command()(doctor)
    app.command()(targets)
    app.command()(specs)


def doctor(as_json: Annotated[bool, typer.Option("--json", help="Print JSON on stdout.")] = False) -> None:
    """What this machine offers, and what is missing.

    Names the command that fixes what is missing. Exits 0 when the basic path works (C++ kernels for this CPU), 3 when it does not.
    """
    from agent.doctor import examine, healthy

    checks = examine()
    if as_json:
        from agent.cli.console import print_json

        print_json({"healthy": healthy(checks), "checks": [c.to_dict() for c in checks]})
    else:
        _print_checks(checks)
    if not healthy(checks):
        raise typer.Exit(MISSING)


def _print_checks(checks: list[Check]) -> None:
    from rich.table import Table

    from agent.cli.console import stdout
    from agent.doctor import healthy

    marks = {"ok": "[green]ok[/]", "missing": "[red]missing[/]", "optional": "[yellow]absent[/]"}
    table = Table(box=None, pad_edge=False, show_header=False)
    for _ in range(4):
        table.add_column(overflow="fold")
    group = ""
    for check in checks:
        fix = f"\n[bold]→ {check.fix}[/]" if check.fix else ""
        table.add_row(check.group if check.group != group else "", check.name, marks[check.state], check.detail + fix)
        group = check.group
    console = stdout()
    console.print(table)
    if healthy(checks):
        console.print("\nReady. Try: kernelevolve optimize layernorm")
    else:
        missing = ", ".join(c.name for c in checks if c.state == "missing")
        console.print(f"\nNot ready: {missing}. The lines marked → say what to run.")


def targets(as_json: Annotated[bool, typer.Option("--json", help="Print JSON on stdout.")] = False) -> None:
    """The accelerators kernels can be written for."""
    from evaluators import targets as catalogue

    found = [catalogue.load(name) for name in catalogue.names()]
    if as_json:
        from dataclasses import asdict

        from agent.cli.console import print_json

        print_json([asdict(t) for t in found])
        return
    from rich.table import Table

    from agent.cli.console import stdout

    table = Table(box=None, pad_edge=False)
    for title in ("target", "here", "architecture", "GB/s", "fp32 TFLOP/s", "bf16 TFLOP/s", "units", "languages"):
        table.add_column(title, justify="right" if "/s" in title or title == "units" else "left")
    for t in found:
        rates = [_figure(t.peak_tflops.get(dtype)) for dtype in ("float32", "bfloat16")]
        here = "[green]yes[/]" if t.present else ""
        bandwidth = _figure(t.memory_bandwidth_gbs)
        table.add_row(t.name, here, t.architecture, bandwidth, *rates, str(t.compute_units), " ".join(t.languages))
    console = stdout()
    console.print(table)
    console.print("\nA target that is not here is compiled for and checked numerically; nothing is timed.")


def specs(
    profile: Annotated[Profile, typer.Option(help="Sizes for two CPU cores or for a GPU.")] = Profile.cpu,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON on stdout.")] = False,
) -> None:
    """The specs that ship, by suite.

    Any of these names goes to `optimize`.
    """
    from evaluators.spec import load_suite, suites

    listed: list[dict[str, Any]] = []
    for suite in suites.names():
        for spec in load_suite(suite, profile.value, None):
            dims = {name: d.value for name, d in spec.dims.items()}
            inputs, parameters = (
                {i.name: _sized(i, dims) for i in given or ()} for given in (spec.inputs, spec.parameters)
            )
            listed.append({
                "suite": suite, "name": spec.name, "description": spec.description, "inputs": inputs, "parameters": parameters,
            })  # fmt: skip
    if as_json:
        from agent.cli.console import print_json

        print_json(listed)
        return
    from rich.table import Table

    from agent.cli.console import stdout

    table = Table(box=None, pad_edge=False)
    for title in ("suite", "spec", "computes", "inputs"):
        table.add_column(title, overflow="fold")
    for row in listed:
        names = [f"{name} {size}" for name, size in row["inputs"].items()]
        names += [f"{name} {size} (parameter)" for name, size in row["parameters"].items()]
        told = ", ".join(names) or "in its file"
        table.add_row(row["suite"], row["name"], row["description"].partition(". ")[0].rstrip("."), told)
    console = stdout()
    console.print(table)
    console.print(
        "\nA spec may also be a YAML file, a KernelBench problem file, or an operator such as aten::softmax.int."
    )


def _sized(tensor: InputSpec, dims: Mapping[str, int]) -> str:
    from evaluators.spec.shapes import shape

    return "×".join(map(str, shape(tensor.shape, dims))) or ("value" if tensor.dtype == "python" else "scalar")


def _figure(value: float | None) -> str:
    return "" if value is None else f"{value:,.4g}" if value < 10_000 else f"{value:,.0f}"
