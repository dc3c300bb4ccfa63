"""Which isolation a worker for the CPU gets on this machine: ``python -m evaluators.judge.processes.probe`` prints it in words."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile

from evaluators import places
from evaluators.errors import JudgeError
from evaluators.home import home
from evaluators.judge.processes.isolation import PIDS, READ_ONLY, isolate, separate, start_again_read_only
from evaluators.judge.processes.processes import environment
from evaluators.judge.settings import JudgeSettings


def probe() -> str:
    """What takes effect and what does not, tried in a process isolated as workers are. Raises :class:`JudgeError` where it fails."""
    with tempfile.TemporaryDirectory(prefix="probe-") as folder:
        done = subprocess.run(
            [sys.executable, "-m", "evaluators.judge.processes.probe", str(home())],
            env=environment(folder, 1, {READ_ONLY: tempfile.gettempdir()}),
            cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
    if done.returncode or not done.stdout:
        raise JudgeError(f"no isolated process could be started: {done.stderr.strip()[-300:]}")
    return done.stdout.strip()


def main(data: str) -> None:
    """Become isolated, and print what took effect."""
    start_again_read_only("evaluators.judge.processes.probe")
    spaces = separate()
    if PIDS in spaces and (child := os.fork()):
        sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    message = {
        "folder": os.getcwd(), "limits": JudgeSettings().limits("cpu"), "library": None, "environment": {},
        "hidden": [places.JUDGE, data],
    }  # fmt: skip
    print(isolate(message, spaces))


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else str(home()))
