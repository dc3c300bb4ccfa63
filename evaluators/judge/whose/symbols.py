"""Names of functions in a shared library, from its symbol table: libraries that do many things are told apart by what runs in them."""

from __future__ import annotations

import functools
import struct
from typing import Any

_HEADER, _SECTION = struct.Struct("<16sHHIQQQIHHHHHH"), struct.Struct("<IIQQQQIIQQ")
_PROGRAM = struct.Struct("<IIQQQQQQ")
_LOAD, _EXECUTABLE = 1, 1
_TABLES = (2, 11)  # SHT_SYMTAB, which may be stripped, and SHT_DYNSYM
_FUNCTION, _CHOSEN = 2, 10  # STT_FUNC, STT_GNU_IFUNC
_LONGEST = 4096


def executable(file: str) -> list[tuple[int, int, int]]:
    """Offset in the file, address and bytes of each executable segment of a 64-bit little-endian ELF file; none of another file.

    Raises OSError where it cannot be read.
    """
    with open(file, "rb") as opened:
        header = _header(opened.read(_HEADER.size))
        if header is None:
            return []
        opened.seek(header[5])
        table = opened.read(header[9] * header[10])
    found = [_PROGRAM.unpack_from(table, i * header[9]) for i in range(len(table) // header[9])]
    return [(p[2], p[3], p[5]) for p in found if p[0] == _LOAD and p[1] & _EXECUTABLE]


class Symbols:
    """The functions of one file, by address."""

    def __init__(self, file: str) -> None:
        import numpy as np

        self.file = file
        self.segments: list[tuple[int, int, int]] = []
        self.whole = False
        """Whether there is a full table: without one only what a library exports has names."""
        self.starts, self.sizes, self.names = np.empty(0, "<u8"), np.empty(0, "<u8"), np.empty(0, "<u4")
        self.strings = 0
        try:
            self.segments = executable(file)
            with open(file, "rb") as opened:
                self._read(opened)
        except (OSError, struct.error):
            return  # a library that is gone, or is none, has no names

    def _read(self, opened: Any) -> None:
        import numpy as np

        header = _header(opened.read(_HEADER.size))
        if header is None or not header[6]:
            return
        opened.seek(header[6])
        text = opened.read(header[11] * header[12])
        sections = [_SECTION.unpack_from(text, i * header[11]) for i in range(len(text) // header[11])]
        tables = sorted((s for s in sections if s[1] in _TABLES), key=lambda s: _TABLES.index(s[1]))
        if not tables:
            return
        self.whole = tables[0][1] == _TABLES[0]
        entry = np.dtype(
            [("name", "<u4"), ("info", "u1"), ("other", "u1"), ("at", "<u2"), ("value", "<u8"), ("size", "<u8")]
        )
        opened.seek(tables[0][4])
        rows = np.frombuffer(opened.read(tables[0][5] // entry.itemsize * entry.itemsize), entry)
        kind = rows["info"] & 15
        rows = rows[((kind == _FUNCTION) | (kind == _CHOSEN)) & (rows["value"] > 0)]
        rows = rows[np.argsort(rows["value"], kind="stable")]
        self.starts, self.sizes, self.names = rows["value"].copy(), rows["size"].copy(), rows["name"].copy()
        self.strings = sections[tables[0][6]][4]

    def name(self, offset: int) -> str:
        """The function (mangled) whose code lies at ``offset`` of the file; empty where that is not known."""
        import numpy as np

        address = next(
            (at + offset - begin for begin, at, size in self.segments if begin <= offset < begin + size), None
        )
        if address is None or not len(self.starts):
            return ""
        index = int(np.searchsorted(self.starts, address, side="right")) - 1
        if index < 0 or address >= int(self.starts[index]) + max(int(self.sizes[index]), 1):
            return ""
        with open(self.file, "rb") as opened:
            opened.seek(self.strings + int(self.names[index]))
            return opened.read(_LONGEST).partition(b"\0")[0].decode(errors="replace")


@functools.lru_cache(maxsize=4)
def of(file: str) -> Symbols:
    """The functions of a file, kept: reading the table of a large library takes a moment."""
    return Symbols(file)


def _header(text: bytes) -> tuple[Any, ...] | None:
    if len(text) < _HEADER.size or text[:6] != b"\x7fELF\x02\x01":
        return None
    return _HEADER.unpack(text)
