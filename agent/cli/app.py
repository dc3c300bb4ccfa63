"""The command tree. Adding a command group is one module and one line in ``_GROUPS``."""

from __future__ import annotations

from functools import lru_cache
from importlib import import_module
from typing import Any

import typer

from agent.cli.exits import table

_GROUPS = ("optimize", "batch", "ablate", "runs", "export", "knowledge", "judge", "lint", "machine")

_DESCRIPTION = """Turn a PyTorch reference into a verified, fast kernel for a named accelerator.

Start with `kernelevolve doctor`, then `kernelevolve optimize layernorm`."""

_EPILOG = f"""\b
Exit codes:
{table()}

\b
Data lives under $KERNELEVOLVE_HOME (default ~/.kernelevolve)."""


@lru_cache(maxsize=1)
def application() -> typer.Typer:
    """The typer application with every command registered."""
    app = typer.Typer(
        name="kernelevolve",
        help=_DESCRIPTION,
        epilog=_EPILOG,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    )

    @app.callback()
    def root(
        version: bool = typer.Option(
            False, "--version", help="Print the version and exit.", is_eager=True, callback=_version
        ),
    ) -> None:
        pass

    for name in _GROUPS:
        import_module(f"agent.cli.{name}").register(app)
    return app


def command() -> Any:
    """The application as the command object that parses arguments."""
    return typer.main.get_command(application())


def _version(asked: bool) -> None:
    if asked:
        from importlib.metadata import version

        typer.echo(f"kernelevolve {version('kernelevolve')}")
        raise typer.Exit()
