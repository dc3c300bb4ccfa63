"""Fit a prompt into a budget of tokens: what must be there stays, passages fill the rest by rank, long sources are shortened last."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from agent.errors import SettingsError

BYTES_PER_TOKEN = Fraction(14, 5)
"""UTF-8 bytes per token assumed here: an estimate on the safe side for code and English. The server counts for the record."""

LEAST = 96
"""Bytes that a shortened source keeps at least: enough for the line that says what is missing."""

_JOIN = "\n\n"


def estimate_tokens(text: str) -> int:
    """Estimated length in tokens, made without a tokenizer."""
    return math.ceil(len(text.encode()) / BYTES_PER_TOKEN)


@dataclass(frozen=True)
class Section:
    """A part of the prompt: ``before + body + after``.

    ``fixed`` sections stay as they are, of a ``source`` the body may be shortened, an ``optional`` one is kept whole or left out; the
    lower its ``rank``, the sooner it gets room. Optional sections of one ``heading`` stand together below it.
    """

    name: str
    kind: Literal["fixed", "source", "optional"]
    body: str
    before: str = ""
    after: str = ""
    rank: int = 0
    heading: str = ""
    chunk_ids: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The whole section."""
        return self.before + self.body + self.after


@dataclass(frozen=True)
class Cut:
    """What the budget cost: a section left out, or a source shortened by so many estimated tokens."""

    name: str
    how: Literal["left out", "shortened"]
    tokens: int

    def __str__(self) -> str:
        return f"{self.name}: {self.how} (about {self.tokens} tokens)"


@dataclass(frozen=True)
class Fitted:
    """The text, the sections in it by name, and what was cut."""

    text: str
    kept: tuple[str, ...]
    chunk_ids: tuple[str, ...]
    cut: tuple[Cut, ...]


def fit(sections: Sequence[Section], max_tokens: int) -> Fitted:
    """Choose and shorten so that :func:`estimate_tokens` of the text is at most ``max_tokens``.

    Raises :class:`agent.errors.SettingsError` where not even the fixed parts fit.
    """
    mandatory = [s for s in sections if s.kind != "optional"]
    sources = [s for s in mandatory if s.kind == "source"]
    frame = sum(_size(s.text if s.kind == "fixed" else s.before + s.after) for s in mandatory)
    frame += _size(_JOIN) * max(0, len(mandatory) - 1)
    budget = int(max_tokens * BYTES_PER_TOKEN)
    least = frame + sum(min(_size(s.body), LEAST) for s in sources)
    if least > budget:
        raise SettingsError(
            "prompt_tokens",
            max_tokens,
            f"at least {math.ceil(least / BYTES_PER_TOKEN)} for the fixed parts of this prompt",
        )
    room = budget - frame
    limits = dict(zip((s.name for s in sources), allot(room, [_size(s.body) for s in sources]), strict=True))
    rest = room - sum(limits.values())
    whole = all(limits[s.name] == _size(s.body) for s in sources)
    chosen = _choose([s for s in sections if s.kind == "optional"], rest) if whole else set()

    parts: list[str] = []
    kept: list[Section] = []
    cut: list[Cut] = []
    headings: set[str] = set()
    for s in sections:
        if s.kind == "optional" and s.name not in chosen:
            cut.append(Cut(s.name, "left out", estimate_tokens(s.text)))
            continue
        if s.heading and s.heading not in headings:
            headings.add(s.heading)
            parts.append(s.heading)
        text = s.text
        if s.kind == "source" and limits[s.name] < _size(s.body):
            body = shorten(s.body, limits[s.name])
            text = s.before + body + s.after
            cut.append(Cut(s.name, "shortened", estimate_tokens(s.body) - estimate_tokens(body)))
        parts.append(text)
        kept.append(s)
    chunks = tuple(dict.fromkeys(c for s in kept for c in s.chunk_ids))
    return Fitted(_JOIN.join(parts), tuple(s.name for s in kept), chunks, tuple(cut))


def _choose(optional: Sequence[Section], rest: int) -> set[str]:
    """Names of the optional sections that get room, in order of rank; one that is too long does not keep shorter ones out."""
    chosen: set[str] = set()
    headings: set[str] = set()
    for s in sorted(optional, key=lambda s: s.rank):
        cost = _size(s.text) + _size(_JOIN)
        if s.heading and s.heading not in headings:
            cost += _size(s.heading) + _size(_JOIN)
        if cost <= rest:
            rest -= cost
            chosen.add(s.name)
            headings.add(s.heading)
    return chosen


def allot(room: int, sizes: Sequence[int]) -> list[int]:
    """Shares of ``room`` that leave short items whole and divide what remains equally among the long ones."""
    shares = [0] * len(sizes)
    left = len(sizes)
    for i in sorted(range(len(sizes)), key=lambda i: sizes[i]):
        shares[i] = min(sizes[i], room // left)
        room -= shares[i]
        left -= 1
    return shares


def shorten(text: str, limit: int) -> str:
    """The beginning and the end of ``text``, whole lines where it has them, with a line between that says how much is missing.

    At most ``limit`` bytes of UTF-8, and ``limit`` is at least :data:`LEAST` or the length of ``text``.
    """
    data = text.encode()
    if len(data) <= limit:
        return text
    room = limit - LEAST
    head = data[: room * 2 // 3]
    tail = data[len(data) - (room - len(head)) :] if room > len(head) else b""
    head = head[: head.rfind(b"\n") + 1] or head
    tail = tail[tail.find(b"\n") + 1 :] if b"\n" in tail else tail
    lost = len(data) - len(head) - len(tail)
    first, last = head.decode(errors="ignore").rstrip("\n"), tail.decode(errors="ignore")
    return "\n".join(p for p in (first, f"# … {lost} bytes left out here to fit the prompt …", last) if p)


def _size(text: str) -> int:
    return len(text.encode())
