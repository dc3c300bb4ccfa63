"""Whose work it is on a CPU: what looks at a worker's threads amount to, and that a library's work gets no credit however it is called."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from evaluators.judge.processes import procfs
from evaluators.judge.whose import symbols, whose
from evaluators.judge.whose.sampling import Samples, limits
from evaluators.judge.whose.whose import MINE, NOWHERE, OTHERS, Own, Place

TORCH = Place(f"{Path(torch.__file__).parent.resolve()}/lib/libtorch_cpu.so", 64)
SYSTEM = next(os.path.dirname(a.path) for a in procfs.Code(os.getpid()).areas if "/libc." in a.path)
PYTHON = Place(os.path.realpath("/proc/self/exe"), 64)
MATHS, LIBC, IDLE = Place(f"{SYSTEM}/libm.so.6"), Place(f"{SYSTEM}/libc.so.6"), Place(f"{SYSTEM}/libgomp.so.1")
NUMPY = Place("/somewhere/site-packages/numpy/_core/_multiarray_umath.so")
RENAMED = Place("/tmp/candidate-x/libm.so.6")


def samples(*looks: tuple[int, Sequence[Place]], call_ms: float = 0.2, plumbing: int = 1) -> Samples:
    """So many looks each that met threads at these places."""
    made = Samples(None, plumbing)
    made.told, made.call_ms = True, call_ms
    made.looks = [list(places) for count, places in looks for _ in range(count)]
    return made


@pytest.mark.parametrize(
    ("place", "kind"),
    [
        (MINE, "own"), (TORCH, "library"), (NUMPY, "library"), (NOWHERE, "library"), (OTHERS, "library"), (RENAMED, "library"),
        (Place("/tmp/candidate-x/rows.so"), "library"), (Place(f"{SYSTEM}/libopenblas.so.0"), "library"), (PYTHON, "interpreter"),
        (MATHS, "maths"), (LIBC, "system"), (IDLE, "waiting"), (Place("[vdso]"), "system"),
        (Place(f"{os.path.dirname(TORCH.file)}/libtorch_python.so"), "interpreter"),
    ],
)  # fmt: skip
def test_code_is_a_librarys_unless_it_is_known_to_be_none(place: Place, kind: str) -> None:
    assert whose.kind(place) == kind


@pytest.mark.parametrize(
    ("name", "looks"),
    [
        ("the interpreter's looks are nobody's", [(20, [TORCH]), (60, [PYTHON])]),
        ("in a thread, while the main one waits", [(15, [TORCH, IDLE]), (30, [])]),
        ("as much again is wasted in own code", [(20, [TORCH]), (25, [MINE])]),
        ("three times as much is wasted", [(30, [TORCH]), (90, [MINE])]),
        ("NumPy", [(12, [NUMPY]), (10, [PYTHON])]),
        ("a library under a system's name", [(12, [RENAMED]), (10, [MATHS])]),
        ("generated code", [(12, [NOWHERE])]),
        ("other processes", [(12, [OTHERS]), (6, [PYTHON])]),
    ],
)
def test_a_librarys_work_is_said_to_be_one(name: str, looks: list[tuple[int, list[Place]]]) -> None:
    found = samples(*looks)
    assert found.said, name
    shares = found.attribution()
    assert shares is not None
    assert shares["library"] > 0.1
    assert shares["of"]


@pytest.mark.parametrize(
    ("name", "looks", "call_ms"),
    [
        ("own code", [(60, [MINE]), (3, [TORCH])], 0.2),
        ("own code and the way to an allocation, in a small call", [(6, [MINE]), (12, [TORCH]), (60, [PYTHON])], 0.02),
        ("the same on a busy machine", [(6, [MINE]), (12, [TORCH]), (60, [PYTHON])], 0.1),
        ("so small that the interpreter is all there is", [(4, [TORCH]), (56, [PYTHON])], 0.03),
        ("few looks say nothing", [(5, [TORCH])], 0.2),
        ("functions of libm called from own code", [(8, [MINE]), (40, [MATHS]), (6, [TORCH])], 0.2),
        ("copies that the compiler makes of loops", [(50, [LIBC]), (4, [TORCH])], 0.2),
        ("threads that wait for a busy machine", [(40, [IDLE]), (40, [])], 5.0),
        ("nothing", [], 0.2),
    ],
)
def test_an_honest_kernels_looks_cost_it_nothing(
    name: str, looks: list[tuple[int, list[Place]]], call_ms: float
) -> None:
    assert not samples(*looks, call_ms=call_ms).said, name


def test_where_pytorch_may_do_some_of_the_work_others_may_not() -> None:
    for looks, expected in (([(30, [TORCH]), (10, [MINE])], False), ([(30, [NUMPY]), (10, [TORCH])], True)):
        found = samples(*looks)
        found.hybrid = True
        assert bool(found.said) == expected


def test_copies_by_pytorch_are_plumbing(monkeypatch: pytest.MonkeyPatch) -> None:
    copying = TORCH._replace(offset=128)
    leading = TORCH._replace(offset=192)
    names = {copying: "memory", leading: "interpreter"}
    monkeypatch.setattr("evaluators.judge.whose.sampling.by_name", lambda p: names.get(p) or whose.kind(p))
    assert not samples((30, [leading]), (3, [MINE])).said
    found = samples((30, [copying]), (10, [MINE]), (2, [TORCH]))
    assert not found.said
    assert found.counts() == {
        "own": 10, "library": 2, "memory": 30, "interpreter": 0, "system": 0, "idle": 0, "looks": 42,
    }  # fmt: skip
    assert samples((30, [copying]), (10, [MINE]), (12, [TORCH])).said
    # Without names what copies cannot be told, so that only most of the time says something.
    monkeypatch.setattr("evaluators.judge.whose.sampling.by_name", lambda p: None if p == TORCH else whose.kind(p))
    assert not samples((30, [TORCH]), (30, [MINE])).said
    assert samples((30, [TORCH]), (10, [MINE])).said


@given(st.integers(0, 60), st.integers(0, 60), st.integers(0, 30), st.floats(0.001, 10.0))
def test_own_work_and_idleness_never_count_against_a_kernel(own: int, library: int, more: int, call_ms: float) -> None:
    before = samples((own, [MINE]), (library, [NUMPY]), call_ms=call_ms)
    for place in (MINE, PYTHON, IDLE, LIBC):
        after = samples((own, [MINE]), (library, [NUMPY]), (more, [place]), call_ms=call_ms)
        assert not after.said or before.said
    assert not samples((own, [MINE]), call_ms=call_ms).said


@given(st.integers(0, 200), st.integers(0, 200))
def test_limits_hold_the_share_and_narrow(part: int, rest: int) -> None:
    low, high = limits(part, part + rest)
    assert -1e-9 <= low <= high <= 1 + 1e-9
    if part + rest:
        assert low - 1e-9 <= part / (part + rest) <= high + 1e-9
        wider = limits(10 * part, 10 * (part + rest))
        assert wider[1] - wider[0] <= high - low


def test_looking_ends_where_more_would_tell_nothing() -> None:
    assert Samples(None).enough, "nothing is told here"
    assert not samples((19, [MINE])).enough
    assert samples((40, [MINE])).enough
    assert samples((20, [NUMPY])).enough
    assert not samples((20, [NUMPY]), (20, [MINE])).enough
    assert samples((60, [NUMPY]), (60, [MINE])).enough
    assert samples((20, [PYTHON]), call_ms=0.005).enough, "too small to say anything of"


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("library")
    (folder / "a.cpp").write_text(
        'extern "C" int first(int x) { return x * 3; }\nextern "C" int second(int x) { return x * 5; }\n'
    )
    subprocess.run(["g++", "-shared", "-fPIC", "-O1", "a.cpp", "-o", "own.so"], cwd=folder, check=True)
    return folder / "own.so"


def _area(name: str) -> procfs.Area:
    return next(a for a in procfs.Code(os.getpid()).areas if a.path.endswith(name))


def test_functions_have_names_unless_they_were_stripped(library: Path) -> None:
    loaded = ctypes.CDLL(str(library))
    area = _area(str(library.resolve()))
    address = ctypes.cast(loaded.second, ctypes.c_void_p).value
    assert address is not None
    offset = address - area.start + area.offset
    known = symbols.Symbols(str(library))
    assert known.whole
    assert known.name(offset) == "second"
    assert known.name(offset + 1) == "second"
    assert known.name(1 << 40) == ""
    stripped = library.with_name("stripped.so")
    subprocess.run(["strip", "-o", str(stripped), str(library)], check=True)
    bare = symbols.Symbols(str(stripped))
    assert not bare.whole
    assert bare.name(offset) == "second", "it is exported"
    for text in (b"", b"\x7fELF\x02\x01", b"no library at all" * 9):
        other = library.with_name("other.so")
        other.write_bytes(text)
        assert symbols.Symbols(str(other)).name(offset) == ""


def test_only_what_was_compiled_is_a_candidates_own(library: Path, tmp_path: Path) -> None:
    """Under another folder it still is; under its name with other contents, or changed in memory, it is not."""
    moved = tmp_path / "own.so"
    shutil.copy(library, moved)
    loaded = ctypes.CDLL(str(moved))
    area = _area(str(moved.resolve()))
    assert Own(str(library)).holds(os.getpid(), area)
    text = library.read_bytes()
    other = tmp_path / "other" / "own.so"
    other.parent.mkdir()
    other.write_bytes(text[: area.offset] + bytes(64) + text[area.offset + 64 :])
    assert not Own(str(other)).holds(os.getpid(), area)
    assert not Own(None).holds(os.getpid(), area)
    assert not Own(str(tmp_path / "gone" / "own.so")).holds(os.getpid(), area)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mprotect(ctypes.c_void_p(area.start), ctypes.c_size_t(area.end - area.start), 7):
        pytest.skip("code may not be changed here")
    address = ctypes.cast(loaded.first, ctypes.c_void_p).value
    assert address is not None
    ctypes.memset(address, 0x90, 1)
    assert not Own(str(library)).holds(os.getpid(), area)


def test_pytorchs_functions_are_told_by_name() -> None:
    """The copy of a strided tensor runs in copying code; a softmax does not."""
    known = symbols.of(TORCH.file)
    if not known.whole:
        pytest.skip("PyTorch was built without a symbol table")
    found: dict[str, str | None] = {}
    for index in range(0, len(known.starts), 211):
        at = int(known.starts[index])
        offset = next(begin + at - address for begin, address, size in known.segments if address <= at < address + size)
        name = known.name(offset)
        if (
            any(part in name for part in ("direct_copy_kernel", "LayerNormKernelImpl", "_ZN2at4_ops"))
            and len(found) < 400
        ):
            found[name] = whose.named(Place(TORCH.file, offset))
    assert found
    for name, whom in found.items():
        ways, copying = name.startswith("_ZN2at4_ops"), "direct_copy_kernel" in name
        assert whom == ("memory" if copying else "interpreter" if ways else "library"), name
