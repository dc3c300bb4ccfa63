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

    return Console(width=None if sys.stdout.isatty() else _plain_width(), highlight=False)


def stderr() -> Console:
    """A console on stderr, for progress while stdout carries JSON."""
    from rich.console import Console

    return Console(stderr=True, width=None if sys.stderr.isatty() else _plain_width(), highlight=False)


def print_json(value: Any) -> None:
    """One JSON document on stdout, and nothing else. NaN and infinities become null: JSON has none."""
    from agent.report.page import plain

    sys.stdout.write(json.dumps(plain(value), indent=2, sort_keys=False, default=str) + "\n")
    sys.stdout.flush()


def _plain_width() -> int:
    return int(os.environ.get("COLUMNS", "160"))
