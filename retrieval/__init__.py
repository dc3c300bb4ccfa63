"""Retrieval: from run context to ranked, cited passages."""

from retrieval.explain import explain
from retrieval.passage import Passage, Query

__all__ = ["Passage", "Query", "explain"]
