"""A worker and a compiler get at the system's files and their own, and at nothing else."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from agent.doctor import examine
from evaluators import landlock, places
from evaluators.errors import CompileFailed
from evaluators.judge.judge import Judge
from evaluators.judge.processes import procfs
from evaluators.judge.session import Session
from evaluators.judge.settings import JudgeSettings
from evaluators.languages import cpp
from evaluators.languages import native as compiler
from tests.judge.conftest import CPU, MODEL, native, row_sum_spec

SETTINGS = JudgeSettings(seeds=1, compile_mode="off", run_s=20.0, file_bytes=8 << 20)
needs_landlock = pytest.mark.skipif(not landlock.version(), reason="this kernel has no Landlock")


@pytest.fixture(scope="module")
def judge() -> Iterator[Judge]:
    with Judge(row_sum_spec(), CPU, SETTINGS) as found:
        yield found


def trying(statement: str) -> str:
    """The model, which fails where ``statement`` raises no OSError."""
    attack = f"try:\n    {statement}\n    found = True\nexcept OSError:\n    found = False\nassert not found"
    top = "import torch\n\nos, sys = torch.os, torch.sys\nPath = sys.modules['pathlib'].Path\n"
    return MODEL.replace("import torch\n", f"{top}{attack}\n", 1)


READ = {
    "the judge's text": "Path(sys.modules['evaluators.judge.worker.worker'].__file__).read_text()",
    "folders beside its own": "os.listdir('..')",
    "its user's home": "os.listdir(HOME)",
    "the judge's environment": f"Path('/proc/{os.getpid()}/environ').read_bytes()",
}


@needs_landlock
@pytest.mark.parametrize("namespaces", [True, False])
@pytest.mark.parametrize("name", READ)
def test_what_is_no_system_file_cannot_be_read(judge: Judge, namespaces: bool, name: str) -> None:
    """Landlock alone does it, where the kernel gives no namespaces."""
    judge.settings = replace(SETTINGS, namespaces=namespaces)
    text = trying(READ[name].replace("HOME", repr(str(Path.home()))))
    assert judge.evaluate(native(body=text), timed=False).status == "correct"


@needs_landlock
@pytest.mark.parametrize("place", ["../x", "/tmp/x", "/dev/shm/x"])
def test_nothing_is_written_outside_of_its_folder(judge: Judge, place: str) -> None:
    judge.settings = SETTINGS
    assert judge.evaluate(native(body=trying(f"Path('{place}').touch()")), timed=False).status == "correct"


def test_its_folder_takes_so_many_bytes_and_no_more(judge: Judge) -> None:
    judge.settings = SETTINGS
    for statement in ("Path('x').write_bytes(bytes(9 << 20))", "os.truncate(os.open('y', 65, 384), 1 << 40)"):
        assert judge.evaluate(native(body=trying(statement)), timed=False).status == "correct"
    within = MODEL.replace(
        "        return y", "        torch.sys.modules['pathlib'].Path('z').write_text('z')\n        return y"
    )
    assert judge.evaluate(native(body=within), timed=False).status == "correct"


def test_its_own_library_is_known_by_its_place(judge: Judge) -> None:
    """By that path the judge tells whose code runs."""
    judge.settings = SETTINGS
    judge.evaluate(native(), timed=False)
    assert judge.zygote is not None
    assert judge.reference is not None
    build = cpp.build(native().source, CPU)
    with Session(build, judge.zygote, judge.reference, SETTINGS) as session:
        session.start()
        session.correctness((0xFF,))
        assert session.worker.library != build.native
        assert session.worker.library in {area.path for area in procfs.Code(session.worker.pid).areas}


def test_the_verdict_and_the_doctor_say_the_same_of_it(judge: Judge) -> None:
    judge.settings = JudgeSettings(seeds=1, compile_mode="off")
    found = judge.evaluate(native(), timed=False).isolation
    assert re.search("files (NOT )?read-only", found)
    assert re.search("other files (NOT )?out of reach", found)
    assert found == next(c for c in examine() if c.name == "isolation").detail.partition("; all of it needs")[0]


@needs_landlock
def test_a_file_that_a_library_is_made_of_is_refused_and_it_is_said_what_to_do(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("hunter2")
    text = f'asm(".data\\n.inc" "bin \\"{secret}\\"\\n");\n'
    with pytest.raises(CompileFailed, match="own files only: put what the kernel needs into SOURCES"):
        compiler.compile_library(["g++", *cpp.FLAGS], {"kernel.cpp": text}, tmp_path / "out.so")


@needs_landlock
def test_a_program_started_within_stays_there_and_this_one_does_not(tmp_path: Path) -> None:
    for name in ("mine", "theirs"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text(name)

    def cat(name: str) -> int:
        return subprocess.run(["/bin/cat", tmp_path / name / "file"], capture_output=True, check=False).returncode

    system = places.for_compiler("cat", [])
    mine = [*system, str(tmp_path / "mine")]
    assert landlock.within(mine, [places.NOTHING], lambda: (cat("mine"), cat("theirs"))) == ((0, 1), True)
    assert cat("theirs") == 0


def test_without_landlock_that_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(landlock, "version", lambda: 0)
    assert landlock.within([], [], lambda: 7) == (7, False)


def test_what_fails_within_is_raised() -> None:
    with pytest.raises(ZeroDivisionError):
        landlock.within(["/usr"], [], lambda: 1 // 0)


def test_places_go_around_what_is_hidden(tmp_path: Path) -> None:
    for name in ("a/b/c", "a/b/d", "a/e", "f"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "link").symlink_to("a")

    def around(wanted: list[str], hidden: list[str]) -> list[str]:
        found = places.around([str(tmp_path / w) for w in wanted], [str(tmp_path / h) for h in hidden])
        return [os.path.relpath(p, tmp_path) for p in found]

    assert around(["a"], []) == ["a"]
    assert around(["a", "a/b", "f"], []) == ["a", "f"]
    assert around(["a", "f"], ["a/b/c", "f"]) == ["a/b/d", "a/e"]
    assert around(["a"], ["link/b"]) == ["a/e"]
    assert around(["a/b/c"], ["a"]) == ["a/b/c"]  # what is needed, in a folder that is hidden
    assert around(["nowhere"], []) == []


def test_a_worker_may_read_pythons_packages_but_not_the_judge() -> None:
    found = places.for_worker((places.JUDGE,))
    for wanted in (Path(sys.prefix), Path("/usr/lib")):
        assert any(wanted.resolve().is_relative_to(p) for p in found)
    assert not any(Path(places.JUDGE).is_relative_to(p) for p in found)
    assert not any(Path.home().is_relative_to(p) for p in found)
