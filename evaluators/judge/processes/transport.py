"""Which memory carries tensors between processes on a GPU: device IPC where it works, else host memory.

Some containers and sandboxed kernels have a GPU but no working IPC, so it is probed with two real processes: this module, run as a
program, exports a block and has a second copy of itself write to it.
"""

from __future__ import annotations

import functools
import os
import subprocess
import sys
import tempfile
from pathlib import Path

_BYTES = 1024


@functools.cache
def usable_ipc(cache: str) -> bool:
    """Whether a device block exported by one process can be read and written by another.

    Probed once per machine start: the answer is kept in the folder ``cache``.
    """
    boot = Path("/proc/sys/kernel/random/boot_id")
    file = Path(cache) / f"ipc-{boot.read_text().strip() if boot.exists() else os.getpid()}"
    if file.exists():
        return file.read_text() == "works"
    found = _probe()
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("works" if found else "fails")
    return found


def _probe() -> bool:
    from evaluators.judge.processes.processes import environment

    with tempfile.TemporaryDirectory(prefix="probe-") as folder:
        command = [sys.executable, "-m", "evaluators.judge.processes.transport", "export"]
        try:
            done = subprocess.run(
                command,
                env=environment(folder, 1),
                cwd=folder,
                capture_output=True,
                text=True,
                timeout=120,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return False
    return done.returncode == 0 and "works" in done.stdout


def _export() -> None:
    import torch

    from evaluators.judge.memory import wire_cuda

    block, handle = wire_cuda.allocate(_BYTES)
    block.fill_(7)
    torch.cuda.synchronize()
    subprocess.run([sys.executable, "-m", "evaluators.judge.processes.transport", handle], check=True, timeout=60)
    if int(block.sum()) == 9 * _BYTES:
        print("works")


def _attach(handle: str) -> None:
    import torch

    from evaluators.judge.memory import wire_cuda

    block = wire_cuda.attach(handle, _BYTES)
    if int(block.sum()) != 7 * _BYTES:
        raise SystemExit("the block's content did not arrive")
    block.fill_(9)
    torch.cuda.synchronize()


if __name__ == "__main__":
    _export() if sys.argv[1] == "export" else _attach(sys.argv[1])
