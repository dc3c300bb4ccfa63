"""A reference is tried out in a process of its own: whatever it does there, this process gets a result or one clear SpecError."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any, cast

import pytest
import torch

from evaluators import targets, trial, trial_process
from evaluators.errors import SpecError, TraceError
from evaluators.spec.kernel_spec import InputSpec, KernelSpec
from evaluators.spec.loading import load
from evaluators.target import Target

HEAD = "import torch\nimport torch.nn as nn\n"
MODEL = "class Model(nn.Module):\n    def forward(self, x):\n        "


def spec(text: str, shape: tuple[int, ...] = (4, 4)) -> KernelSpec:
    return KernelSpec("tried", "yaml", HEAD + text, (InputSpec("x", shape),), origin="tried.yaml")


def bench(inputs: str, init: str = "[]") -> KernelSpec:
    text = f"{MODEL}return x * 2\ndef get_inputs():\n    return {inputs}\ndef get_init_inputs():\n    return {init}\n"
    return KernelSpec("tried", "kernelbench", HEAD + text, origin="tried.py")


CASES = {
    "exits in forward": (spec(MODEL + "raise SystemExit(0)"), "calling forward: line 5: SystemExit: 0; remove what ends the process"),
    "ends its process": (spec("import os\nos._exit(0)"), "running its code: ended its process (exit code 0)"),
    "crashes": (spec(MODEL + "import ctypes; ctypes.string_at(0)"), "calling forward: crashed (SIGSEGV)"),
    "raises no Exception": (spec(MODEL + "raise type('Odd', (BaseException,), {})('x')"), "calling forward: line 5: Odd: x"),
    "interrupts": (spec(MODEL + "raise KeyboardInterrupt"), "calling forward: line 5: KeyboardInterrupt"),
    "raises": (spec(MODEL + "raise ValueError('two\\nlines')"), "calling forward: line 5: ValueError: two lines"),
    "is no module": (spec("class Model:\n    def forward(self, x): return x"), "Model is no torch.nn.Module"),
    "constructor fails": (spec("class Model(nn.Module):\n    def __init__(self): raise OSError('no')"), "Model: OSError: no"),
    "inputs too large": (spec(MODEL + "return x", (10**6, 10**7)), "inputs.x: normal of shape [1000000, 10000000] in float32"),
    "needs too much memory": (spec(MODEL + "return torch.ones(1 << 42)"), "calling forward: line 5: RuntimeError"),
    "gives nothing": (spec(MODEL + "return None"), "forward: returns no tensor"),
    "gives a set": (spec(MODEL + "return {1}"), "forward: gives set; only tensors"),
    "gives a sparse tensor": (spec(MODEL + "return x.to_sparse()"), "returns a sparse coo tensor"),
    "gives a tensor without data": (spec(MODEL + "return torch.empty(3, device='meta')"), "returns a tensor on meta; return it on cpu"),
    "gives a list in itself": (spec(MODEL + "a = [x]; a.append(a); return a"), "gives a list that holds itself"),
    "inputs are no list": (bench("5"), "get_inputs: gives int; return a list"),
    "inputs are nothing": (bench("[torch.ones(4)]", "None"), "get_init_inputs: gives NoneType; return a list"),
    "inputs cannot travel": (bench("[object()]"), "get_inputs(): gives object; only tensors"),
}  # fmt: skip


APART = {"exits in forward", "ends its process", "crashes", "raises", "inputs too large", "needs too much memory"}
"""What ends a process or takes its memory, and two that only raise. Raised in this process, which has PyTorch loaded, the others are put
into the same words."""


class Unheard:
    """In place of the channel to the process that waits for what comes of a trial."""

    def send(self, message: dict[str, Any]) -> None:
        """Nobody listens."""


def tried_here(wrong: KernelSpec, target: Target) -> None:
    request = {"device": target.device, "threads": torch.get_num_threads()}
    trial_process._tried(wrong, request, cast(Any, Unheard()))


@pytest.mark.parametrize("case", CASES)
def test_what_goes_wrong_is_a_line_about_the_part_that_fails(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    wrong, says = CASES[case]
    monkeypatch.setattr(trial_process, "_limit_memory", lambda: None)
    attempt = trial.tried if case in APART else tried_here
    with pytest.raises(SpecError) as caught:
        attempt(wrong, targets.load("auto"))
    assert says in str(caught.value)
    assert str(caught.value).startswith(wrong.origin + ": ")
    assert "\n" not in str(caught.value)


def test_a_reference_that_hangs_is_ended_with_what_it_started(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Also the process that it forked, which would otherwise go on."""
    monkeypatch.setitem(trial.LIMITS, "import", 2.0)
    note = tmp_path / "pid"
    forks = f"import subprocess, time\np = subprocess.Popen(['sleep', '1000'])\nopen({str(note)!r}, 'w').write(str(p.pid))\n"
    with pytest.raises(SpecError, match=r"running its code: took longer than 2 s; last output: about to wait"):
        trial.tried(spec(forks + "print('about to wait', flush=True)\ntime.sleep(1000)"))
    stat = Path(f"/proc/{note.read_text()}/stat")
    assert not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] == "Z"


def test_closed_descriptors_threads_and_floods_of_text_do_no_harm() -> None:
    busy = "import os, threading, time\nprint('x' * 10_000_000)\nos.close(1); os.close(2)\n"
    text = busy + "threading.Thread(target=time.sleep, args=(1000,)).start()\n" + MODEL + "return x * 2"
    found = trial.tried(spec(text), targets.load("auto"))
    assert found.signature == ("x",)
    assert found.program is not None


def test_a_reference_that_works_but_cannot_be_traced_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another proposer may write its kernel. One that hangs or crashes while it is traced counts as one that cannot be."""
    branches = spec(MODEL + "return x if x.sum() > 0 else -x")
    assert trial.tried(branches).signature == ("x",)
    with pytest.raises(TraceError, match="cannot be traced"):
        trial.traced(branches)
    monkeypatch.setitem(trial.LIMITS, "trace", 2.0)
    slow = MODEL + "import time\n        time.sleep(torch.compiler.is_compiling() * 1000)\n        return x"
    with pytest.raises(TraceError, match="cannot be traced: it took longer than 2 s"):
        trial.traced(spec(slow))


def test_it_is_tried_once_and_this_process_loads_no_pytorch() -> None:
    """The tracing costs no more than it would here, where PyTorch would have to be loaded for it."""
    code = (
        "import sys\nfrom evaluators import targets, trial\nfrom evaluators.spec import load\n"
        "s = load('layernorm')\nfound = trial.tried(s, targets.load('auto'))\n"
        "trial._apart = None\nassert trial.traced(s) is found.program\nassert 'torch' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_live_module_is_traced_where_it_lives(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from evaluators.spec.from_live import from_module

    monkeypatch.setattr(trial, "_apart", None)
    live = from_module(torch.nn.ReLU(), (torch.randn(3, 4),), state_folder=tmp_path)
    assert trial.traced(live).outputs


def test_the_program_is_that_of_a_trace_here() -> None:
    from evaluators.ir.trace import trace

    layernorm = load("layernorm")
    assert trial.traced(layernorm) == trace(layernorm)
