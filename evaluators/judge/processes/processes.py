"""The judge's own long-lived processes, the oracle and the zygotes: starting them, talking to them within a time limit, ending them."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from evaluators.errors import JudgeError
from evaluators.judge.processes import procfs
from evaluators.judge.processes.channel import Closed, pair

_START_S = 120.0
PINNED = {"OMP_PROC_BIND": "close", "OMP_PLACES": "cores"}
"""Environment that puts OpenMP's threads on a core each: two that share one for a batch would make it look slow."""
_KEPT = (
    "PATH",
    "LD_LIBRARY_PATH",
    "LANG",
    "LC_ALL",
    "CUDA_HOME",
    "CUDA_PATH",
    "CUDA_VISIBLE_DEVICES",
    "HIP_VISIBLE_DEVICES",
    "CC",
    "CXX",
    "CPATH",
    "LIBRARY_PATH",
    "VIRTUAL_ENV",
)


class Failed(Exception):
    """A request to a process came to nothing: ``status`` as in Evaluation, and one message. ``raised`` where the candidate's own code
    raised an error, and the process lives on."""

    def __init__(self, status: str, message: str, raised: bool = False) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.raised = raised


def environment(folder: str, threads: int, extra: dict[str, str] | None = None) -> dict[str, str]:
    """A clean environment. The malloc settings keep freed pages mapped in both timed processes: first touch of fresh pages costs
    more than most kernels."""
    package_root = str(Path(__file__).resolve().parents[3])
    kept = {k: os.environ[k] for k in _KEPT if k in os.environ}
    nvidia = {k: v for k, v in os.environ.items() if k.startswith(("NVIDIA_", "TRITON_LIBCUDA", "TRITON_PTXAS"))}
    return {
        **kept,
        **nvidia,
        "PYTHONPATH": os.pathsep.join([package_root, *[p for p in sys.path if p and p != package_root]]),
        "PYTHONDONTWRITEBYTECODE": "1",
        "HOME": folder,
        "TMPDIR": folder,
        "OMP_NUM_THREADS": str(threads),
        "MKL_NUM_THREADS": str(threads),
        "MALLOC_MMAP_MAX_": "0",
        "MALLOC_TRIM_THRESHOLD_": "100000000000",
        "MALLOC_TOP_PAD_": "1000000000",
        **(extra or {}),
    }


def unpin(pid: int, processors: set[int]) -> None:
    """Let the main thread of a process with :data:`PINNED` threads run on all ``processors`` again: threads that it starts inherit them."""
    with contextlib.suppress(ProcessLookupError):
        os.sched_setaffinity(pid, processors)


class Server:
    """A long-lived child interpreter (the oracle, or a zygote) on the other end of a channel.

    Construction only starts it: what it imports takes seconds, in which others can start too. Every request waits for it first.
    """

    def __init__(self, module: str, arguments: Sequence[str], env: dict[str, str], folder: str) -> None:
        self.channel, theirs = pair()
        fd = theirs.fileno()
        self.log = open(Path(folder) / f"{module.rpartition('.')[2]}.log", "w+b")  # noqa: SIM115
        self.process = subprocess.Popen(
            [sys.executable, "-m", module, str(fd), *arguments],
            pass_fds=[fd], env=env, cwd=folder, stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log, start_new_session=True,
        )  # fmt: skip
        theirs.sock.close()
        self.module = module
        self.pid = self.process.pid
        self.exits: dict[int, int] = {}
        self.started = self.stopped = False

    def ready(self) -> None:
        """Wait until it has imported what it needs. Raises :class:`JudgeError` where it dies at that."""
        if not self.started:
            self.wait_for("ready", _START_S)
            self.started = True

    def wait_for(self, op: str, timeout: float) -> dict[str, Any]:
        """The next message of kind ``op``; worker exits that arrive meanwhile are noted."""
        deadline = time.monotonic() + timeout
        while True:
            try:
                message = self.channel.receive(max(deadline - time.monotonic(), 0.01))
            except (Closed, TimeoutError) as error:
                raise JudgeError(
                    f"{self.module} {'died' if isinstance(error, Closed) else 'does not answer'}: {self.tail()}"
                ) from None
            if message["op"] == op:
                return message
            self.note(message)

    def note(self, message: dict[str, Any]) -> None:
        """Remember a worker's exit."""
        if message["op"] == "exit":
            self.exits[message["pid"]] = message["code"]

    def ask(self, message: dict[str, Any], timeout: float, fds: Sequence[int] = ()) -> tuple[dict[str, Any], list[int]]:
        """Send a request to one of the reference's processes and wait for its reply.

        Raises :class:`JudgeError` and, for out of memory, :class:`Failed`.
        """
        self.ready()
        try:
            self.channel.send(message, fds)
            reply = self.channel.receive(timeout)
        except Closed:
            raise JudgeError(f"the reference's process died during {message['op']!r}: {self.tail()}") from None
        except TimeoutError:
            raise JudgeError(f"the reference did not finish {message['op']!r} within {timeout:g} s") from None
        if "refused" in reply:
            raise JudgeError(str(reply["message"]))
        return reply, self.channel.take_fds()

    def tail(self) -> str:
        """The last lines the process printed."""
        self.log.flush()
        size = self.log.seek(0, os.SEEK_END)
        self.log.seek(max(0, size - 1500))
        return self.log.read().decode(errors="replace").strip()[-1500:]

    def pause(self) -> None:
        """Stop the process until :meth:`go`; returns when it stands still."""
        if not self.stopped:
            os.kill(self.pid, signal.SIGSTOP)
            procfs.wait_stopped(self.pid)
            self.stopped = True

    def go(self) -> None:
        """Let a stopped process run, whoever stopped it."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGCONT)
        self.stopped = False

    @property
    def alive(self) -> bool:
        """Whether the process still runs."""
        return self.process.poll() is None

    def close(self) -> None:
        """End the process and its group."""
        self.channel.close()
        for name in (signal.SIGCONT, signal.SIGTERM):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, name)
        try:
            self.process.wait(2.0)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)
            self.process.wait()
        self.log.close()
