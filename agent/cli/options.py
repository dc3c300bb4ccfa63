"""Choices that several commands offer."""

from __future__ import annotations

from enum import StrEnum


class Profile(StrEnum):
    """Which of a spec's sizes to use."""

    cpu = "cpu"
    gpu = "gpu"


class Proposer(StrEnum):
    """Who writes candidates. ``auto`` is the built-in proposer, and a language model too where an endpoint is configured."""

    auto = "auto"
    builtin = "builtin"
    llm = "llm"
    manual = "manual"
