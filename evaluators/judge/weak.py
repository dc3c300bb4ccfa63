"""Weak specs: what computes nothing passes. They are found out before anything is judged, and no speed-up on them counts."""

from __future__ import annotations

import json
import os
import re
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evaluators.home import home
from evaluators.judge.reference import Reference

FIRST = 960
"""Number of the first case with repaired inputs; there are two."""
_KEYS = {"why", "repaired", "changes"}
_RULES = "1"
"""To be counted up when what is looked for changes: what was found by other rules is found again."""


@dataclass(frozen=True)
class Weak:
    """What passes though it computes nothing (empty for a sound spec), and where a candidate is judged on repaired inputs too.

    ``unknown`` says why it could not be found out.
    """

    why: tuple[str, ...] = ()
    changes: tuple[str, ...] = ()
    place: Reference | None = None
    unknown: str = ""

    @property
    def no_credit(self) -> str:
        """Why no speed-up counts."""
        return f"no credit: weak spec ({', '.join(self.why)})" if self.why else ""

    @property
    def lines(self) -> list[str]:
        """What a verdict says of it beside :attr:`no_credit`."""
        if self.unknown:
            return [f"not known whether the spec is weak: {self.unknown}"]
        if not self.why:
            return []
        if self.place is None:
            return ["no repair was found"]
        return [f"judged on repaired inputs too: {', '.join(self.changes)}"]


def weakness(reference: Reference) -> Weak:
    """Whether the reference's spec is weak: found with its first two sets of inputs, and remembered for PyTorch's version."""
    sizes = "-".join(f"{k}{v}" for k, v in sorted((reference.dims or {}).items()))
    name = "-".join(
        filter(None, (reference.spec.digest, reference.environment["torch"], reference.device, _RULES, sizes))
    )
    file = home() / "cache" / "weak" / (re.sub(r"[^\w.+-]", "_", name) + ".json")
    found = _read(file)
    if found is None:
        seeds = [reference.seeds.setdefault(n, secrets.randbits(40)) for n in (0, 1)]
        found, _ = reference.ask({"op": "variant", "name": "weakness", "cases": [0, 1], "seeds": seeds})
        if "unknown" in found:
            return Weak(unknown=str(found["unknown"]))
        file.parent.mkdir(parents=True, exist_ok=True)
        temporary = file.with_suffix(f".{os.getpid()}")
        temporary.write_text(json.dumps(found))
        temporary.replace(file)
    place = reference.other("repaired", [FIRST, FIRST + 1], spec=found["repaired"]) if found["repaired"] else None
    return Weak(tuple(found["why"]), tuple(found["changes"]) if place else (), place)


def _read(file: Path) -> dict[str, Any] | None:
    try:
        data = json.loads(file.read_text())
    except (OSError, ValueError):
        return None
    return data if isinstance(data, dict) and set(data) == _KEYS else None
