"""Open the run store's database so that several threads and processes can share it safely."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from sqlalchemy import Connection, Engine, Table, create_engine, event, inspect, make_url, text
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError

from knowledge.errors import StoreUnavailableError
from knowledge.runs.migrations import MIGRATIONS, migrate
from knowledge.runs.objects import ObjectStore

BUSY_SECONDS = 60


class Store(Protocol):
    """What functions over a run store need of it."""

    engine: Engine
    objects: ObjectStore


def connect(url: str) -> Engine:
    """An engine on a migrated database. Raises :class:`StoreUnavailableError` or :class:`StoreVersionError`."""
    try:
        parsed = make_url(url)
        if parsed.get_backend_name() == "sqlite":
            engine = _sqlite(url, parsed.database)
        else:
            engine = create_engine(parsed, pool_pre_ping=True)
        if not _current(engine):
            with writing(engine) as connection:
                migrate(connection)
    except (ArgumentError, DBAPIError, NoSuchModuleError, ModuleNotFoundError, OSError) as error:
        raise StoreUnavailableError(url, str(error).splitlines()[0]) from error
    return engine


def _sqlite(url: str, path: str | None) -> Engine:
    if path and path != ":memory:":
        Path(path).parent.mkdir(parents=True, exist_ok=True)
    engine = create_engine(url, connect_args={"timeout": BUSY_SECONDS})

    @event.listens_for(engine, "connect")
    def prepare(connection: Any, _record: object) -> None:
        connection.isolation_level = None  # transactions are begun below, not by the driver
        connection.execute("PRAGMA journal_mode=WAL")
        # FULL: the checkpoint of the state machine must never be ahead of the store, power cuts included.
        connection.execute("PRAGMA synchronous=FULL")
        connection.execute("PRAGMA foreign_keys=ON")

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        # A writer takes its lock at once: a transaction that reads first and then writes could fail instead of waiting.
        immediate = connection.get_execution_options().get("writing", False)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if immediate else "BEGIN")

    return engine


def _current(engine: Engine) -> bool:
    """Whether the database is already at this program's version; keeps readers from taking the write lock."""
    with engine.connect() as connection:
        if not inspect(connection).has_table("schema_version"):
            return False
        return connection.execute(text("SELECT max(version) FROM schema_version")).scalar() == len(MIGRATIONS)


def writing(engine: Engine) -> Any:
    """A write transaction as a context manager: committed on leaving, rolled back on an exception."""
    return engine.execution_options(writing=True).begin()


def insert_new(connection: Connection, table: Table, rows: Mapping[str, Any] | Sequence[Mapping[str, Any]]) -> int:
    """Insert rows whose key is not there yet; returns how many were new. Existing rows stay as they are."""
    many = [dict(rows)] if isinstance(rows, Mapping) else [dict(r) for r in rows]
    if connection.dialect.name == "postgresql":
        from sqlalchemy.dialects.postgresql import insert as pg_insert

        return sum(connection.execute(pg_insert(table).values(r).on_conflict_do_nothing()).rowcount for r in many)
    from sqlalchemy.dialects.sqlite import insert

    return sum(connection.execute(insert(table).values(r).on_conflict_do_nothing()).rowcount for r in many)
