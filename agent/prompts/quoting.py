"""Put other people's text into a prompt as data: it can be read there, but it cannot end its own quotation."""

from __future__ import annotations

import re

_RUNS = re.compile(r"`+")


def fence_for(text: str) -> str:
    """Backticks longer than any run of them in ``text``, at least three."""
    return "`" * max(3, 1 + max((len(run) for run in _RUNS.findall(text)), default=0))


def fenced(text: str, info: str = "") -> str:
    """``text`` in a fence that nothing inside it closes."""
    fence = fence_for(text)
    return f"{fence}{info}\n{text.rstrip()}\n{fence}"


def quoted(text: str) -> str:
    """``text`` with ``> `` before every line, whatever its line ends are: a fence or heading inside stays inside."""
    return "\n".join(f"> {line}".rstrip() for line in text.strip().splitlines())


def one_line(text: str, limit: int = 200) -> str:
    """``text`` on one line, at most ``limit`` characters."""
    flat = " ".join(text.split())
    return flat if len(flat) <= limit else flat[: limit - 1] + "…"


def clipped(text: str, limit: int) -> str:
    """The beginning and the end of a long message, which say most; the middle is replaced by a count of what is missing."""
    if len(text) <= limit:
        return text
    head = limit * 2 // 3
    tail = limit - head
    return f"{text[:head]}\n… {len(text) - limit} characters left out …\n{text[-tail:]}"
