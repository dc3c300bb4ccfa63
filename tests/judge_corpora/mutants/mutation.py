"""One small change to a kernel's text, of the kind that slips in when a kernel is written down from another."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass


@dataclass(frozen=True)
class Mutation:
    """``kind`` in words; ``part`` is ``cpp`` or ``python``; ``text`` is the whole changed part; ``diff`` the lines that differ."""

    kind: str
    part: str
    text: str
    diff: str

    @property
    def digest(self) -> str:
        """Content hash of the changed text."""
        return hashlib.sha256(f"{self.part}\0{self.text}".encode()).hexdigest()[:12]


def made(kind: str, part: str, before: str, after: str) -> Mutation:
    """The mutation from ``before`` to ``after``."""
    old, new = before.splitlines(), after.splitlines()
    head = 0
    while head < min(len(old), len(new)) and old[head] == new[head]:
        head += 1
    tail = 0
    while tail < min(len(old), len(new)) - head and old[-1 - tail] == new[-1 - tail]:
        tail += 1
    lines = [f"{head + 1}"]
    lines += ["- " + line.strip() for line in old[head : len(old) - tail]]
    lines += ["+ " + line.strip() for line in new[head : len(new) - tail]]
    return Mutation(kind, part, after, "\n".join(lines))
