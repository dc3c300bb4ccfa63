"""C++ for the CPU: literal SOURCES compiled with plain g++ and loaded with ctypes.

A candidate is a Python module that defines ``SOURCES = {"kernel.cpp": "…"}`` as a literal, ``ModelNew``, and closes with the text in
:data:`LOADER`, which defines ``_native()`` returning a ``ctypes.CDLL`` and ``_address(tensor)`` for pointer arguments. The judge reads
SOURCES from the syntax tree, compiles them without executing anything, and tells the loader where the library lies; outside the
judge the loader compiles by itself.
"""

from __future__ import annotations

import ast
import contextlib
import hashlib
import json
import os
import platform
import re
import shutil
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from evaluators.errors import SourceRejected, ToolMissing
from evaluators.home import home
from evaluators.languages import headers, native
from evaluators.languages.base import Build, Language, Review
from evaluators.languages.review import encodable, parse, review
from evaluators.languages.sightings import in_cpp, in_python
from evaluators.target import Target

# -ffast-math would switch the whole process to flush-to-zero, the reference included; these are its parts that stay inside the kernel.
FLAGS = (
    "-shared -fPIC -std=c++17 -O3 -march=native -fopenmp -fno-math-errno -fno-trapping-math "
    "-fassociative-math -fno-signed-zeros -freciprocal-math"
).split()
LIBRARY_VARIABLE = "KERNELEVOLVE_NATIVE"

LOADER = f'''
def _native():
    """The library compiled from SOURCES: the one named by {LIBRARY_VARIABLE}, or one compiled here with g++ and cached per user."""
    if not hasattr(_native, "library"):
        import ctypes
        import hashlib
        import os
        import pathlib
        import platform
        import subprocess
        import tempfile

        path = os.environ.get("{LIBRARY_VARIABLE}")
        if not path:
            flags = {" ".join(FLAGS)!r}
            text = "".join(name + SOURCES[name] for name in sorted(SOURCES)) + flags + platform.node()
            base = os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache"
            folder = pathlib.Path(base) / "kernel-native"
            folder.mkdir(parents=True, exist_ok=True)
            path = folder / (hashlib.sha256(text.encode()).hexdigest()[:24] + ".so")
            if not path.exists():
                with tempfile.TemporaryDirectory(dir=folder) as work:
                    for name, body in SOURCES.items():
                        (pathlib.Path(work) / name).write_text(body)
                    units = sorted(name for name in SOURCES if name.endswith(".cpp"))
                    subprocess.run(["g++", *flags.split(), *units, "-o", "out.so"], cwd=work, check=True)
                    (pathlib.Path(work) / "out.so").replace(path)
        _native.library = ctypes.CDLL(str(path))
    return _native.library


def _address(tensor):
    """A tensor's data pointer as a C argument (plain Python integers are passed as C int)."""
    import ctypes

    return ctypes.c_void_p(tensor.data_ptr())
'''
LOADER_HASH = hashlib.sha256(LOADER.strip().encode()).hexdigest()


def wrap(sources: dict[str, str], body: str) -> str:
    """Text of a candidate module: ``sources`` as a literal, ``body`` (imports and ``ModelNew``, calling ``_native()``), then the loader."""
    literal = "SOURCES = {\n" + "".join(f"    {name!r}: {_triple(text)},\n" for name, text in sources.items()) + "}\n"
    return f"{literal}\n{body.strip()}\n\n{LOADER}"


def _triple(text: str) -> str:
    """``text`` as a readable raw triple-quoted literal where that is exact, else its repr."""
    candidate = f'r"""{text}"""'
    try:
        exact = ast.literal_eval(candidate) == text
    except (SyntaxError, ValueError):
        exact = False
    return candidate if exact else repr(text)


def split_loader(source: str) -> str:
    """The source without its closing loader; raises :class:`SourceRejected` where the loader is missing or altered."""
    text = source.rstrip()
    if not text.endswith(LOADER.strip()):
        raise SourceRejected(
            "a C++ candidate must end with the fixed loader, unaltered (evaluators.languages.cpp.LOADER, "
            f"sha256 {LOADER_HASH[:16]}…); it defines _native() and nothing may follow it"
        )
    return text[: -len(LOADER.strip())]


