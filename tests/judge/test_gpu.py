"""The judge on a real GPU: right kernels accepted and timed, wrong ones, TF32 ones and crashing ones rejected."""

from __future__ import annotations

import pytest
import torch

from evaluators.judge import selfcheck

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device on this machine"),
]


def test_every_probe_gets_its_verdict() -> None:
    assert selfcheck.main(["--no-compile"]) == 0


def test_device_blocks_reach_another_process_or_the_judge_knows(tmp_path: object) -> None:
    from evaluators.judge.processes.transport import usable_ipc

    assert usable_ipc(str(tmp_path)) in (True, False)
    assert usable_ipc(str(tmp_path)) is usable_ipc(str(tmp_path))
