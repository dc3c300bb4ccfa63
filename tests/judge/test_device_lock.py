"""Judges of several processes share a device while they check, and have it alone while they time."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from evaluators.errors import JudgeError
from evaluators.judge.processes import device_lock
from evaluators.judge.processes.device_lock import DeviceLock

HOLDER = """
import sys, tempfile
tempfile.tempdir = sys.argv[1]
from evaluators.judge.processes.device_lock import DeviceLock
with DeviceLock("cpu", 60).held(sys.argv[2] == "alone"):
    print("has it", flush=True)
    sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(device_lock, "folder", lambda: tmp_path)
    return tmp_path


@contextmanager
def other_process(folder: Path, how: str) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(folder), how], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == b"has it\n"
        yield process
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize(
    ("theirs", "alone", "both"),
    [("shared", False, True), ("shared", True, False), ("alone", False, False), ("alone", True, False)],
)
def test_who_may_have_it_together(folder: Path, theirs: str, alone: bool, both: bool) -> None:
    with other_process(folder, theirs):
        if both:
            with DeviceLock("cpu", 0.2).held(alone):
                return
        with pytest.raises(JudgeError, match=r"kept cpu busy for 0\.2 s"), DeviceLock("cpu", 0.2).held(alone):
            pytest.fail("two had it")


def test_who_waits_says_so_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device_lock, "_MOMENT_S", 0.05)
    said: list[str] = []
    with other_process(folder, "alone"), pytest.raises(JudgeError), DeviceLock("cpu", 0.4, said.append).held(False):
        pytest.fail("two had it")
    assert said == ["waiting: another judge on this machine uses cpu (at most 0.4 s)"]
    with DeviceLock("cpu", 5.0, said.append).held(True):
        assert len(said) == 1


def test_another_device_is_another_lock(folder: Path) -> None:
    with other_process(folder, "alone"), DeviceLock("GPU-1/2 ../x", 0.2).held(True):
        assert {p.name for p in folder.iterdir()} == {
            f"kernelevolve-{name}.{part}" for name in ("cpu", "GPU-1_2____x") for part in ("device", "gate")
        }


def test_a_killed_process_lets_go(folder: Path) -> None:
    with other_process(folder, "alone") as process:
        process.kill()
        process.wait()
        with DeviceLock("cpu", 30).held(True) as waited:
            assert waited < 30


def test_one_who_waits_for_it_alone_is_not_passed_by_others(folder: Path) -> None:
    order: list[str] = []

    def alone() -> None:
        with DeviceLock("cpu", 60).held(True):
            order.append("alone")

    def shared() -> None:
        with DeviceLock("cpu", 60).held(False):
            order.append("shared")

    with other_process(folder, "shared"):
        first = threading.Thread(target=alone)
        first.start()
        _until_gate_is_kept()
        second = threading.Thread(target=shared)
        second.start()
        time.sleep(0.1)
        assert order == []
    first.join(60)
    second.join(60)
    assert order == ["alone", "shared"]


def _until_gate_is_kept() -> None:
    """Return once somebody keeps the gate."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            with DeviceLock("cpu", 0.0).held(False):
                time.sleep(0.01)
        except JudgeError:
            return
    pytest.fail("nobody waits")


def test_a_link_in_the_lock_files_place_is_refused(folder: Path) -> None:
    (folder / "elsewhere").touch()
    (folder / "kernelevolve-cpu.device").symlink_to(folder / "elsewhere")
    with pytest.raises(JudgeError, match="cannot be opened to lock cpu"), DeviceLock("cpu", 1).held(True):
        pytest.fail("the link was followed")
