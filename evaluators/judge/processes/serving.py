"""What the reference's processes have in common: they answer the judge's requests one by one until it closes its end."""

from __future__ import annotations

import socket
import traceback
from collections.abc import Callable
from typing import Any

import torch

from evaluators.errors import EvaluatorError, JudgeError
from evaluators.judge.processes.channel import Channel, Closed
from evaluators.judge.processes.isolation import die_with_parent

Answer = Callable[[dict[str, Any], list[int]], tuple[dict[str, Any], list[int]]]
"""From a request and the descriptors that came with it to the reply and the descriptors that go with that."""


def serve(fd: int, answer: Answer) -> None:
    """Serve the judge at the other end of the socket ``fd``; what ``answer`` raises becomes a reply that refuses."""
    die_with_parent()
    channel = Channel(socket.socket(fileno=fd))
    channel.send({"op": "ready"})
    while True:
        try:
            message = channel.receive()
        except Closed:
            return
        fds: list[int] = []
        try:
            reply, fds = answer(message, channel.take_fds())
        except (JudgeError, EvaluatorError) as error:
            reply = {"refused": "infrastructure", "message": str(error)}
        except torch.OutOfMemoryError as error:
            reply = {
                "refused": "out_of_memory",
                "message": f"the reference's process is out of device memory: {str(error)[:300]}",
            }
        except Exception as error:
            tail = traceback.format_exc().splitlines()[-6:]
            reply = {"refused": "infrastructure", "message": f"{type(error).__name__}: {error}\n" + "\n".join(tail)}
        channel.send(reply, fds)
