"""Named errors of the evaluators. Every message is one line: what, where, and what to do."""

from __future__ import annotations


class EvaluatorError(Exception):
    """Base of every error this package raises on purpose."""


class DataFolderError(EvaluatorError):
    """The data folder cannot be worked out."""


class SpecError(EvaluatorError):
    """A kernel specification is malformed: ``FILE: FIELD: what is wrong; what to do``."""


class TargetError(EvaluatorError):
    """A target is unknown, or its file is malformed."""


class UnknownLanguage(EvaluatorError):
    """No language of that name."""


class SourceRejected(EvaluatorError):
    """A candidate's source breaks a static rule; the message names line and reason."""


class CompileFailed(EvaluatorError):
    """A candidate does not compile; the message holds the first errors."""


class ToolMissing(EvaluatorError):
    """A compiler or tool is not installed; the message says how to get it."""


class JudgeError(EvaluatorError):
    """The judge itself (not the candidate) could not work: the reference fails, a process cannot start, a device is gone."""


class TraceError(EvaluatorError):
    """A reference cannot be traced to the loop IR."""
