"""Named errors of the retrieval package. Each message says what to do."""

from __future__ import annotations


class RetrievalError(Exception):
    """Base of every error raised by this package."""


class ArmsError(RetrievalError):
    """A combination of arms that leaves nothing to rank by."""


class EmptyStoreError(RetrievalError):
    """The knowledge store holds nothing."""


class PlanError(RetrievalError):
    """A plan of an ablation is malformed or unknown: ``FILE: FIELD: what is wrong; what to do``."""
