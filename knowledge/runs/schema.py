"""The run store's tables. Migrations in ``knowledge.runs.migrations`` bring a database to this shape.

Times are ISO 8601 UTC text, durations seconds, kernel times milliseconds. ``*_ref`` columns are references of objects.
"""

from __future__ import annotations

import json
from typing import Any

from sqlalchemy import (
    Boolean,
    Column,
    Dialect,
    Float,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    TypeDecorator,
    UniqueConstraint,
)

metadata = MetaData()


class Json(TypeDecorator[Any]):
    """A plain value as JSON text. Not the databases' own JSON types: some refuse the NaN and infinity a failed measurement can hold."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: Any, dialect: Dialect) -> str | None:
        """To text."""
        return None if value is None else json.dumps(value, default=_plain)

    def process_result_value(self, value: Any, dialect: Dialect) -> Any:
        """From text."""
        return None if value is None else json.loads(value)


def _plain(value: Any) -> Any:
    return value.item() if hasattr(value, "item") else str(value)  # numbers of numpy and torch have item()


runs = Table(
    "runs",
    metadata,
    Column("id", String, primary_key=True),
    Column("spec_name", String, nullable=False),
    Column("spec_digest", String, nullable=False),
    Column("spec", Text, nullable=False),
    Column("target_name", String, nullable=False),
    Column("target", Json, nullable=False),
    Column("settings", Json, nullable=False),
    Column("operators", Json, nullable=False),
    Column("patterns", Json, nullable=False),
    Column("status", String, nullable=False),
    Column("reason", Text, nullable=False),
    Column("recommendation", String),
    Column("best", String),
    Column("created", String, nullable=False),
    Column("finished", String),
    Index("runs_by_target", "target_name", "status"),
)

candidates = Table(
    "candidates",
    metadata,
    Column("id", String, primary_key=True),
    Column("run_id", String, ForeignKey("runs.id"), nullable=False),
    Column("step", Integer, nullable=False),
    Column("draw", Integer, nullable=False),
    Column("language", String, nullable=False),
    Column("proposer", String, nullable=False),
    Column("phase", String, nullable=False),
    Column("exemplar", String),
    Column("knobs", Json, nullable=False),
    Column("chunk_ids", Json, nullable=False),
    Column("source_ref", String, nullable=False),
    Column("prompt_ref", String),
    Column("reply_ref", String),
    Column("note", Text, nullable=False),
    Column("created", String, nullable=False),
    Column("twin", Json),
    UniqueConstraint("run_id", "step", "draw"),
)

edges = Table(
    "edges",
    metadata,
    Column("child", String, ForeignKey("candidates.id"), primary_key=True),
    Column("parent", String, ForeignKey("candidates.id"), primary_key=True),
    Column("position", Integer, nullable=False),
    Index("edges_by_parent", "parent"),
)

evaluations = Table(
    "evaluations",
    metadata,
    Column("candidate_id", String, ForeignKey("candidates.id"), primary_key=True),
    Column("kind", String, primary_key=True),
    Column("run_id", String, ForeignKey("runs.id"), nullable=False),
    Column("target", String, nullable=False),
    Column("status", String, nullable=False),
    Column("fitness", Float, nullable=False),
    Column("ratio", Float),
    Column("low", Float),
    Column("high", Float),
    Column("candidate_ms", Float),
    Column("diagnosis", String, nullable=False),
    Column("payload", Json, nullable=False),
    Column("created", String, nullable=False),
    Index("evaluations_by_run", "run_id", "kind"),
)

steps = Table(
    "steps",
    metadata,
    Column("run_id", String, ForeignKey("runs.id"), primary_key=True),
    Column("step", Integer, primary_key=True),
    Column("phase", String, nullable=False),
    Column("parents", Json, nullable=False),
    Column("siblings", Json, nullable=False),
    Column("diagnosis", String, nullable=False),
    Column("shares", Json, nullable=False),
    Column("why", Text, nullable=False),
    Column("prompt_ref", String),
    Column("prompt", Json),
    Column("reflection", Text),
    Column("seconds", Float),
    Column("propose_seconds", Float),
    Column("judge_seconds", Float),
    Column("overhead_seconds", Float),
)

proposals = Table(
    "proposals",
    metadata,
    Column("run_id", String, ForeignKey("runs.id"), primary_key=True),
    Column("step", Integer, primary_key=True),
    Column("draw", Integer, primary_key=True),
    Column("proposer", String, nullable=False),
    Column("asked", Integer, nullable=False),
    Column("made", Integer, nullable=False),
    Column("repeats", Integer, nullable=False),
    Column("error", Text, nullable=False),
    Column("seconds", Float, nullable=False),
    Column("final", Boolean, nullable=False),
)

retrievals = Table(
    "retrievals",
    metadata,
    Column("run_id", String, ForeignKey("runs.id"), primary_key=True),
    Column("step", Integer, primary_key=True),
    Column("query", Json, nullable=False),
    Column("passages", Json, nullable=False),
    Column("passages_ref", String, nullable=False),
    Column("seconds", Float, nullable=False),
)

replies = Table(
    "replies",
    metadata,
    Column("run_id", String, ForeignKey("runs.id"), primary_key=True),
    Column("step", Integer, primary_key=True),
    Column("draw", Integer, primary_key=True),
    Column("attempt", Integer, primary_key=True),
    Column("model", String, nullable=False),
    Column("finish_reason", String, nullable=False),
    Column("counted", String, nullable=False),
    Column("prompt_ref", String, nullable=False),
    Column("reply_ref", String, nullable=False),
    Column("created", String, nullable=False),
)

costs = Table(
    "costs",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=True),
    Column("run_id", String, ForeignKey("runs.id"), nullable=False),
    Column("step", Integer, nullable=False),
    Column("proposer", String, nullable=False),
    Column("model", String, nullable=False),
    Column("prompt_tokens", Integer, nullable=False),
    Column("completion_tokens", Integer, nullable=False),
    Column("dollars", Float),
    Column("seconds", Float, nullable=False),
    Column("created", String, nullable=False),
    Index("costs_by_run", "run_id"),
)
