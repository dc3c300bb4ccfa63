"""Loaders: one module per kind of file. A new kind of file is a new module and one line in the registry."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from knowledge.documents import Document
from knowledge.errors import UnreadableDocumentError
from knowledge.loaders import c_source, markdown, plain, python_source, trace


@dataclass(frozen=True)
class Defaults:
    """What a document is when it does not say so itself; empty means that the loader decides."""

    kind: str = ""
    targets: tuple[str, ...] = ()


Loader = Callable[[str, str], Document]
"""(text, document name) → Document."""

REGISTRY: dict[str, Loader] = {
    ".md": markdown.load,
    ".markdown": markdown.load,
    ".txt": plain.load,
    ".rst": plain.load,
    ".py": python_source.load,
    ".c": c_source.load,
    ".cc": c_source.load,
    ".cpp": c_source.load,
    ".cxx": c_source.load,
    ".h": c_source.load,
    ".hpp": c_source.load,
    ".cu": c_source.load,
    ".cuh": c_source.load,
    ".json": trace.load,
}


LARGEST = 8 << 20
"""Bytes of a text that is taken in: a manual of a thousand pages has a third of it. Every passage of it is embedded."""
LARGEST_TRACE = 512 << 20
"""Bytes of a profiler's output, which is condensed to a few passages."""


def limit(path: Path) -> int:
    """Bytes that the file at ``path`` may have."""
    return LARGEST_TRACE if REGISTRY.get(path.suffix.lower()) is trace.load else LARGEST


def load(path: Path, data: bytes, document: str) -> Document:
    """The document in ``data``, the content of the file at ``path``.

    Raises ``UnreadableDocumentError`` (unknown type, not text, nothing in it) or ``FrontMatterError``.
    """
    loader = REGISTRY.get(path.suffix.lower())
    if loader is None:
        raise UnreadableDocumentError(document, f"no loader for {path.suffix or 'files without extension'}; {known()}")
    try:
        text = data.decode("utf-8").replace("\r\n", "\n").replace("\r", "\n")
    except UnicodeDecodeError as error:
        raise UnreadableDocumentError(document, f"not UTF-8 text (byte {error.start})") from None
    if "\0" in text:
        raise UnreadableDocumentError(document, "binary content")
    if not text.strip():
        raise UnreadableDocumentError(document, "empty")
    try:
        return loader(text, document)
    except (RecursionError, MemoryError):
        raise UnreadableDocumentError(document, "nested too deeply to be read") from None


def known() -> str:
    """One line that lists what can be loaded."""
    return f"known are {' '.join(REGISTRY)}"
