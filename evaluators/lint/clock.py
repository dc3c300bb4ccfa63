"""Time of one examination: each check stops in time and says what it left out."""

from __future__ import annotations

import time
from dataclasses import dataclass, field


@dataclass
class Clock:
    """Seconds left to an examination. ``share`` of what is left goes to one check, which asks :meth:`over` as it goes."""

    seconds: float
    begin: float = field(default_factory=time.monotonic)
    until: float = float("inf")

    def left(self) -> float:
        """Seconds left."""
        return self.seconds - (time.monotonic() - self.begin)

    def start(self, share: float) -> None:
        """Begin a check that may take that share of the time left."""
        self.until = time.monotonic() + max(self.left(), 0.0) * share

    def over(self) -> bool:
        """Whether the check that began last must stop."""
        return time.monotonic() > self.until
