"""The lint's child process: reference code runs here, within limits, and never in the caller.

Run as ``python -m evaluators.lint.child FD``.
"""

from __future__ import annotations

import contextlib
import socket
import sys
import traceback
import warnings

from evaluators.judge.processes.channel import Channel, Closed
from evaluators.judge.processes.isolation import confine, die_with_parent
from evaluators.lint.checks import Asked, examine_all
from evaluators.spec.kernel_spec import KernelSpec


def serve(channel: Channel) -> None:
    """Take one request, answer with findings as they come."""
    die_with_parent()
    request = channel.receive()
    import torch

    torch.set_num_threads(int(request["threads"]))
    warnings.simplefilter("ignore")
    confine({"memory_bytes": request["memory_limit"], "namespaces": request["namespaces"]})
    asked = Asked(
        KernelSpec.from_json(request["spec"]),
        request["device"],
        request["device_memory"],
        request["seconds"],
        request["run_s"],
        request["repair"],
    )
    with contextlib.suppress(Closed):
        try:
            examine_all(asked, channel.send)
            channel.send({"done": True})
        except MemoryError:
            channel.send({"failed": "out of memory"})
        except Exception as error:
            place = traceback.extract_tb(error.__traceback__)[-1]
            text = " ".join(str(error).split())[:300]
            channel.send({"failed": f"{type(error).__name__}: {text} ({place.name})"})


if __name__ == "__main__":
    serve(Channel(socket.socket(fileno=int(sys.argv[1]))))
