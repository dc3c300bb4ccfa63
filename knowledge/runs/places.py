"""Where the run store and the object store lie."""

from __future__ import annotations

import os

from evaluators.home import home


def store_url() -> str:
    """The run store's SQLAlchemy URL: ``$KERNELEVOLVE_STORE``, else ``store.db`` (SQLite) in the data folder."""
    return os.environ.get("KERNELEVOLVE_STORE") or f"sqlite:///{home() / 'store.db'}"


def objects_url() -> str:
    """The object store's fsspec URL: ``$KERNELEVOLVE_OBJECTS`` (such as ``s3://bucket/prefix``), else ``objects`` in the data folder."""
    return os.environ.get("KERNELEVOLVE_OBJECTS") or str(home() / "objects")
