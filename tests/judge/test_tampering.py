"""Shortcuts that take the judge's clock, its inputs or its other processes for a target: none of them gains anything."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace

import pytest

from evaluators.candidate import Candidate
from evaluators.judge.judge import Judge
from evaluators.judge.processes import peek, procfs
from evaluators.judge.processes.processes import Failed
from evaluators.judge.settings import JudgeSettings
from evaluators.judge.timing import batches
from evaluators.spec.kernel_spec import InputSpec
from tests.judge.conftest import CPU, ROW_SUM, make_spec, native, row_sum_spec

SETTINGS = JudgeSettings(
    seeds=3, pairs=5, watched=10, batch_ms_cpu=20.0, timing_budget_s=3.0, compile_mode="off", run_s=30.0
)
NO_GAIN = ("tampering", "mismatch", "crash", "load_error", "wrong_shape")


@pytest.fixture(scope="module")
def judge() -> Iterator[Judge]:
    with Judge(row_sum_spec(), CPU, SETTINGS) as found:
        yield found


def cheat(forward: str, top: str = "", source: str = ROW_SUM) -> Candidate:
    """A model whose ``forward`` is given, beside an honest ``compute(x, y)``; ``self.n`` counts the calls."""
    lines = "\n".join("        " + line for line in forward.strip().splitlines())
    body = f"""
import torch

os, time = torch.os, torch.sys.modules["time"]
{top}


class ModelNew(torch.nn.Module):
    n = 0

    def compute(self, x, y):
        _native().kernel(_address(x), _address(y), x.shape[0], x.shape[1])
        return y

    def forward(self, x):
        self.n += 1
        y = torch.empty(x.shape[0])
{lines}
"""
    return native(source, body)


HOG = "if (!hogs) { hogs = 1; if (!fork()) { BEFORE for (;;) usleep(1000); } }"


@pytest.mark.parametrize("before", ["", "setsid();", "if (fork()) _exit(0); setsid(); if (fork()) _exit(0);"])
def test_nothing_runs_beside_the_baseline(judge: Judge, before: str) -> None:
    """A child is not stopped with its worker once it has left the group; whatever it does then, the baseline pays for it."""
    source = "#include <unistd.h>\nstatic int hogs = 0;\n" + ROW_SUM.replace(
        "{\n    for", "{\n    " + HOG.replace("BEFORE", before) + "\n    for", 1
    )
    found = judge.evaluate(native(source))
    assert (found.status, found.fitness) == ("tampering", 0.0), found.message
    assert "beside its worker" in found.message
    assert judge.evaluate(native(), timed=False).status == "correct"


DEFERRED = (
    """
if self.n <= 6:
    return self.compute(x, y)
if self.n == 7:
    MODE.__enter__()
PENDING[y.data_ptr()] = (self, x, y)
return y
""",
    """
from torch.overrides import TorchFunctionMode
PENDING = {}


