"""What a language offers the judge: check a source, then build it into something a worker can load."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from evaluators.target import Target


@dataclass(frozen=True)
class Sighting:
    """One thing a source is seen to use: its kind, the line (in C++, of its file), and the words."""

    kind: str
    line: int
    what: str

    def __str__(self) -> str:
        return f"{self.kind} (line {self.line}: {self.what})"


@dataclass(frozen=True)
class Review:
    """Static facts about a candidate's source. ``uses_library`` is true where ``forward`` (or code it shares a module with) calls a
    PyTorch operator that does the work itself; ``library_calls`` names those calls. ``sightings`` are what else stood out."""

    uses_library: bool
    library_calls: tuple[str, ...] = ()
    sightings: tuple[Sighting, ...] = ()


@dataclass(frozen=True)
class Build:
    """A candidate ready to load: ``source`` is the module text, ``native`` the path of a compiled library or ``None``,
    ``resources`` what compilation reported (seconds, bytes, registers …)."""

    source: str
    native: str | None = None
    resources: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Language:
    """One way to write a candidate.

    ``check(source)`` raises :class:`evaluators.errors.SourceRejected`; ``build(source, target)`` raises
    :class:`evaluators.errors.CompileFailed` or :class:`evaluators.errors.ToolMissing`. Neither executes the candidate.
    """

    name: str
    check: Callable[[str], Review]
    build: Callable[[str, Target], Build]
