"""Registry of languages: one line per language."""

from __future__ import annotations

from importlib import import_module

from evaluators.errors import UnknownLanguage
from evaluators.languages.base import Build, Language, Review
from evaluators.languages.form import finished, guess

_MODULES = {
    "cpp": "evaluators.languages.cpp",
    "triton": "evaluators.languages.triton",
}


def names() -> tuple[str, ...]:
    """Names of all languages."""
    return tuple(_MODULES)


def get(name: str) -> Language:
    """The language called ``name``; raises :class:`UnknownLanguage`."""
    if name not in _MODULES:
        raise UnknownLanguage(f"no language {name!r}; there are: {', '.join(_MODULES)}")
    language: Language = import_module(_MODULES[name]).LANGUAGE
    return language


__all__ = ["Build", "Language", "Review", "finished", "get", "guess", "names"]
