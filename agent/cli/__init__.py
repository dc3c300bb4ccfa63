"""The command line. ``main`` is the installed entry point; each command imports what it needs when it runs, so help stays quick."""

from __future__ import annotations

import sys
from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one command and exit with a documented code (see ``agent.cli.exits``)."""
    sys.exit(run(arguments))


def run(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns its exit code. Every error is one line on stderr."""
    from typer.exceptions import Abort, TyperException

    from agent.cli import exits
    from agent.cli.app import command

    try:
        result = command().main(args=arguments, prog_name="kernelevolve", standalone_mode=False)
    except TyperException as error:
        message = exits.one_line(error.format_message()).replace("Value error, ", "")
        print(f"error: {message}", file=sys.stderr)
        return exits.USAGE
    except (Abort, KeyboardInterrupt):
        print("error: interrupted", file=sys.stderr)
        return exits.INTERRUPTED
    except Exception as error:
        return exits.report(error)
    if result == 130:  # typer turns a KeyboardInterrupt in a command into this code
        print("error: interrupted", file=sys.stderr)
        return exits.INTERRUPTED
    return int(result) if isinstance(result, int) else exits.OK
