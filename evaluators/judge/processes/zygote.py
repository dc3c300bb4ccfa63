"""The zygote: a clean interpreter with torch imported, from which each candidate's worker is forked.

It runs no tensor operation (OpenMP threads do not survive a fork) and makes no device context. One per kind of worker. Run as
``python -m evaluators.judge.processes.zygote FD PRELOAD…``.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import select
import signal
import socket
import sys
from typing import Any

from evaluators import places
from evaluators.judge.processes.channel import Channel, Closed
from evaluators.judge.processes.isolation import (
    PIDS,
    adopt_orphans,
    die_with_parent,
    isolate,
    separate,
    start_again_read_only,
)
from evaluators.judge.processes.procfs import descendants

_INTERPRETED = tuple(f"evaluators.languages.triton_{name}" for name in ("ahead", "bounds", "interpreter"))
"""What a worker imports for Triton candidates: it cannot read the judge's text any more when it needs them."""


def main(fd: int, preload: list[str]) -> None:
    """Serve fork and kill requests until the judge closes its end."""
    die_with_parent()
    adopt_orphans()
    for name in (*preload, *(_INTERPRETED if "triton" in preload else ())):
        importlib.import_module(name)
    worker = importlib.import_module("evaluators.judge.worker.worker")
    # Workers collect garbage before each run; what was imported here is none, and walking it would copy every page of it in each of them.
    gc.collect()
    gc.freeze()
    channel = Channel(socket.socket(fileno=fd))
    wake_r, wake_w = os.pipe()
    for end in (wake_r, wake_w):
        os.set_blocking(end, False)
    signal.set_wakeup_fd(wake_w)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    live: set[int] = set()
    channel.send({"op": "ready"})
    while True:
        waiting: list[Any] = [channel, wake_r]
        ready, _, _ = select.select(waiting, [], [])
        if wake_r in ready:
            with contextlib.suppress(BlockingIOError):
                os.read(wake_r, 4096)
            _reap(channel, live)
        if channel in ready:
            try:
                channel.read()
                while (message := channel.take()) is not None:
                    if message["op"] == "fork":
                        _fork(channel, worker, message, live, (wake_r, wake_w))
                    elif message["op"] == "sweep":
                        _sweep(live)
                        channel.send({"op": "swept"})
            except Closed:
                break
    for pid in list(live):
        _kill_group(pid)
    _sweep(set())


def _fork(channel: Channel, worker: Any, message: dict[str, Any], live: set[int], wake: tuple[int, int]) -> None:
    """Start a worker. Where namespaces are asked for, a process in between makes them and ends: only its child can be the first of a
    PID namespace. The worker waits until it has this process as its parent."""
    sock, output = channel.take_fds()
    news, tell = os.pipe()
    wait, ready = os.pipe()
    if message["limits"].get("files"):
        places.for_worker(tuple(message["hidden"]))  # found once, here
    pid = os.fork()
    if pid:
        for fd in (sock, output, tell, wait):
            os.close(fd)
        found = json.loads(_read_all(news) or b"{}")
        if "pid" in found:
            os.waitpid(pid, 0)
            pid = found["pid"]
        os.write(ready, b".")
        os.close(ready)
        live.add(pid)
        channel.send({"op": "started", "pid": pid})
        return
    status = 70
    try:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for fd in (*wake, news, ready):
            os.close(fd)
        channel.sock.close()
        spaces = separate() if message["limits"].get("namespaces") else []
        if PIDS in spaces:
            child = os.fork()
            if child:
                os.write(tell, json.dumps({"pid": child}).encode())
                os._exit(0)
        os.close(tell)
        os.read(wait, 1)
        os.close(wait)
        status = _become_worker(worker, message, sock, output, spaces)
    finally:
        os._exit(status)


def _become_worker(worker: Any, message: dict[str, Any], sock: int, output: int, spaces: list[str]) -> int:
    os.setsid()
    null = os.open(os.devnull, os.O_RDONLY)
    for source, place in ((null, 0), (output, 1), (output, 2)):
        os.dup2(source, place)
    os.close(null)
    os.close(output)
    applied = isolate(message, spaces)
    worker.serve(Channel(socket.socket(fileno=sock)), applied)
    return 0


def _read_all(fd: int) -> bytes:
    """What arrives on a pipe until all its writers are gone."""
    found = b""
    while part := os.read(fd, 4096):
        found += part
    os.close(fd)
    return found


def _reap(channel: Channel, live: set[int]) -> None:
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        if os.WIFSTOPPED(status):  # a worker that asked to be traced by its parent; only its end is of use
            _kill_group(pid)
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            continue
        if pid in live:
            live.discard(pid)
            channel.send({"op": "exit", "pid": pid, "code": os.waitstatus_to_exitcode(status)})


def _sweep(live: set[int]) -> None:
    """Kill every descendant that is no live worker or below one: what escaped its group."""
    for _ in range(20):
        kept = set(live)
        for pid in live:
            kept |= descendants(pid)
        strays = descendants(os.getpid()) - kept
        if not strays:
            return
        for pid in strays:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass


def _kill_group(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


if __name__ == "__main__":
    start_again_read_only("evaluators.judge.processes.zygote")
    main(int(sys.argv[1]), sys.argv[2:])
