"""The Triton emitter's numerics and compiled resources.

Triton's interpreter must be chosen before import and compiling for an absent GPU replaces Triton's driver, so each group of checks runs in
a process of its own.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent


@pytest.mark.slow
@pytest.mark.parametrize(
    ("checks", "interpret"),
    [
        ("interpreted/check_triton_families.py", True),
        ("interpreted/check_triton_programs.py", True),
        ("ahead/check_triton_compiles.py", False),
    ],
)
def test_checks_pass(checks: str, interpret: bool) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", str(HERE / checks)]
    environment = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"} | {"OMP_NUM_THREADS": "1"}
    environment |= {"TRITON_INTERPRET": "1"} if interpret else {}
    done = subprocess.run(
        command, check=False, env=environment, cwd=HERE.parents[1], capture_output=True, text=True, timeout=280
    )
    assert done.returncode == 0, done.stdout[-6000:]
