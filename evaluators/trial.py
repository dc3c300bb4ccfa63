"""Trying a reference out in a process of its own, before anything relies on it: it is somebody's code, and may exit, crash or hang.

Everything this process needs to know of a reference comes from here: its forward's argument names and its traced program. A reference
that cannot be used is a SpecError that says which of its parts fails.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from evaluators.errors import SpecError, TraceError
from evaluators.ir import plain
from evaluators.ir.kernel import Program
from evaluators.judge.processes.channel import Channel, Closed, pair
from evaluators.judge.processes.processes import environment
from evaluators.spec.kernel_spec import KernelSpec
from evaluators.target import Target

LIMITS = {"start": 120.0, "import": 120.0, "constructor": 180.0, "inputs": 180.0, "forward": 300.0, "trace": 180.0}
"""Seconds for each stage."""
LARGEST = 256 << 20
"""Bytes of a message: programs with thousands of kernels take a tenth of it."""
_KEPT = 2000
_POLL_S = 0.25


@dataclass(frozen=True)
class Trial:
    """What is known of a reference. ``program`` is None where it cannot be traced, and ``untraced`` then says why."""

    signature: tuple[str, ...]
    program: Program | None
    untraced: str = ""


_trials: dict[tuple[str, str], Trial] = {}


def tried(spec: KernelSpec, target: Target | None = None) -> Trial:
    """Import the reference, build its model and inputs, run forward once and trace it; done once per spec and device in a process.

    It runs on the target's device where this machine has it, else on shapes alone, as without a target. Raises SpecError naming the
    part that fails (import, constructor, inputs, forward) and why.
    """
    device = target.device if target is not None and target.present else "meta"
    known = [_trials[k] for k in ((spec.digest, device), *(k for k in _trials if k[0] == spec.digest)) if k in _trials]
    if known and (target is None or (spec.digest, device) in _trials):
        return known[0]
    found = _here(spec) if spec.source == "live" else _apart(spec, device)
    _trials[spec.digest, device] = found
    return found


def traced(spec: KernelSpec) -> Program:
    """The reference's program. Raises TraceError where it cannot be traced, SpecError where it does not work at all."""
    found = tried(spec)
    if found.program is None:
        raise TraceError(found.untraced)
    return found.program


def signature(spec: KernelSpec) -> tuple[str, ...]:
    """Names of the arguments that forward is called with. Raises SpecError where the reference does not work."""
    return tried(spec).signature


def _here(spec: KernelSpec) -> Trial:
    """A live module has run here already, and what stands for it is generated text."""
    from evaluators.ir.trace import trace
    from evaluators.spec import model

    try:
        return Trial(model.signature(spec), trace(spec))
    except TraceError as error:
        return Trial(model.signature(spec), None, str(error))


def _apart(spec: KernelSpec, device: str) -> Trial:
    threads = str(len(os.sched_getaffinity(0)))
    with tempfile.TemporaryDirectory(prefix="trial-") as folder, _process(folder, int(threads)) as child:
        with contextlib.suppress(Closed):
            child.channel.send({"spec": spec.to_json(), "device": device, "threads": threads})
        return child.follow(spec, device)


@contextlib.contextmanager
def _process(folder: str, threads: int) -> Iterator[_Child]:
    ours, theirs = pair(LARGEST, descriptors=False)
    output, output_end = os.pipe()
    os.set_blocking(output, False)
    fd = theirs.fileno()
    process = subprocess.Popen(
        [sys.executable, "-m", "evaluators.trial_process", str(fd)],
        pass_fds=[fd], env=environment(folder, threads), cwd=folder, stdin=subprocess.DEVNULL,
        stdout=output_end, stderr=output_end, start_new_session=True,
    )  # fmt: skip
    theirs.close()
    os.close(output_end)
    try:
        yield _Child(process, ours, output)
    finally:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        ours.close()
        os.close(output)


@dataclass
class _Child:
    process: subprocess.Popen[bytes]
    channel: Channel
    output: int
    said: bytearray = field(default_factory=bytearray)
    stage: str = "start"
    signature: tuple[str, ...] = ()

    def follow(self, spec: KernelSpec, device: str) -> Trial:
        """Wait for what comes of the trial, each stage within its limit."""
        where = f"{spec.origin or spec.name}: reference"
        deadline = time.monotonic() + LIMITS[self.stage]
        while True:
            message = self._next(deadline)
            if message is None:
                what = self._ending(deadline)
                if self.stage == "trace":  # it works, which is all that other proposers need
                    return Trial(self.signature, None, f"{spec.name}: the reference cannot be traced: it {what}")
                raise SpecError(f"{where}: {_PLACES[self.stage]}: {what}{self._tail()}")
            if "refused" in message:
                raise SpecError(str(message["refused"]))
            if "stage" in message and message["stage"] in LIMITS:
                self.stage = message["stage"]
                self.signature = tuple(map(str, message.get("signature", ())))
                deadline = time.monotonic() + LIMITS[self.stage]
                continue
            try:
                program = message["program"]
                return Trial(self.signature, program and plain.from_plain(program), str(message["untraced"]))
            except (KeyError, ValueError, TypeError, IndexError, AttributeError) as error:
                raise SpecError(f"{where}: its process sent something that is no result ({error!r})") from error

    def _next(self, deadline: float) -> dict[str, Any] | None:
        """The next message; None where the process has ended, or the time is over."""
        while True:
            try:
                message = self.channel.take()
                if message is not None:
                    return message
                ended = self.process.poll() is not None
                wait = 0.0 if ended else min(_POLL_S, max(deadline - time.monotonic(), 0.0))
                waiting: list[Any] = [self.channel, self.output]
                ready, _, _ = select.select(waiting, [], [], wait)
                if self.output in ready:
                    self._drain()
                if self.channel in ready:
                    self.channel.read()
                elif ended or time.monotonic() >= deadline:
                    return None
            except Closed:
                return None

    def _drain(self) -> None:
        with contextlib.suppress(BlockingIOError):
            self.said += os.read(self.output, 1 << 16)
            del self.said[:-_KEPT]

    def _ending(self, deadline: float) -> str:
        """What became of the process, in words."""
        left = max(0.0, min(1.0, deadline - time.monotonic()))
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(left)
        code = self.process.returncode
        if code is None:
            if time.monotonic() < deadline:
                return "closed the descriptors of its process"
            return f"took longer than {LIMITS[self.stage]:g} s"
        if code < 0:
            name = signal.Signals(-code).name if -code in set(signal.Signals) else str(-code)
            why = ", which is how Linux ends a process when memory runs out" if -code == signal.SIGKILL else ""
            return f"crashed ({name}{why})"
        return f"ended its process (exit code {code})"

    def _tail(self) -> str:
        self._drain()
        lines = self.said.decode(errors="replace").strip().splitlines()
        return f"; last output: {lines[-1].strip()[:200]}" if lines else ""


_PLACES = {
    "start": "the process to try it out in",
    "import": "running its code",
    "constructor": "building Model",
    "inputs": "making the inputs",
    "forward": "calling forward",
}
