"""Recognising a damaged Chroma folder, so that it is named as such, with how to build it anew, wherever it is met."""

from __future__ import annotations

import errno
import os
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from knowledge.errors import KnowledgeError, StoreDamagedError

DATABASE = "chroma.sqlite3"
_MAGIC = b"SQLite format 3\0"
_SYSTEM = (
    (r"database or disk is full|No space left", errno.ENOSPC),
    (r"readonly database|read-only", errno.EROFS),
    (r"unable to open database|ermission denied", errno.EACCES),
    (r"disk I/O error", errno.EIO),
)


def check(folder: Path, thorough: bool = False) -> None:
    """Raise :class:`knowledge.errors.StoreDamagedError` where the Chroma folder of a store with documents is not one.

    Reads a few bytes; where it is ``thorough``, the whole database.
    """
    database = folder / "chroma" / DATABASE
    try:
        with database.open("rb") as file:
            head = file.read(len(_MAGIC))
    except FileNotFoundError:
        raise StoreDamagedError(str(folder), f"{database.name} is gone") from None
    if head != _MAGIC:
        raise StoreDamagedError(str(folder), f"{database.name} is no database")
    if thorough:
        try:
            with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True, timeout=10)) as db:
                said = str(db.execute("PRAGMA quick_check(1)").fetchone()[0])
        except sqlite3.Error as error:
            said = str(error)
        if said != "ok":
            raise StoreDamagedError(str(folder), f"{database.name}: {' '.join(said.split())[:120]}")


@contextmanager
def named(folder: Path) -> Iterator[None]:
    """Whatever Chroma raises inside, as an error that says what to do: StoreDamagedError, OSError for what the machine refuses."""
    try:
        yield
    except Exception as error:
        # The AttributeError is what Chroma raises for a client that could not be made the first time.
        broken = isinstance(error, AttributeError) and "bindings" in str(error)
        if not (broken or type(error).__module__.startswith("chromadb") or isinstance(error, sqlite3.Error)):
            raise
        text = " ".join(str(error).split())[:300]
        for pattern, code in _SYSTEM:
            if re.search(pattern, text):
                raise OSError(code, os.strerror(code), str(folder / "chroma")) from error
        if re.search("malformed|not a database|corrupt|has no attribute|no such table", text):
            raise StoreDamagedError(str(folder), text[:120]) from error
        raise KnowledgeError(f"knowledge store {folder}: {type(error).__name__}: {text}") from error
