"""Where the packaged corpora are, and how a file is named as a document."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from pathlib import Path

PREFIX = "corpora/"
FOLDERS = ("hardware", "constraints", "guidance", "kernels", "traces")


@cache
def root() -> Path:
    """Folder of the packaged corpora."""
    return Path(str(files("corpora")))


def default_paths() -> list[Path]:
    """The folders of the packaged corpora that hold knowledge (targets, suites and ablation plans are read by other
    code).
    """
    return [root() / name for name in FOLDERS if (root() / name).is_dir()]


def expanded(path: Path) -> list[Path]:
    """``path`` itself, or its knowledge folders where it is the packaged corpora as a whole."""
    return default_paths() if path.resolve() == root().resolve() else [path]


def document_name(path: Path) -> str:
    """How passages cite a file: ``corpora/…`` for packaged files wherever installed, else the absolute path."""
    resolved = path.resolve()
    base = root().resolve()
    if resolved.is_relative_to(base):
        return PREFIX + resolved.relative_to(base).as_posix()
    return resolved.as_posix()


def document_path(document: str) -> Path:
    """The file behind a document name."""
    return root() / document.removeprefix(PREFIX) if document.startswith(PREFIX) else Path(document)
