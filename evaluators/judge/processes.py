"""The judge's processes: starting them, talking to them within a time limit, noticing their death, ending them."""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from evaluators.errors import JudgeError
from evaluators.judge.channel import Closed, pair
from evaluators.judge.isolation import descendants, own_bytes, resident_bytes

OUTPUT_LIMIT = 1 << 20
_POLL_S = 0.25
_START_S = 120.0
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
    """A request to a process came to nothing: ``status`` as in Evaluation, and one message."""

    def __init__(self, status: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


def environment(folder: str, threads: int, extra: dict[str, str] | None = None) -> dict[str, str]:
    """A clean environment. The malloc settings keep freed pages mapped in both timed processes: first touch of fresh pages costs
    more than most kernels."""
    package_root = str(Path(__file__).resolve().parents[2])
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


class Server:
    """A long-lived child interpreter (the oracle, or a zygote) on the other end of a channel."""

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
        self.wait_for("ready", _START_S)

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

    def ask(self, message: dict[str, Any], timeout: float) -> tuple[dict[str, Any], list[int]]:
        """Send a request to the oracle and wait for its reply. Raises :class:`JudgeError` and, for out of memory, :class:`Failed`."""
        try:
            self.channel.send(message)
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
        """Stop the process until :meth:`go`."""
        os.kill(self.pid, signal.SIGSTOP)

    def go(self) -> None:
        """Let a stopped process run."""
        os.kill(self.pid, signal.SIGCONT)

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


class Worker:
    """A candidate's process, forked from a zygote. Ends with :meth:`close`, whatever state it is in."""

    def __init__(
        self, zygote: Server, limits: dict[str, Any], env: dict[str, str], triton_seed: str | None = None
    ) -> None:
        self.zygote = zygote
        self.limits = limits
        self.folder = tempfile.mkdtemp(prefix="candidate-")
        os.chmod(self.folder, 0o700)
        if triton_seed is not None:
            shutil.copytree(triton_seed, f"{self.folder}/triton")
        self.channel, theirs = pair()
        self.output, output_end = os.pipe()
        os.set_blocking(self.output, False)
        self.printed = 0
        self.head = bytearray()
        self.stopped = False
        message = {
            "op": "fork",
            "folder": self.folder,
            "limits": limits,
            "environment": {
                "TMPDIR": self.folder,
                "HOME": self.folder,
                "TRITON_CACHE_DIR": f"{self.folder}/triton",
                **env,
            },
        }
        try:
            zygote.channel.send(message, [theirs.fileno(), output_end])
        except Closed:
            raise JudgeError(f"the zygote died: {zygote.tail()}") from None
        theirs.sock.close()
        os.close(output_end)
        self.pid: int = zygote.wait_for("started", 30.0)["pid"]

    def ask(self, message: dict[str, Any], timeout: float, fds: Sequence[int] = ()) -> dict[str, Any]:
        """Send a request and wait. Raises :class:`Failed` for the candidate's failures: error replies, death, time, memory."""
        try:
            self.channel.send(message, fds)
        except Closed:
            raise self._death() from None
        deadline = time.monotonic() + timeout
        checked = time.monotonic()
        while True:
            try:
                reply = self.channel.take()
            except Closed:
                raise Failed("tampering", "the worker sent something that is no message") from None
            if reply is not None:
                if "refused" in reply:
                    raise Failed(
                        _status(str(reply["refused"]), str(message["op"])), str(reply.get("message", ""))[:4000]
                    )
                return reply
            now = time.monotonic()
            if now >= deadline:
                raise Failed("timeout", f"no answer to {message['op']!r} within {timeout:g} s{self._said()}")
            waiting: list[Any] = [self.channel, self.zygote.channel, *([self.output] if self.output >= 0 else [])]
            ready, _, _ = select.select(waiting, [], [], min(_POLL_S, deadline - now))
            if self.channel in ready:
                try:
                    self.channel.read()
                except Closed:
                    raise self._death() from None
            if self.output in ready:
                self._drain()
            if self.zygote.channel in ready:
                self._zygote_news()
                if self.pid in self.zygote.exits and not select.select([self.channel], [], [], 0)[0]:
                    raise self._death()
            if time.monotonic() - checked > _POLL_S:
                checked = time.monotonic()
                self._watch()

    def _watch(self) -> None:
        family = descendants(self.pid)
        if len(family) > self.limits["processes"]:
            raise Failed(
                "crash",
                f"the candidate started {len(family)} processes; at most {self.limits['processes']} are allowed",
            )
        used = resident_bytes(self.pid) + sum(map(own_bytes, family))
        if used > self.limits["resident_bytes"]:
            raise Failed(
                "out_of_memory",
                f"the candidate uses {used >> 20} MiB; the limit is {self.limits['resident_bytes'] >> 20} MiB",
            )

    def _zygote_news(self) -> None:
        try:
            self.zygote.channel.read()
            while (message := self.zygote.channel.take()) is not None:
                self.zygote.note(message)
        except Closed:
            raise JudgeError(f"the zygote died: {self.zygote.tail()}") from None

    def _drain(self) -> None:
        with contextlib.suppress(BlockingIOError):
            data = os.read(self.output, 1 << 16)
            if not data:
                os.close(self.output)
                self.output = -1
            self.printed += len(data)
            if len(self.head) < OUTPUT_LIMIT:
                self.head += data[: OUTPUT_LIMIT - len(self.head)]

    def _said(self) -> str:
        text = self.head[-600:].decode(errors="replace").strip()
        return f"; last output: {text}" if text else ""

    def _death(self) -> Failed:
        deadline = time.monotonic() + 1.0
        while self.pid not in self.zygote.exits and time.monotonic() < deadline:
            if select.select([self.zygote.channel], [], [], 0.05)[0]:
                self._zygote_news()
        if self.output >= 0:
            self._drain()
        code = self.zygote.exits.get(self.pid)
        if code is None:
            return Failed("crash", "the worker closed its channel" + self._said())
        if code < 0:
            name = signal.Signals(-code).name if -code in set(signal.Signals) else str(-code)
            return Failed("crash", f"the worker was killed by {name}{self._said()}")
        return Failed("crash", f"the worker exited with code {code} before it answered{self._said()}")

    def pause(self) -> None:
        """Stop the whole group until :meth:`go`."""
        self._signal(signal.SIGSTOP)
        self.stopped = True

    def go(self) -> None:
        """Let a stopped group run."""
        if self.stopped:
            self._signal(signal.SIGCONT)
            self.stopped = False

    def _signal(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, number)

    def close(self) -> None:
        """Kill the group and everything that escaped from it; remove the private folder."""
        self._signal(signal.SIGKILL)
        with contextlib.suppress(Closed, JudgeError):
            deadline = time.monotonic() + 5.0
            while self.pid not in self.zygote.exits and time.monotonic() < deadline:
                if select.select([self.zygote.channel], [], [], 0.05)[0]:
                    self._zygote_news()
            self.zygote.channel.send({"op": "sweep"})
            self.zygote.wait_for("swept", 10.0)
        self.channel.close()
        if self.output >= 0:
            os.close(self.output)
        shutil.rmtree(self.folder, ignore_errors=True)


def _status(kind: str, op: str) -> str:
    if kind in ("out_of_memory", "compile_error", "load_error"):
        return kind
    return "load_error" if op == "load" else "crash"