class Later(TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        for a in args:
            if isinstance(a, torch.Tensor) and func is not torch.Tensor.data_ptr and a.data_ptr() in PENDING:
                model, x, y = PENDING.pop(a.data_ptr())
                model.compute(x, y)
        return func(*args, **(kwargs or {}))


MODE = Later()
""",
)
PEEK = """
def asked():
    frame, back = torch.sys._getframe(1), "f_" + "back"
    while frame is not None:
        seen = getattr(frame, "f_lo" + "cals")
        if "done" in seen and "calls" in seen:
            return seen
        frame = getattr(frame, back)
    return {"done": 1, "calls": 1}
"""
LAST_ONLY = (
    """
seen = asked()
if seen["done"] >= seen["calls"] - 3:
    return self.compute(x, y)
return y
""",
    PEEK,
)
FEWER = """
def patch(keep_books):
    batcher = torch.sys.modules["evaluators.judge.worker.batch"].Batcher
    run = batcher.run

    def fewer(self, call, arguments, calls, offset):
        found = run(self, call, arguments, max(calls // 8, 1), offset)
        if keep_books:
            self.page.words[0] = calls
        return found

    batcher.run = fewer
"""
LIES = {
    "work put off until its result is touched": DEFERRED,
    "only the last call for each set works": LAST_ONLY,
    "fewer calls than asked for": ("return self.compute(x, y)", FEWER + "\npatch(False)\n"),
    "fewer calls, and the count set right": ("return self.compute(x, y)", FEWER + "\npatch(True)\n"),
}


@pytest.mark.parametrize("name", LIES)
@pytest.mark.parametrize("readable", [True, False])
def test_calls_that_are_claimed_are_made(
    judge: Judge, name: str, readable: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the judge may not read a worker's memory, and results are copied while its clock runs."""
    if not readable:
        if name.endswith("set right"):
            pytest.skip("seen only by stopping a worker")
        monkeypatch.setattr(peek, "readable", lambda *_: False)
    forward, top = LIES[name]
    found = judge.evaluate(cheat(forward, top))
    assert (found.status in NO_GAIN, found.fitness) == (True, 0.0), found.message


LATE = """
class Late(list):
    def __iter__(self):
        self.model.compute(self.x, self.y)
        return iter([self.y])

"""
NO_PLACE = """
torch.sys.modules["evaluators.judge.worker.batch"]._put_down = lambda *_: None
"""


def test_code_of_a_results_container_is_not_run(judge: Judge) -> None:
    found = judge.evaluate(
        cheat("late = Late()\nlate.model, late.x, late.y = self, x, y\nreturn late", LATE), timed=False
    )
    assert found.status == "wrong_shape", found.message


def test_calls_without_places_are_found() -> None:
    with Judge(
        make_spec("(x.sum(-1), x.sum(-1))", InputSpec("x", (64, 300))), CPU, replace(SETTINGS, watched=2)
    ) as judge:
        honest = judge.evaluate(cheat("self.compute(x, y)\nreturn y, y.clone()"))
        assert honest.status == "correct", honest.message
        found = judge.evaluate(cheat("self.compute(x, y)\nreturn y, y.clone()", NO_PLACE))
        assert (found.status, "lie nowhere" in found.message) == ("tampering", True), found.message


REPLAYS = {
    "by address": "x.data_ptr()",
    "by all bits": "int(x.numpy().view('u4').sum())",
    "by address and a sample of the elements": "(x.data_ptr(), *map(float, x.view(-1)[::97]))",
    "by the first row's bits": "x[0].numpy().tobytes()",
}


@pytest.mark.parametrize("readable", [True, False])
@pytest.mark.parametrize("name", REPLAYS)
def test_results_that_are_given_again_are_found(
    judge: Judge, name: str, readable: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every call has inputs of its own."""
    if not readable:
        monkeypatch.setattr(peek, "readable", lambda *_: False)
    found = judge.evaluate(
        cheat(
            f"key = {REPLAYS[name]}\nif key not in KEPT:\n    KEPT[key] = self.compute(x, y)\nreturn KEPT[key]",
            "KEPT = {}",
        )
    )
    if found.timing is not None:  # nothing could be given again: the cost of looking for it is all there is
        assert found.timing.ratio < 1.0, found.message
    else:
        assert found.status == "mismatch"
        assert "right when called alone, wrong in a timed batch" in found.message


def test_inputs_of_timed_calls_cannot_be_written_to(judge: Judge) -> None:
    """Where every input could be made easy once, what comes after would be easy to compute."""
    found = judge.evaluate(cheat(PEEK_ARGUMENTS + "\nreturn self.compute(x, y)", PEEK))
    assert found.status in ("crash", "mismatch"), found.message


PEEK_ARGUMENTS = """
seen = asked()
if "arguments" in seen:
    seen["arguments"][-1][0].zero_()
"""
KEPT_NATIVELY = """
#include <map>
#include <vector>
#include <cstring>
extern "C" void kernel(const float* x, float* y, int rows, int cols) {
    static std::map<const float*, std::vector<float>> kept;
    std::vector<float>& sums = kept[x];
    if (sums.empty()) {
        sums.resize(rows);
        for (int r = 0; r < rows; ++r) {
            double sum = 0;
            for (int c = 0; c < cols; ++c) sum += x[(long)r * cols + c];
            sums[r] = (float)sum;
        }
    }
    std::memcpy(y, sums.data(), rows * sizeof(float));
}
"""


def test_results_kept_in_native_code_are_found(judge: Judge) -> None:
    kept_results_are_found(judge)


def test_results_kept_in_native_code_are_found_however_few_calls_a_batch_has() -> None:
    with Judge(row_sum_spec(), CPU, replace(SETTINGS, batch_ms_cpu=1e-6)) as judge:
        honest = judge.evaluate(native())
        assert honest.status == "correct", honest.message
        assert honest.resources["timed_results_checked"] > 0
        kept_results_are_found(judge)


def kept_results_are_found(judge: Judge) -> None:
    found = judge.evaluate(native(KEPT_NATIVELY))
    assert (found.status, "in a timed batch" in found.message) == ("mismatch", True), found.message


@pytest.mark.parametrize("readable", [True, False])
def test_honest_kernels_pass_however_they_are_looked_at(
    judge: Judge, readable: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not readable:
        monkeypatch.setattr(peek, "readable", lambda *_: False)
    found = judge.evaluate(native())
    assert found.status == "correct", found.message
    assert found.fitness > 0
    assert found.resources["timed_results_checked"] > 0


def test_work_put_off_until_results_are_handed_over_is_on_the_clock(
    judge: Judge, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the judge has results handed over after a batch: what that takes beyond a copy of as many bytes is the candidate's time.

    The batches are short, since what is put off is as long for each of their calls.
    """
    monkeypatch.setattr(peek, "readable", lambda *_: False)
    monkeypatch.setattr(judge, "settings", replace(SETTINGS, batch_ms_cpu=1.0, watched=2))
    debt = """
OWED = [0]
worker = torch.sys.modules["evaluators.judge.worker.worker"]
deliver = worker.deliver


def late(result, case, copy=True):
    time.sleep(0.004 * OWED[0])
    OWED[0] = 0
    return deliver(result, case, copy)


worker.deliver = late
"""
    found = judge.evaluate(cheat("OWED[0] += 1\nreturn self.compute(x, y)", debt))
    assert found.timing is not None, found.message
    assert found.timing.candidate_ms > 3.0


@pytest.mark.parametrize(
    "result",
    ["y.repeat(3).view(3, -1)[1]", "torch.stack([y, y], 1)[:, 0]", "y.view(8, 8).t().contiguous().t().reshape(-1)"],
)
def test_results_with_gaps_are_read_as_they_lie(judge: Judge, result: str) -> None:
    found = judge.evaluate(cheat(f"self.compute(x, y)\nreturn {result}"))
    assert found.status == "correct", found.message


def test_elements_that_share_memory_are_not_written() -> None:
    """An expanded view leaves out most of the writing that the reference's result costs."""
    spec = make_spec("x.sum(-1, keepdim=True).expand(64, 300).contiguous()", InputSpec("x", (64, 300)))
    view = "m[:, None].expand(64, 300)"
    with Judge(spec, CPU, SETTINGS) as judge:
        for returned, status in ((view, "wrong_shape"), (f"{view}.contiguous()", "correct")):
            found = judge.evaluate(cheat(f"m = self.compute(x, y)\nreturn {returned}"), timed=False)
            assert found.status == status, found.message


def test_a_stopped_worker_that_uses_processor_time_is_found(judge: Judge, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not assumed but measured: here the worker goes on although it was stopped."""
    monkeypatch.setattr("evaluators.judge.processes.workers.Worker.pause", lambda self: None)
    busy = ROW_SUM.replace(
        "{\n    for", "{\n    static std::thread t([] { for (volatile long i = 0;; ++i); });\n    for", 1
    )
    found = judge.evaluate(native("#include <thread>\n" + busy))
    assert (found.status, found.fitness) == ("tampering", 0.0), found.message


def test_processes_outside_cannot_be_named(judge: Judge) -> None:
    """Where the kernel gives a worker a PID namespace, it can neither find nor signal the judge's processes."""
    found = judge.evaluate(
        cheat(
            "assert [p for p in os.listdir('/proc') if p.isdigit()] == ['1'], os.listdir('/proc')\nreturn self.compute(x, y)"
        ),
        timed=False,
    )
    if "PID" not in found.isolation:
        pytest.skip("the kernel gives no PID namespace here")
    assert found.status == "correct", found.message


def test_the_zygote_can_be_attacked_but_not_the_next_candidate(judge: Judge) -> None:
    the_next_candidate_is_right_after_attacks(judge)


def test_nor_without_namespaces() -> None:
    with Judge(row_sum_spec(), CPU, replace(SETTINGS, namespaces=False)) as judge:
        the_next_candidate_is_right_after_attacks(judge)


def the_next_candidate_is_right_after_attacks(judge: Judge) -> None:
    """Attacks are to kill the zygote and to stop it."""
    for number in (9, 19):
        attack = cheat(f"if os.getppid() > 1:\n    os.kill(os.getppid(), {number})\nreturn self.compute(x, y)")
        found = judge.evaluate(attack, timed=False)
        assert found.status in ("correct", *NO_GAIN), found.message
        after = judge.evaluate(native(), timed=False)
        assert after.status == "correct", after.message


def test_a_reference_put_on_another_processor_is_noticed(judge: Judge) -> None:
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("one processor")
    judge.evaluate(native(), timed=False)
    assert judge.reference is not None
    assert judge.reference.intact()
    before = os.sched_getaffinity(judge.reference.server.pid)
    for tid in procfs.tasks(judge.reference.server.pid):
        os.sched_setaffinity(tid, {min(before)})
    assert not judge.reference.intact()
    assert os.sched_getaffinity(judge.reference.server.pid) == before


HIDDEN = {
    "after the calls that are recorded": ("return self.compute(x, y) if self.n <= 6 else x.sum(-1)", ""),
    "with the recorder switched off": (
        "with _disable_current_modes():\n    return x.sum(-1)",
        "from torch.utils._python_dispatch import _disable_current_modes",
    ),
    "in a thread": (
        "found = []\nt = threading.Thread(target=lambda: found.append(x.sum(-1)))\nt.start()\nt.join()\nreturn found[0]",
        "threading = torch.sys.modules['threading']",
    ),
    "NumPy's": ("return torch.from_numpy(x.numpy().sum(-1))", ""),
    "beside a waste of time": (
        "if self.n <= 6:\n    return self.compute(x, y)\n_native().kernel(_address(x), _address(y), 8, 4096)\nreturn x.sum(-1)",
        "",
    ),
}


@pytest.fixture(scope="module")
def large_judge() -> Iterator[Judge]:
    """For inputs large enough that a call takes longer than the way to it."""
    spec = make_spec("x.sum(-1)", InputSpec("x", (256, 4096)))
    with Judge(spec, CPU, replace(SETTINGS, batch_ms_cpu=100.0, threads=1)) as found:
        yield found


@pytest.mark.parametrize("name", HIDDEN)
def test_a_librarys_work_is_seen_by_whose_code_runs(large_judge: Judge, name: str) -> None:
    found = large_judge.evaluate(cheat(*HIDDEN[name]))
    met = found.resources.get("samples")
    if met is not None and met["looks"] - met["idle"] < 10:
        pytest.skip("where threads are is not told here, or the machine is too busy")
    assert found.fitness == 0.0, (found.message, found.resources)
    assert found.resources["attribution"]["library"] > 0.1


def test_claims_that_lag_behind_the_clock_are_lies() -> None:
    made = object.__new__(batches.Batches)
    made.behind, made.silent, made.used_ns = [True, False, False, True, False], [], 0
    made.judge_progress()  # a busy machine delays now and then
    made.behind = [True, False, True, False]
    with pytest.raises(Failed, match="in no time"):
        made.judge_progress()


def test_calls_that_are_only_claimed_at_the_end_were_not_made_one_by_one() -> None:
    made = object.__new__(batches.Batches)
    made.behind, made.silent, made.used_ns = [False] * 3, [True, True, False], 0
    made.judge_progress()
    made.silent = [True, True]
    with pytest.raises(Failed, match="one by one"):
        made.judge_progress()


def test_memory_of_another_process_is_read_or_refused() -> None:
    script = (
        "import ctypes, time; b = ctypes.create_string_buffer(b'hello there'); "
        "print(ctypes.addressof(b), flush=True); time.sleep(60)"
    )
    process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        address = int(process.stdout.readline())
        if not peek.readable(process.pid, address, "hello there"):
            pytest.skip("other processes' memory may not be read here")
        assert not peek.readable(process.pid, address, "hello thare")
        with pytest.raises(OSError, match="address"):
            procfs.read_memory(process.pid, 8, bytearray(8))
        assert procfs.descendants(os.getpid()) >= {process.pid}
        assert procfs.alive(process.pid)
    finally:
        process.kill()
        process.wait()
    assert not procfs.alive(process.pid)
