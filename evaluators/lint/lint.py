"""The lint of one spec: reference code runs in a child process with bounds on time and memory, and the caller gets a report."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from evaluators.judge.processes.channel import Channel, Closed, pair
from evaluators.judge.processes.processes import environment
from evaluators.lint.checks import RUN_S
from evaluators.lint.finding import Finding, LintReport, RepairState
from evaluators.spec.kernel_spec import KernelSpec
from evaluators.target import Target

GRACE_S = 30.0
"""Importing PyTorch is not the reference's time; and a check under way when time runs out is given a little more."""


@dataclass(frozen=True)
class LintSettings:
    """Bounds of one examination: seconds of wall time, bytes of memory, threads; ``run_s`` seconds of one run of the reference above
    which smaller sizes are used (0: never); whether a repaired spec is searched."""

    seconds: float = 60.0
    memory_bytes: int = 4 << 30
    threads: int = 1
    run_s: float = RUN_S
    repair: bool = True
    forked: bool = False
    """Fork this process in place of starting an interpreter: for many specs in a row, from a process with one thread."""


def lint(
    spec: KernelSpec,
    target: Target | None = None,
    settings: LintSettings | None = None,
    on_phase: Callable[[str], None] = lambda name: None,
) -> LintReport:
    """Examine ``spec``, for the memory of ``target`` where one is given.

    Never raises for what the reference does: a reference that fails, hangs, or wants too much memory is a finding.
    """
    settings = settings or LintSettings()
    begin = time.monotonic()
    heard = _Heard(on_phase)
    with tempfile.TemporaryDirectory(prefix="lint-") as folder:
        ended = _run(spec, target, settings, folder, heard)
    if ended:
        heard.findings.append(_interrupted(heard, ended))
    return LintReport(
        spec.name,
        spec.digest,
        tuple(heard.findings),
        heard.repair,
        heard.repaired,
        tuple(heard.changes),
        tuple(heard.remaining),
        heard.sizes,
        time.monotonic() - begin,
    )


class _Heard:
    """What the child has said so far."""

    def __init__(self, on_phase: Callable[[str], None]) -> None:
        self.on_phase = on_phase
        self.phase = "start"
        self.findings: list[Finding] = []
        self.repair: RepairState = "not tried"
        self.repaired: KernelSpec | None = None
        self.changes: list[str] = []
        self.remaining: list[Finding] = []
        self.sizes: dict[str, Any] = {}

    def take(self, message: dict[str, Any]) -> None:
        """Note one message."""
        if "phase" in message:
            self.phase = str(message["phase"])
            self.on_phase(self.phase)
        elif "finding" in message:
            self.findings.append(Finding(**message["finding"]))
        elif "sizes" in message:
            self.sizes = dict(message["sizes"])
        elif "unused" in message:
            where = message["unused"]
            self.findings = [_unused(f) if f.kind == "input_ignored" and f.where in where else f for f in self.findings]
        elif "repair" in message:
            self.repair = message["repair"]
            if "spec" in message:
                self.repaired = KernelSpec.from_json(message["spec"])
                self.changes = list(message["changes"])
                self.remaining = [Finding(**f) for f in message["remaining"]]


def _run(spec: KernelSpec, target: Target | None, settings: LintSettings, folder: str, heard: _Heard) -> str:
    """Run the child to its end; empty, or why it did not come to its end."""
    channel, theirs = pair(descriptors=False)
    start = _forked if settings.forked else _spawned
    process = start(theirs, folder, settings.threads)
    try:
        channel.send(
            {
                "spec": spec.to_json(),
                "device": target.name if target else "",
                "device_memory": target.memory_bytes if target else 0,
                "seconds": settings.seconds,
                "run_s": settings.run_s,
                "repair": settings.repair,
                "threads": settings.threads,
                "memory_limit": settings.memory_bytes,
                "namespaces": True,
            }
        )
        ended = _listen(channel, settings, heard)
    except Closed:
        _wait_for_end(process.pid)
        ended = None
    finally:
        channel.close()
        # Before it is reaped: until then its number, and that of its group, is no one else's.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        code = process.wait()
    if ended is not None:
        return ended
    return f"its process was ended by signal {-code}" if code < 0 else f"its process ended with code {code}"


def _wait_for_end(pid: int) -> None:
    """Give a process that closed its channel a moment to end by itself, without reaping it."""
    until = time.monotonic() + 2.0
    while time.monotonic() < until:
        if os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is not None:
            return
        time.sleep(0.02)


def _spawned(theirs: Channel, folder: str, threads: int) -> _Process:
    """A fresh interpreter at the other end of the channel."""
    env = environment(folder, threads)
    env.pop("MALLOC_TOP_PAD_")  # memory is bounded here, and nothing timed
    fd = theirs.fileno()
    with open(os.path.join(folder, "log"), "wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "evaluators.lint.child", str(fd)],
            pass_fds=[fd], env=env, cwd=folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
        )  # fmt: skip
    theirs.sock.close()
    return process


class _Fork:
    """A forked child: what is used of ``subprocess.Popen``."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.code: int | None = None

    def wait(self) -> int:
        if self.code is None:
            self.code = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return self.code


_Process = subprocess.Popen[bytes] | _Fork


def _forked(theirs: Channel, folder: str, threads: int) -> _Process:
    """This process forked: PyTorch is imported once for many specs."""
    from evaluators.lint.child import serve

    pid = os.fork()
    if pid:
        theirs.sock.close()
        return _Fork(pid)
    try:
        os.setsid()
        os.chdir(folder)
        nowhere = os.open(os.devnull, os.O_RDWR)
        for fd in (0, 1, 2):
            os.dup2(nowhere, fd)
        serve(theirs)
    finally:
        os._exit(0)


def _listen(channel: Channel, settings: LintSettings, heard: _Heard) -> str:
    """Take messages until the child is done: empty, or why it stopped before. Raises Closed where it just ends."""
    deadline = time.monotonic() + 1.5 * settings.seconds + GRACE_S
    while True:
        try:
            message = channel.receive(max(deadline - time.monotonic(), 0.01))
        except TimeoutError:
            return f"not within {settings.seconds:g} s"
        if "done" in message:
            return ""
        if "failed" in message:
            return str(message["failed"])
        try:
            heard.take(message)
        except (KeyError, TypeError, ValueError, AttributeError):
            return "its process sent something that is no finding"


def _unused(finding: Finding) -> Finding:
    """An ignored input that mattered on no other data either."""
    return replace(
        finding,
        kind="input_unused",
        severity="warning",
        message="other values in its place change nothing, and did not on any other inputs and parameters tried",
        advice="remove it, or look for the mistake that makes the reference ignore it",
    )


def _interrupted(heard: _Heard, why: str) -> Finding:
    """The finding for an examination that was cut short: the reference's fault only where it never ran to its end."""
    ran = heard.phase not in ("start", "sizes", "running the reference")
    return Finding(
        "unfinished" if ran else "reference_fails",
        "warning" if ran else "error",
        heard.phase,
        f"the checks from '{heard.phase}' on did not finish: {why}",
        "give more time (--seconds) or memory (--memory), or make the problem smaller",
        {"phase": heard.phase, "why": why},
    )
