"""What a language offers the judge: check a source, then build it into something a worker can load."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from evaluators.target import Target


@dataclass(frozen=True)
class Review:
    """Static facts about a candidate's source. ``uses_library`` is true where ``forward`` (or code it shares a module with) calls a
    PyTorch operator that does the work itself; ``library_calls`` names those calls."""

    uses_library: bool
    library_calls: tuple[str, ...] = ()


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
