"""Named errors of the knowledge package. Each message says what is wrong, where, and what to do."""

from __future__ import annotations


class KnowledgeError(Exception):
    """Base of every error raised by this package."""


class FrontMatterError(KnowledgeError):
    """A document's front matter is malformed: ``file: field: what``."""

    def __init__(self, file: str, field: str, what: str) -> None:
        super().__init__(f"{file}: {field}: {what}")
        self.file, self.field, self.what = file, field, what


class ExpressionError(KnowledgeError):
    """A constraint expression cannot be parsed, uses something outside the allowed grammar, or cannot be evaluated."""


class ExemplarNotFoundError(KnowledgeError):
    """No exemplar document under that path or name."""
