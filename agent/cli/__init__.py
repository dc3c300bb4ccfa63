"""The command line. ``main`` is the installed entry point; each command imports what it needs when it runs, so help stays quick."""

from __future__ import annotations

import signal
import sys
from collections.abc import Sequence
from types import FrameType


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one command and exit with a documented code (see ``agent.cli.exits``)."""
    # SIGTERM is an interruption like Ctrl-C: else processes that were started and temporary folders would be left behind.
    signal.signal(signal.SIGTERM, _interrupted)
    sys.exit(run(arguments))


def _interrupted(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def run(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns its exit code. Every error is one line on stderr."""
    from typer.exceptions import Abort, TyperException

    from agent.cli import exits
    from agent.cli.app import command

    given = list(sys.argv[1:] if arguments is None else arguments) or ["--help"]
    try:
        result = command().main(args=given, prog_name="kernelevolve", standalone_mode=False)
    except TyperException as error:
        message = exits.one_line(error.format_message()).replace("Value error, ", "")
        print(f"error: {message}{_meant(message)}", file=sys.stderr)
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


_ELSEWHERE = {
    "runs": "list", "ls": "list", "history": "list", "run": "optimize", "tune": "optimize", "search-kernel": "optimize",
    "status": "show", "report": "show", "info": "show", "continue": "resume", "find": "search", "query": "search", "ask": "search",
    "check": "judge", "verify": "judge", "time": "judge", "bench": "judge", "benchmark": "judge", "devices": "targets",
    "suites": "specs", "suite": "batch", "save": "export", "load": "ingest", "add": "ingest", "version": "--version", "help": "--help",
}  # fmt: skip
"""Names that other programs give to what a command here does."""


def _meant(message: str) -> str:
    """What to type instead of a command that is not there; empty where the message is about something else or says so already."""
    name = message.removeprefix("No such command ").rstrip(".").strip("'")
    if not message.startswith("No such command ") or "Did you mean" in message:
        return ""
    return (
        f" Did you mean '{_ELSEWHERE[name]}'?" if name in _ELSEWHERE else " `kernelevolve --help` lists the commands."
    )
