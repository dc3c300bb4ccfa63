"""Where text goes: results on stdout, everything said along the way on stderr when stdout carries JSON."""

from __future__ import annotations

import json
import os
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console


def stdout() -> Console:
    """A console on stdout. Not a terminal: plain text, wide enough that no table wraps."""
    from rich.console import Console

    return Console(width=None if sys.stdout.isatty() else _plain_width(), highlight=False, force_jupyter=False)


def stderr() -> Console:
    """A console on stderr, for progress while stdout carries JSON or belongs to a program (in a notebook too, as plain lines)."""
    from rich.console import Console

    width = None if sys.stderr.isatty() else _plain_width()
    return Console(stderr=True, width=width, highlight=False, force_jupyter=False)


def print_json(value: Any) -> None:
    """One JSON document on stdout, and nothing else. NaN and infinities become null: JSON has none."""
    from agent.report.page import plain

    sys.stdout.write(json.dumps(plain(value), indent=2, ensure_ascii=False, default=str) + "\n")
    sys.stdout.flush()


def _plain_width() -> int:
    return int(os.environ.get("COLUMNS", "160"))


MANY = 20
"""Pieces of work from which on a plain log says how far it is, because they take a while."""


def milestone(done: int, total: int) -> bool:
    """Whether a plain log, which has no line that changes, should say that ``done`` of ``total`` are done: at every quarter of many."""
    return total > MANY and done % -(-total // 4) == 0


class Activity:
    """A line that says what is going on, on a terminal; elsewhere a line at every quarter of :meth:`progress`."""

    def __init__(self, console: Console, first: str) -> None:
        self._console = console
        self._status = console.status(first) if console.is_terminal else None

    def __enter__(self) -> Activity:
        if self._status is not None:
            self._status.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._status is not None:
            self._status.stop()

    def doing(self, *what: object) -> None:
        """Replace the line."""
        if self._status is not None:
            self._status.update(" ".join(str(w) for w in what))

    def progress(self, done: int, total: int, what: str) -> None:
        """``done`` of ``total`` pieces are done, the last one ``what``."""
        self.doing(f"{done} of {total}: {what}")
        if self._status is None and milestone(done, total):
            self._console.print(f"{done} of {total}", highlight=False)
