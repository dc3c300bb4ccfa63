"""C++, CUDA and C source: units are top-level functions and types, found by matching braces outside comments and
strings.

``namespace`` and ``extern "C"`` blocks are transparent, so that the functions inside them are units of their own.
"""

from __future__ import annotations

import re
from pathlib import PurePosixPath

from knowledge.documents import Document, Unit

_TOKEN = re.compile(
    r"""//[^\n]*|/\*.*?(?:\*/|\Z)|R"(?P<d>[^\s()\\]{0,16})\(.*?\)(?P=d)"|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'|[{};]|\n""",
    re.DOTALL,
)
_TRANSPARENT = re.compile(r'(?:\bnamespace\b[\w:\s]*|\bextern\s*"C"\s*)$')
_NAME = re.compile(r"([A-Za-z_~][\w:~]*)\s*\(|\b(?:struct|class|enum|union)\s+([A-Za-z_]\w*)")
_NOT_NAMES = {"if", "for", "while", "switch", "sizeof", "alignas", "__launch_bounds__", "decltype", "__attribute__"}


def load(text: str, name: str) -> Document:
    """Kind ``kernel``; language ``cuda`` for ``.cu``, ``.cuh`` and sources with ``__global__``, else ``cpp``."""
    path = PurePosixPath(name)
    cuda = path.suffix.lower() in (".cu", ".cuh") or "__global__" in text
    return Document(
        name=name,
        kind="kernel",
        title=path.name,
        units=tuple(_units(text)),
        languages=("cuda",) if cuda else ("cpp",),
    )


def _units(text: str) -> list[Unit]:
    lines = text.split("\n")
    ends: list[int] = []  # lines (1-based) after which a unit ends
    depth, line = 0, 1
    start = 0  # where the code of the present statement begins
    stack: list[bool] = []
    for token in _TOKEN.finditer(text):
        symbol = token[0]
        if symbol == "{":
            transparent = depth == 0 and _TRANSPARENT.search(text[start : token.start()]) is not None
            stack.append(transparent)
            depth += not transparent
            if transparent:
                ends.append(line)
                start = token.end()
        elif symbol == "}" and stack:
            depth -= not stack.pop()
            if depth == 0:
                ends.append(line)
                start = token.end()
        elif symbol == ";" and depth == 0:
            start = token.end()
        elif symbol == "\n" and depth == 0 and line < len(lines) and not lines[line - 1].strip():
            ends.append(line)
        line += symbol.count("\n")
    units: list[Unit] = []
    at = 0
    for end in [*sorted(set(ends)), len(lines)]:
        block = lines[at:end]
        lead = next((i for i, x in enumerate(block) if x.strip()), len(block))
        body = "\n".join(block[lead:]).rstrip()
        # What follows the closing brace on its line (a ";") belongs to the unit.
        if units and body and not re.search(r"\w", body):
            # The closing brace of a namespace says nothing on its own.
            before = units.pop()
            gap = "\n" * (at + lead + 1 - before.last)
            units.append(Unit(before.locator, before.first, before.text + gap + body, "code"))
        elif body:
            units.append(Unit(_locator(body), at + lead + 1, body, "code"))
        at = max(end, at)
    return units


def _locator(body: str) -> str:
    header = re.sub(r"//[^\n]*|/\*.*?\*/|^\s*#[^\n]*$", " ", body.split("{", 1)[0], flags=re.DOTALL | re.MULTILINE)
    if "{" in body:
        for match in _NAME.finditer(header):
            name = match[1] or match[2]
            if name not in _NOT_NAMES:
                return name
    return "file"
