"""Whatever a candidate does, it costs one evaluation with a clear status, and the same judge goes on."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from evaluators.judge.judge import Judge
from evaluators.judge.settings import JudgeSettings
from evaluators.languages import cpp
from tests.judge.conftest import CPU, MODEL, ROW_SUM, native, row_sum_spec

SETTINGS = JudgeSettings(seeds=2, run_s=4.0, load_s=10.0, memory_bytes=2 << 30, processes=20)


@pytest.fixture(scope="module")
def judge() -> Iterator[Judge]:
    with Judge(row_sum_spec(), CPU, SETTINGS) as found:
        yield found


def body(statement: str) -> str:
    """The model with one more statement before it returns."""
    return MODEL.replace("        return y", f"        {statement}\n        return y")


def c(statement: str, includes: str = "") -> str:
    """The kernel with one more statement at its start."""
    return includes + ROW_SUM.replace("{\n    for", "{\n    " + statement + "\n    for", 1)


CASES = {
    "syntax error": (native(body="def forward(:"), "source_rejected", "syntax error, line"),
    "no ModelNew": (
        native(body="import torch\n\nclass Other(torch.nn.Module):\n    pass"),
        "source_rejected",
        "no class ModelNew",
    ),
    "C++ error": (native(ROW_SUM.replace("double sum", "duble sum")), "compile_error", "duble"),
    "wrong shape": (native(body=body("y = y[:-1]")), "wrong_shape", "shape [63], expected [64]"),
    "wrong dtype": (native(body=body("y = y.double()")), "wrong_dtype", "float64, expected float32"),
    "no tensor": (native(body=body("y = 3")), "wrong_shape", "another form"),
    "two tensors": (native(body=body("y = y, y")), "wrong_shape", "another form"),
    "NaN": (native(ROW_SUM.replace("(float)sum", "0.0f / 0.0f")), "mismatch", "NaN"),
    "wrong value": (native(ROW_SUM.replace("c = 0", "c = 1")), "mismatch", "relative norm error"),
    "one element": (native(c("if (rows) rows--;")), "mismatch", ""),
    "input modified": (native(body=body("x.zero_()")), "mismatch", "input tensor 0 was modified"),
    "exception in forward": (native(body=body("raise ValueError('no such case')")), "crash", "no such case"),
    "exception in constructor": (
        native(
            body=MODEL.replace(
                "    def forward", "    def __init__(self):\n        raise KeyError('nothing')\n\n    def forward"
            )
        ),
        "load_error",
        "nothing",
    ),
    "extra parameter": (
        native(
            body=MODEL.replace(
                "    def forward",
                "    def __init__(self):\n        super().__init__()\n        self.w = torch.nn.Parameter(torch.ones(3))\n\n"
                "    def forward",
            )
        ),
        "load_error",
        "parameters that the reference lacks: w",
    ),
    "endless loop": (native(c("for (volatile int i = 0;; ++i);")), "timeout", "within 4 s"),
    "silent exit": (native(c("_exit(0);", "#include <unistd.h>\n")), "crash", "exited with code 0"),
    "segmentation fault": (native(c("*(volatile int*)8 = 1;")), "crash", "SIGSEGV"),
    "50 GB": (native(body=body("torch.ones(50 << 28)")), "out_of_memory", ""),
    "forks": (
        native(
            c(
                "for (int i = 0; i < 40; ++i) if (!fork()) for (;;) pause();\n    for (;;) pause();",
                "#include <unistd.h>\n",
            )
        ),
        "crash",
        "processes; at most 20",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_fault_is_one_failed_evaluation(judge: Judge, name: str) -> None:
    candidate, status, text = CASES[name]
    begin = time.monotonic()
    found = judge.evaluate(candidate, timed=False)
    assert (found.status, found.fitness) == (status, 0.0), found.message
    assert text in found.message
    assert time.monotonic() - begin < 60


def test_right_candidate_after_all_faults(judge: Judge) -> None:
    found = judge.evaluate(native(), timed=False)
    assert found.status == "correct", found.message
    assert found.accuracy is not None
    assert found.accuracy.seeds == 2


def test_megabytes_of_output_do_not_block(judge: Judge) -> None:
    loud = native(c('for (int i = 0; i < 200000; ++i) puts("a line of twenty chars");', "#include <cstdio>\n"))
    assert judge.evaluate(loud, timed=False).status == "correct"


def test_children_do_not_outlive_the_worker(judge: Judge) -> None:
    marker = 1234567
    escape = f"if (!fork()) {{ setsid(); if (!fork()) {{ sleep({marker}); }} _exit(0); }}"
    found = judge.evaluate(native(c(escape, "#include <unistd.h>\n")), timed=False)
    assert found.status == "correct", found.message
    assert judge.zygote is not None
    from evaluators.judge.processes.procfs import descendants

    # They are killed before the verdict is given; a loaded machine may take a moment to reap them.
    deadline = time.monotonic() + 20
    while descendants(judge.zygote.pid) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert descendants(judge.zygote.pid) == set()


def test_death_is_noticed_at_once(judge: Judge) -> None:
    begin = time.monotonic()
    judge.evaluate(native(c("_exit(3);", "#include <unistd.h>\n")), timed=False)
    assert time.monotonic() - begin < SETTINGS.run_s + 5  # the request's time limit alone would be reached otherwise


def test_missing_compiler_names_the_fix(judge: Judge, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    found = judge.evaluate(native(c("int unseen = 1; (void)unseen;")), timed=False)
    assert found.status == "infrastructure"
    assert "apt-get install g++" in found.message


def test_killed_judge_leaves_no_processes() -> None:
    script = (
        "import os, sys\n"
        "from tests.judge.conftest import CPU, native, row_sum_spec\n"
        "from evaluators.judge.judge import Judge\n"
        "judge = Judge(row_sum_spec(), CPU)\n"
        "judge.evaluate(native(), timed=False)\n"
        "print(judge.zygote.pid, judge.reference.server.pid, flush=True)\n"
        "os.kill(os.getpid(), 9)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=120)
    pids = [int(p) for p in done.stdout.split()]
    assert len(pids) == 2, done.stderr
    deadline = time.monotonic() + 10
    while any(os.path.exists(f"/proc/{p}") and _alive(p) for p in pids) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not any(_alive(p) for p in pids)


def _alive(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def test_altered_loader_is_rejected(judge: Judge) -> None:
    source = native().source.replace("ctypes.CDLL(str(path))", "ctypes.CDLL('libc.so.6')")
    from evaluators.candidate import Candidate

    found = judge.evaluate(Candidate("x", "cpp", source, "manual"), timed=False)
    assert found.status == "source_rejected"
    assert cpp.LOADER_HASH[:16] in found.message
