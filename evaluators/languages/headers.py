"""System headers compiled beforehand: parsing ``<immintrin.h>`` and its like is most of what a small kernel's compilation takes.

A unit profits whose text begins with nothing but includes of headers that may be included twice. They are compiled once and named to
the compiler in front of the unit, in which they then do nothing; the machine code is the same.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from evaluators.errors import CompileFailed
from evaluators.home import home
from evaluators.languages import native

_TWICE = frozenset(
    """algorithm array atomic cfloat climits cmath complex cstddef cstdint cstdlib cstring functional immintrin.h limits math.h memory
    numeric omp.h stddef.h stdint.h stdlib.h string string.h tuple type_traits utility vector x86intrin.h""".split()
)
"""Headers that say the same however often they are included."""
_PRECISE = '#pragma GCC optimize("no-associative-math")\n'
"""In front of everything it holds for the headers' functions too, as the option does: else these could not be inlined."""
_BACK = re.compile(r"(reset|pop)_options")
"""What would go back to the compiler's options."""
_HEAD = re.compile(
    r"((?:[ \t]*\n|//[^\n\\?]*\n|#[ \t]*include[ \t]*<[a-z0-9_.]+>[ \t]*\n|#if defined\(__x86_64__\)\n|#endif\n)+)"
)
_NAMED = re.compile(r"#[ \t]*include[ \t]*<(.+?)>")
_MOST = 8
"""Sets of headers that are kept, about 40 MB each."""


@dataclass(frozen=True)
class Ready:
    """Options that have a compiler use headers compiled beforehand, and the folder that it has to read for it."""

    options: tuple[str, ...]
    folder: Path


def head(text: str) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
    """(compiler options, headers) of a unit's beginning; ``None`` where it begins with anything else, or holds on another machine."""
    options: tuple[str, ...] = ()
    if text.startswith(_PRECISE):
        if _BACK.search(text):
            return None
        options, text = ("-fno-associative-math",), text[len(_PRECISE) :]
    found = _HEAD.match(text)
    named = tuple(_NAMED.findall(found[1])) if found else ()
    if not named or not _TWICE.issuperset(named) or (found and found[1].count("#if") != found[1].count("#endif")):
        return None
    return options, named


def ready(command: Sequence[str], files: Mapping[str, str], identity: str) -> Ready | None:
    """What there is for these files. A set of headers is compiled the second time that it is met; ``None`` where there is nothing yet, or
    where the units begin differently. ``identity`` names the compiler and the machine."""
    heads = {head(text) for name, text in files.items() if name.endswith(".cpp")}
    first = heads.pop() if len(heads) == 1 else None
    if first is None or os.uname().machine != "x86_64":
        return None
    options, named = first
    stamps = [
        f"{p} {os.stat(p).st_mtime_ns}" for p in ("/usr/include/math.h", "/usr/include/stdint.h") if os.path.exists(p)
    ]
    key = hashlib.sha256("\0".join([*command, *options, *named, identity, *stamps]).encode()).hexdigest()[:24]
    kept = home() / "cache" / "headers"
    folder = kept / key
    try:
        if not (folder / "head.h.gch").exists():
            met = kept / f"{key}.met"
            kept.mkdir(parents=True, exist_ok=True)
            if not met.exists():
                met.touch()
                return None
            if sum(1 for _ in kept.glob("*/head.h.gch")) >= _MOST or not _compiled([*command, *options], named, folder):
                return None
    except OSError:  # no room on the disk, or the cache was thrown away meanwhile
        return None
    return Ready((*options, "-include", str(folder / "head.h")), folder)


def _compiled(command: Sequence[str], named: Sequence[str], folder: Path) -> bool:
    """Compile the headers; others who do so at the same time get the same."""
    with tempfile.TemporaryDirectory(dir=folder.parent) as name:
        work = Path(name) / "made"
        work.mkdir()
        (work / "head.h").write_text("".join(f"#include <{header}>\n" for header in named))
        with contextlib.suppress(CompileFailed, OSError):  # another process may have been first
            if native.compile_in(work, [*command, "-x", "c++-header", "head.h", "-o", "head.h.gch"]):
                work.rename(folder)
    return (folder / "head.h.gch").exists()
