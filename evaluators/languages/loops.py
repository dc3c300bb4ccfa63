"""What g++ says of each loop: vectorised with how many bytes, or not and why (``-fopt-info-vec``)."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any

REPORT = "loops.txt"
FLAG = f"-fopt-info-vec-optimized-missed={REPORT}"
_LINE = re.compile(r"^([\w.\-]+):(\d+):\d+: (optimized|missed): +(.*)$")
_WIDTH = re.compile(r"loop vectorized using (\d+) byte vectors")
_WHY = re.compile(r"not vectorized: (.*)")
_OUTER = ("multiple nested loops", "outer loop", "unsupported outerloop", "inner loop")
"""Reasons that are none: the loop inside is what counts."""
_VECTORS = re.compile(r"vector\(\d+\)|uint\d{3}_t|__m\d{3}|__v\d+")
"""What a reason names where a loop is written in vectors already."""
MOST = 24


def parse(report: str, own: Collection[str]) -> list[dict[str, Any]]:
    """Loops of the files ``own``: ``place`` (file:line), ``bytes`` of the widest vectors (0: none), ``why`` not; ordered by place.

    A loop that was unrolled, inlined or copied is said several things of; the best counts.
    """
    widths: dict[tuple[str, int], int] = {}
    reasons: dict[tuple[str, int], str] = {}
    tried: tuple[str, int] | None = None
    for line in report.splitlines():
        match = _LINE.match(line)
        if match is None or match[1] not in own:
            continue
        place, said = (match[1], int(match[2])), match[4]
        width, why = _WIDTH.search(said), _WHY.search(said)
        if width:
            widths[place] = max(widths.get(place, 0), int(width[1]))
        elif said.startswith("couldn't vectorize loop"):
            tried = place
        elif why and tried is not None:
            if not any(word in why[1] for word in _OUTER) and not _VECTORS.search(why[1]):
                reasons.setdefault(tried, why[1][:120])
            tried = None
    found = sorted({*widths, *reasons})
    return [
        {
            "place": f"{file}:{line}",
            "bytes": widths.get((file, line), 0),
            "why": "" if (file, line) in widths else reasons[file, line],
        }
        for file, line in found
    ][:MOST]