def sources(source: str) -> dict[str, str]:
    """The literal SOURCES of a candidate, read from the syntax tree: file name → text."""
    found: list[dict[str, str]] = []
    for node in parse(source).body:
        if isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == "SOURCES" for t in node.targets):
            try:
                value = ast.literal_eval(node.value)
            except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
                raise SourceRejected(
                    f"line {node.lineno}: SOURCES must be a literal dict of file names and texts"
                ) from None
            if not isinstance(value, dict) or not all(
                isinstance(k, str) and isinstance(v, str) for k, v in value.items()
            ):
                raise SourceRejected(f"line {node.lineno}: SOURCES must map file names to texts")
            found.append(value)
    if len(found) != 1:
        raise SourceRejected(f"the module must assign SOURCES exactly once at top level; found {len(found)}")
    for name in found[0]:
        if not re.fullmatch(r"[A-Za-z0-9_\-]+\.(cpp|h|hpp)", name):
            raise SourceRejected(f"SOURCES: file name {name!r} must be a plain name ending in .cpp, .h or .hpp")
    if not any(name.endswith(".cpp") for name in found[0]):
        raise SourceRejected("SOURCES holds no .cpp file")
    for name, text in found[0].items():
        encodable(text, f"SOURCES: {name}")
        native.check_includes(name, text, set(found[0]))
    return found[0]


def check(source: str) -> Review:
    """Static review; raises :class:`SourceRejected`."""
    parse(source)
    body = split_loader(source)
    found = review(body)
    native_seen = [s for text in sources(body).values() for s in in_cpp(text)]
    return replace(found, sightings=(*in_python(parse(body)), *native_seen))


def build(source: str, target: Target) -> Build:
    """Compile SOURCES into a shared library in the cache.

    Raises :class:`evaluators.errors.CompileFailed` (first errors with source lines) and :class:`ToolMissing`. ``resources``: ``compile_s``,
    ``library_bytes``, ``cached``, ``vector_bits`` (widest vector register used), ``loops`` (what the compiler
    says of each), ``compiler`` (where it could
    not be kept from other files).
    """
    files = sources(split_loader(source))
    compiler = shutil.which("g++")
    if compiler is None:
        raise ToolMissing(
            "g++ was not found: install it (Debian/Ubuntu: apt-get install g++; Fedora: dnf install gcc-c++) to judge C++ candidates"
        )
    text = "\0".join(f"{name}\0{files[name]}" for name in sorted(files))
    key = hashlib.sha256("\0".join([text, *FLAGS, _identity(compiler)]).encode()).hexdigest()[:24]
    folder = cache_folder()
    library = folder / f"{key}.so"
    begin = time.perf_counter()
    cached = library.exists()
    ready = None if cached else headers.ready([compiler, *FLAGS], files, _identity(compiler))
    kept = cached or native.compile_library(
        [compiler, *FLAGS], files, library, ready.options if ready else (), [ready.folder] if ready else []
    )
    resources: dict[str, Any] = {
        "compile_s": round(time.perf_counter() - begin, 3),
        "library_bytes": library.stat().st_size,
        "cached": cached,
    }
    if not kept:
        resources["compiler"] = "could read other files than the system's and its own (no Landlock in this kernel)"
    width = native.vector_bits(library)
    if width:
        resources["vector_bits"] = width
    with contextlib.suppress(OSError, ValueError):
        resources["loops"] = json.loads(library.with_suffix(".loops").read_text())
    return Build(source, str(library), resources)


def cache_folder() -> Path:
    """Where compiled libraries lie: ``$KERNELEVOLVE_HOME/cache/native``."""
    folder = home() / "cache" / "native"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ToolMissing(f"{folder}: no folder for compiled libraries: {error.strerror}") from None
    return folder


def _identity(compiler: str) -> str:
    """Compiler path and time stamp plus machine: -march=native output is only good for this processor."""
    return f"{compiler} {os.stat(compiler).st_mtime_ns} {platform.node()} {platform.machine()}"


LANGUAGE = Language("cpp", check, build)
