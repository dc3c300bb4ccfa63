"""A reference that does not work is a wrong spec: one line that says which part fails, exit code 2, and nothing is searched or recorded."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from agent.cli import exits
from tests.cli.conftest import Command

INPUTS = "inputs: {x: [8, 8]}\nreference: |\n"
SPECS = {
    "inputs": ("inputs: {x: [1000000, 10000000]}\nreference: |\n  def reference(x): return x\n", "inputs.x: normal of shape"),
    "constructor": (
        INPUTS + "  class Model(nn.Module):\n      def __init__(self): raise RuntimeError('no\\nweights')\n"
        "      def forward(self, x): return x\n",
        "Model: RuntimeError: no weights",
    ),
    "forward": (INPUTS + "  def reference(x): return x @ torch.ones(3)\n", "calling forward: line 6: RuntimeError"),
    "exit": (INPUTS + "  import sys\n  def reference(x): sys.exit(0)\n", "calling forward: line 7: SystemExit: 0"),
    "death": (INPUTS + "  import os\n  os._exit(0)\n  def reference(x): return x\n", "ended its process (exit code 0)"),
}  # fmt: skip


@pytest.mark.parametrize("part", SPECS)
def test_optimize_says_which_part_fails_before_anything_is_recorded(
    command: Command, tmp_path: Path, home: Path, part: str
) -> None:
    text, says = SPECS[part]
    file = tmp_path / "spec.yaml"
    file.write_text(text)
    shown = command("optimize", file, "--target", "auto", "-q")
    assert says in shown.error
    assert str(file) in shown.error
    assert shown.code == exits.USAGE
    assert command("list").out.count("spec-") == 0, "no run was recorded"


def test_judge_does_not_blame_the_candidate(command: Command, tmp_path: Path) -> None:
    file = tmp_path / "spec.yaml"
    file.write_text(SPECS["forward"][0])
    kernel = tmp_path / "kernel.py"
    kernel.write_text(
        'import torch\nSOURCES = {"kernel.cpp": \'extern "C" void f() {}\'}\n\n\n'
        "class ModelNew(torch.nn.Module):\n    def forward(self, x):\n        _native().f()\n        return x\n"
    )
    shown = command("judge", kernel, "--reference", file)
    assert "calling forward: line 6" in shown.error
    assert shown.code == exits.USAGE


def test_a_termination_while_the_reference_is_tried_out_leaves_nothing_behind(home: Path, tmp_path: Path) -> None:
    """Neither folders nor processes: the judge's have been started by then."""
    slow, temporary = tmp_path / "slow.yaml", tmp_path / "temporary"
    slow.write_text(INPUTS + "  import time\n  time.sleep(600)\n  def reference(x): return x\n")
    temporary.mkdir()
    run = subprocess.Popen(
        [sys.executable, "-m", "agent.cli", "optimize", str(slow), "--target", "cpu-x86-64"],
        env={**os.environ, "TMPDIR": str(temporary)}, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    while len({p.name.partition("-")[0] for p in temporary.iterdir()} & {"trial", "zygote", "reference"}) < 3:
        assert run.poll() is None
        time.sleep(0.05)
    run.terminate()
    assert run.communicate(timeout=60)[1].endswith("error: interrupted; nothing was recorded yet\n")
    assert run.returncode == exits.INTERRUPTED
    assert not [p.name for p in temporary.iterdir() if p.is_dir()]
