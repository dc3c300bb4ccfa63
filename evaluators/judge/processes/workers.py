"""A candidate's worker as the judge sees it: forked from a zygote, asked within time and memory limits, ended whatever its state."""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Sequence
from typing import Any

from evaluators import places
from evaluators.errors import JudgeError
from evaluators.home import home
from evaluators.judge.processes import procfs, replies
from evaluators.judge.processes.channel import Closed, pair
from evaluators.judge.processes.processes import Failed, Server
from evaluators.languages.cpp import LIBRARY_VARIABLE

OUTPUT_LIMIT = 1 << 20
_POLL_S = 0.25
_STOP_S = 2.0


class Worker:
    """A candidate's process, forked from a zygote. Ends with :meth:`close`, whatever state it is in."""

    def __init__(
        self,
        zygote: Server,
        limits: dict[str, Any],
        env: dict[str, str],
        triton_seed: str | None = None,
        library: str | None = None,
    ) -> None:
        zygote.go()  # should a candidate have stopped it
        zygote.ready()
        self.zygote = zygote
        self.limits = limits
        self.folder = tempfile.mkdtemp(prefix="candidate-")
        os.chmod(self.folder, 0o700)
        if triton_seed is not None:
            shutil.copytree(triton_seed, f"{self.folder}/triton")
        self.library = f"{self.folder}/{os.path.basename(library)}" if library else ""
        """Where the worker finds its own copy of the candidate's compiled library."""
        self.channel, theirs = pair(replies.LIMIT, descriptors=False)
        self.output, output_end = os.pipe()
        os.set_blocking(self.output, False)
        self.printed = 0
        self.head = bytearray()
        self.stopped = self.closed = False
        self.still = True
        message = {
            "op": "fork",
            "folder": self.folder,
            "limits": limits,
            "hidden": [places.JUDGE, str(home())],
            "library": library,
            "environment": {
                "TMPDIR": self.folder,
                "HOME": self.folder,
                "TRITON_CACHE_DIR": f"{self.folder}/triton",
                LIBRARY_VARIABLE: self.library,
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
        """Send a request and wait for its reply, which is checked to be of the form that the request asks for.

        Raises :class:`Failed` for the candidate's failures: error replies, death, time, memory, and messages that are no replies.
        """
        self.begin(message, fds)
        return self.finish(message["op"], timeout)

    def begin(self, message: dict[str, Any], fds: Sequence[int] = ()) -> None:
        """Send a request whose reply :meth:`finish` will wait for."""
        if not self.channel.idle() and not self._ended():
            raise Failed("tampering", "the worker sent a message that nobody asked for")
        try:
            self.channel.send(message, fds)
        except Closed:
            raise self._death() from None

    def finish(self, op: str, timeout: float) -> dict[str, Any]:
        """Wait for the reply to the request ``op``; see :meth:`ask`."""
        deadline = time.monotonic() + timeout
        checked = time.monotonic()
        while True:
            try:
                reply = self.channel.take()
                if reply is not None:
                    reply = replies.read(op, reply)
            except Closed:
                raise Failed("tampering", "the worker sent something that is no message") from None
            except replies.Malformed as error:
                raise Failed("tampering", f"the worker's reply to {op!r} is malformed: {error}") from None
            if reply is not None:
                if "refused" in reply:
                    kind = reply["refused"]
                    raise Failed(
                        _status(kind, op), reply["message"], kind in ("exception", "load_error", "compile_error")
                    )
                return reply
            now = time.monotonic()
            if now >= deadline:
                raise Failed("timeout", f"no answer to {op!r} within {timeout:g} s{self._said()}")
            waiting: list[Any] = [self.channel, self.zygote.channel, *([self.output] if self.output >= 0 else [])]
            ready, _, _ = select.select(waiting, [], [], min(_POLL_S, deadline - now))
            if self.channel in ready:
                try:
                    self.channel.read()
                except Closed as error:
                    raise self._death(str(error)) from None
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
        family = procfs.descendants(self.pid)
        if len(family) > self.limits["processes"]:
            raise Failed(
                "crash",
                f"the candidate started {len(family)} processes; at most {self.limits['processes']} are allowed",
            )
        used = procfs.resident_bytes(self.pid) + sum(map(procfs.own_bytes, family))
        if used > self.limits["resident_bytes"]:
            raise Failed(
                "out_of_memory",
                f"the candidate uses {used >> 20} MiB; the limit is {self.limits['resident_bytes'] >> 20} MiB",
            )

    def _ended(self) -> bool:
        """Whether what has arrived on the channel is its end (read here, without losing anything else)."""
        if not select.select([self.channel], [], [], 0)[0]:
            return False  # a message was read together with the reply before it, and nothing came since: reading would wait for ever
        try:
            self.channel.read()
        except Closed:
            return True
        return False

    def _zygote_news(self) -> None:
        try:
            self.zygote.channel.read()
            while (message := self.zygote.channel.take()) is not None:
                self.zygote.note(message)
        except Closed:
            raise Failed(
                "tampering", "the process that workers are forked from was killed from inside the worker"
            ) from None

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

    def _death(self, why: str = "") -> Failed:
        if "nobody asked for" in why:
            return Failed("tampering", f"the worker sent {why}")
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
        """Stop the whole group until :meth:`go`; returns when every thread of the worker stands still."""
        if not self.stopped:
            self._signal(signal.SIGSTOP)
            self.stopped = True
            self.still = procfs.wait_stopped(self.pid, _STOP_S)

    def go(self) -> None:
        """Let a stopped group run."""
        if self.stopped:
            self._signal(signal.SIGCONT)
            self.stopped = False

    def alone(self) -> None:
        """Raise :class:`Failed` where a stopped worker does not stand still, or the candidate has processes beside it: they would run
        while the baseline is timed.

        Whatever their group or session, they are below the zygote, which adopts its descendants' orphans.
        """
        if not self.still:
            raise Failed("tampering", f"a thread of the worker did not stop within {_STOP_S:g} s of being told to")
        others = [p for p in procfs.descendants(self.zygote.pid) - {self.pid} if procfs.alive(p)]
        if others:
            raise Failed(
                "tampering",
                f"the candidate left {len(others)} process(es) running beside its worker, which would disturb the baseline's timing",
            )

    def cpu_ns(self) -> int:
        """Processor time the worker has used, its ended threads and children among it, nanoseconds."""
        return procfs.process_ns(self.pid)

    def _signal(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, number)
            os.kill(self.pid, number)  # should it have left its group

    def close(self) -> None:
        """Kill the group and everything that escaped from it; remove the private folder. Does nothing a second time."""
        if self.closed:
            return
        self.closed = True
        self._signal(signal.SIGKILL)
        self.zygote.go()
        with contextlib.suppress(Closed, JudgeError, Failed):
            deadline = time.monotonic() + 5.0
            while self.pid not in self.zygote.exits and time.monotonic() < deadline:
                if select.select([self.zygote.channel], [], [], 0.05)[0]:
                    self._zygote_news()
            self.zygote.channel.send({"op": "sweep"})
            self.zygote.wait_for("swept", 10.0)
        self.channel.close()
        if self.output >= 0:
            os.close(self.output)
        _remove(self.folder)


def _remove(folder: str) -> None:
    """Remove a folder that a candidate filled, however deep."""
    try:
        shutil.rmtree(folder, ignore_errors=True)
    except RecursionError:
        subprocess.run(["rm", "-rf", "--", folder], capture_output=True, check=False)


def _status(kind: str, op: str) -> str:
    if kind in ("out_of_memory", "compile_error", "load_error"):
        return kind
    return "load_error" if op == "load" else "crash"
