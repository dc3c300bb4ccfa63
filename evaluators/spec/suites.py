"""Suites: folders of specs, shipped under ``corpora/suites`` or anywhere on disk."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

from evaluators.errors import SpecError
from evaluators.suggest import suggest

_SUFFIXES = (".yaml", ".yml", ".py")


def root() -> Path:
    """Folder of the shipped suites."""
    return Path(str(files("corpora") / "suites"))


def names() -> tuple[str, ...]:
    """Names of the shipped suites."""
    return tuple(sorted(p.name for p in root().iterdir() if p.is_dir() and not p.name.startswith(("_", "."))))


def members(name: str) -> tuple[Path, ...]:
    """Spec files of a shipped suite, or of a folder, in order of their names. Raises SpecError for an unknown or empty one."""
    folder = root() / name if name in names() else Path(name)
    if not folder.is_dir():
        raise SpecError(f"{name}: no such suite or folder; {suggest(name, names())}")
    found = tuple(sorted(p for p in folder.iterdir() if p.suffix in _SUFFIXES and not p.name.startswith(("_", "."))))
    if not found:
        raise SpecError(f"{name}: the folder holds no spec; put YAML specs or KernelBench files there")
    return found


def find(ref: str, *, suites: bool = False) -> Path:
    """File of a shipped spec named ``suite/spec`` or ``spec``. Raises SpecError where there is none, or more than one; with ``suites`` its
    message speaks of suites too, for a caller that takes both."""
    everything = {f"{suite}/{p.stem}": p for suite in names() for p in members(suite)}
    matches = [key for key in everything if ref in (key, key.partition("/")[2])]
    if len(matches) > 1:
        raise SpecError(f"{ref}: is in several suites; write one of {', '.join(matches)}")
    if not matches:
        known = [key.partition("/")[2] for key in everything] if "/" not in ref else list(everything)
        if suites:
            hint = suggest(ref, [*names(), *known])
            listed = f"suites are {', '.join(names())}, specs are {', '.join(known)}"
            raise SpecError(f"{ref}: no such suite, spec, folder or file; {hint if hint.startswith('did') else listed}")
        raise SpecError(f"{ref}: no such spec or file; {suggest(ref, known)}")
    return everything[matches[0]]
