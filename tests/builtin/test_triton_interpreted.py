"""The Triton emitter's numerics: its checks run in one process with Triton's interpreter, which must be chosen before import."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent


@pytest.mark.slow
@pytest.mark.parametrize("checks", ["check_triton_families.py", "check_triton_programs.py"])
def test_checks_pass_under_the_interpreter(checks: str) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", str(HERE / "interpreted" / checks)]
    environment = {**os.environ, "TRITON_INTERPRET": "1", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, env=environment, cwd=HERE.parents[1], capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stdout[-6000:]
