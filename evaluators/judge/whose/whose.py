"""Whose code lies at a place: the candidate's own, a library's, the interpreter's, or code that says nothing of who works.

Only what the judge compiled from the candidate's source is its own. Whatever else computes is a library, whether it has a name or not:
what is known by name is what says nothing, and that only where the system, Python or PyTorch keeps it.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import os
import re
import sys
import sysconfig
from pathlib import Path
from typing import Any, NamedTuple

from evaluators.judge.processes import procfs
from evaluators.judge.whose import symbols

OWN, LIBRARY, MEMORY, MATHS = "own", "library", "memory", "maths"
INTERPRETER, SYSTEM, WAITING = "interpreter", "system", "waiting"
_INTERPRETER = ("libpython", "libffi", "libtorch_python", "libc10.")
_MATHS = ("libm.", "libm-", "libmvec")
_SYSTEM = (
    "libc.", "libc-", "ld-linux", "ld-musl", "libstdc++", "libgcc_s", "libpthread", "libdl.", "librt.", "libdl-", "librt-",
)  # fmt: skip
_WAITING = ("libgomp", "libiomp", "libomp")
"""Threads that wait for others spin in these."""
_KERNEL = ("[vdso]", "[vsyscall]")
_NAMED = "libtorch_cpu"
_BEHIND = ("libmkl", "libdnnl", "libopenblas", "libblas", "liblapack")
"""Libraries that PyTorch may have its products from, where they are not part of it."""
_COPYING = re.compile(
    r"\d(copy_kernel|direct_copy_kernel|reduced_float_copy_kernel|copy_same_dtype|_copy_same_type_transpose_|fill_kernel)"
)
"""PyTorch's functions that copy, convert and fill, which is what plumbing is made of. In a mangled name a digit precedes each part."""


_WAYS = (
    "_ZN2at4_ops", "_ZN2at6detail", "_ZN2at4impl", "_ZN2at18TensorIteratorBase", "_ZNK2at6Tensor", "_ZNK2at10TensorBase",
    "_ZN3c1010TensorImpl", "_ZNK3c104impl", "_ZN5torch8autograd",
)  # fmt: skip
"""PyTorch's functions that lead from its bindings to an operator, allocate, or make tensors of what is there."""


class Place(NamedTuple):
    """Where code lies: a file and the offset in it. What is in no file, and what is the candidate's own, has a name in the file's stead."""

    file: str
    offset: int = 0


MINE = Place("the candidate's library")
NOWHERE = Place("memory of no file")
OTHERS = Place("another process")


class Own:
    """The code that the judge compiled, known by what it is: a library under its name with other contents is not the candidate's."""

    def __init__(self, native: str | None) -> None:
        self.name, self.text = os.path.basename(native or ""), b""
        if native:
            with contextlib.suppress(OSError):  # deleted meanwhile: nothing is the candidate's
                self.text = Path(native).read_bytes()

    def holds(self, pid: int, area: procfs.Area) -> bool:
        """Whether a piece of a process's code is what the judge compiled, byte for byte."""
        if not self.text or os.path.basename(area.path).removesuffix(" (deleted)") != self.name:
            return False
        found = bytearray(area.end - area.start)
        expected = self.text[area.offset : area.offset + len(found)]
        try:
            procfs.read_memory(pid, area.start, found)
        except OSError:
            return False
        return bytes(found) == expected.ljust(len(found), b"\0")


def kind(place: Place) -> str:
    """Whose the code at a place is."""
    return _kind(place.file)


@functools.lru_cache(maxsize=512)
def _kind(file: str) -> str:
    if file == MINE.file:
        return OWN
    if file in _KERNEL:
        return SYSTEM
    folder, name = os.path.split(file)
    if file in _executables() or folder in _modules():
        return INTERPRETER
    if folder in _trusted():
        for found, names in ((INTERPRETER, _INTERPRETER), (MATHS, _MATHS), (SYSTEM, _SYSTEM), (WAITING, _WAITING)):
            if name.startswith(names):
                return found
    return LIBRARY


def pytorchs(place: Place) -> bool:
    """Whether a library's code may be PyTorch's doing: it lies in PyTorch, in a library behind it, or was generated in memory."""
    folder, name = os.path.split(place.file)
    return place.file == NOWHERE.file or folder in _torch() or (name.startswith(_BEHIND) and folder in _trusted())


def named(place: Place) -> str | None:
    """Whose the code at a place is, by its function's name too; None where PyTorch's functions have none."""
    folder, name = os.path.split(place.file)
    if not name.startswith(_NAMED) or folder not in _trusted():
        return kind(place)
    known = symbols.of(place.file)
    if not known.whole:
        return None
    function = known.name(place.offset)
    return MEMORY if _COPYING.search(function) else INTERPRETER if function.startswith(_WAYS) else LIBRARY


@functools.cache
def _executables() -> frozenset[str]:
    return frozenset({os.path.realpath(sys.executable), os.path.realpath("/proc/self/exe")})


@functools.cache
def _modules() -> frozenset[str]:
    """Folders of the interpreter's own extension modules."""
    found: set[Any] = {sysconfig.get_config_var("DESTSHARED")}
    spec = importlib.util.find_spec("_ctypes")
    if spec is not None and spec.origin and os.path.sep in spec.origin:
        found.add(os.path.dirname(spec.origin))
    return frozenset(os.path.realpath(f) for f in found if f)


@functools.cache
def _trusted() -> frozenset[str]:
    """Folders in which a name is what it says: the system's, the interpreter's and PyTorch's."""
    found = {os.path.dirname(a.path) for a in procfs.Code(os.getpid()).areas if a.path.startswith("/")}
    usual = ("/lib", "/usr/lib", "/lib64", "/usr/lib64", f"{sys.prefix}/lib", f"{sys.base_prefix}/lib")
    found |= {os.path.realpath(f) for f in usual}
    return frozenset(found) | _torch()


@functools.cache
def _torch() -> frozenset[str]:
    spec = importlib.util.find_spec("torch")
    places = (spec.submodule_search_locations or []) if spec is not None else []
    return frozenset(os.path.realpath(f) for place in places for f in (f"{place}/lib", f"{place}.libs"))
