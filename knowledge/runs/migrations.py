"""Ordered migrations of the run store: one plain function per version, each applied once, in order, in one transaction.

A migration spells its statements out in SQL that SQLite and Postgres share, and is never edited once released; the tables in
``knowledge.runs.schema`` describe the result of all of them (a test compares the two).
"""

from __future__ import annotations

from collections.abc import Callable

from sqlalchemy import Connection, text

from knowledge.errors import StoreVersionError


def first_tables(connection: Connection) -> None:
    """Runs, candidates, edges, evaluations, steps, proposals, retrievals, costs."""
    identity = "INTEGER PRIMARY KEY" if connection.dialect.name == "sqlite" else "SERIAL PRIMARY KEY"
    number = "FLOAT" if connection.dialect.name == "sqlite" else "DOUBLE PRECISION"
    statements = f"""
    CREATE TABLE runs (
        id VARCHAR PRIMARY KEY, spec_name VARCHAR NOT NULL, spec_digest VARCHAR NOT NULL, spec TEXT NOT NULL,
        target_name VARCHAR NOT NULL, target TEXT NOT NULL, settings TEXT NOT NULL, operators TEXT NOT NULL, patterns TEXT NOT NULL,
        status VARCHAR NOT NULL, reason TEXT NOT NULL, recommendation VARCHAR, best VARCHAR, created VARCHAR NOT NULL, finished VARCHAR);
    CREATE INDEX runs_by_target ON runs (target_name, status);
    CREATE TABLE candidates (
        id VARCHAR PRIMARY KEY, run_id VARCHAR NOT NULL REFERENCES runs (id), step INTEGER NOT NULL, draw INTEGER NOT NULL,
        language VARCHAR NOT NULL, proposer VARCHAR NOT NULL, phase VARCHAR NOT NULL, exemplar VARCHAR, knobs TEXT NOT NULL,
        chunk_ids TEXT NOT NULL, source_ref VARCHAR NOT NULL, prompt_ref VARCHAR, reply_ref VARCHAR, note TEXT NOT NULL,
        created VARCHAR NOT NULL, UNIQUE (run_id, step, draw));
    CREATE TABLE edges (
        child VARCHAR NOT NULL REFERENCES candidates (id), parent VARCHAR NOT NULL REFERENCES candidates (id),
        position INTEGER NOT NULL, PRIMARY KEY (child, parent));
    CREATE INDEX edges_by_parent ON edges (parent);
    CREATE TABLE evaluations (
        candidate_id VARCHAR NOT NULL REFERENCES candidates (id), kind VARCHAR NOT NULL, run_id VARCHAR NOT NULL REFERENCES runs (id),
        target VARCHAR NOT NULL, status VARCHAR NOT NULL, fitness {number} NOT NULL, ratio {number}, low {number}, high {number},
        candidate_ms {number}, diagnosis VARCHAR NOT NULL, payload TEXT NOT NULL, created VARCHAR NOT NULL,
        PRIMARY KEY (candidate_id, kind));
    CREATE INDEX evaluations_by_run ON evaluations (run_id, kind);
    CREATE TABLE steps (
        run_id VARCHAR NOT NULL REFERENCES runs (id), step INTEGER NOT NULL, phase VARCHAR NOT NULL, parents TEXT NOT NULL,
        siblings TEXT NOT NULL, diagnosis VARCHAR NOT NULL, shares TEXT NOT NULL, why TEXT NOT NULL, prompt_ref VARCHAR, prompt TEXT,
        reflection TEXT, seconds {number}, propose_seconds {number}, judge_seconds {number}, overhead_seconds {number},
        PRIMARY KEY (run_id, step));
    CREATE TABLE proposals (
        run_id VARCHAR NOT NULL REFERENCES runs (id), step INTEGER NOT NULL, draw INTEGER NOT NULL, proposer VARCHAR NOT NULL,
        asked INTEGER NOT NULL, made INTEGER NOT NULL, repeats INTEGER NOT NULL, error TEXT NOT NULL, seconds {number} NOT NULL,
        PRIMARY KEY (run_id, step, draw));
    CREATE TABLE retrievals (
        run_id VARCHAR NOT NULL REFERENCES runs (id), step INTEGER NOT NULL, query TEXT NOT NULL, passages TEXT NOT NULL,
        passages_ref VARCHAR NOT NULL, seconds {number} NOT NULL, PRIMARY KEY (run_id, step));
    CREATE TABLE costs (
        id {identity}, run_id VARCHAR NOT NULL REFERENCES runs (id), step INTEGER NOT NULL, proposer VARCHAR NOT NULL,
        model VARCHAR NOT NULL, prompt_tokens INTEGER NOT NULL, completion_tokens INTEGER NOT NULL, dollars {number},
        seconds {number} NOT NULL, created VARCHAR NOT NULL);
    CREATE INDEX costs_by_run ON costs (run_id)
    """
    for statement in statements.split(";"):
        connection.execute(text(statement))


def replies(connection: Connection) -> None:
    """What language models replied."""
    connection.execute(
        text(
            """
    CREATE TABLE replies (
        run_id VARCHAR NOT NULL REFERENCES runs (id), step INTEGER NOT NULL, draw INTEGER NOT NULL, attempt INTEGER NOT NULL,
        model VARCHAR NOT NULL, finish_reason VARCHAR NOT NULL, counted VARCHAR NOT NULL, prompt_ref VARCHAR NOT NULL,
        reply_ref VARCHAR NOT NULL, created VARCHAR NOT NULL, PRIMARY KEY (run_id, step, draw, attempt))
    """
        )
    )


def final_failures(connection: Connection) -> None:
    """Whether a proposer that failed can do nothing for the spec at all."""
    connection.execute(text("ALTER TABLE proposals ADD COLUMN final BOOLEAN NOT NULL DEFAULT FALSE"))


def twins(connection: Connection) -> None:
    """A candidate's twin: {dims, source (a reference of an object), changed}."""
    connection.execute(text("ALTER TABLE candidates ADD COLUMN twin TEXT"))


MIGRATIONS: tuple[Callable[[Connection], None], ...] = (first_tables, replies, final_failures, twins)


def migrate(connection: Connection) -> int:
    """Apply what is missing; returns the version. The caller's transaction must exclude other writers.

    Raises :class:`StoreVersionError` where the database was written by a newer program.
    """
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(7136320251223)"))  # any constant of our own
    connection.execute(text("CREATE TABLE IF NOT EXISTS schema_version (version INTEGER NOT NULL)"))
    version = int(connection.execute(text("SELECT max(version) FROM schema_version")).scalar() or 0)
    if version > len(MIGRATIONS):
        raise StoreVersionError(version, len(MIGRATIONS))
    for number, migration in enumerate(MIGRATIONS[version:], start=version + 1):
        migration(connection)
        connection.execute(text("INSERT INTO schema_version (version) VALUES (:v)"), {"v": number})
    return len(MIGRATIONS)
