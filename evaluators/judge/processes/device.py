"""How a process that computes is set up: alike in the oracle's, the baseline's and the candidate's."""

from __future__ import annotations

import torch


def set_up(device: str, threads: int, precision: str) -> torch.device:
    """Use ``threads`` threads, start CUDA where it is the device, and leave TF32 out of convolutions where precision is ``ieee``."""
    found = torch.device(device)
    torch.set_num_threads(threads)
    if found.type == "cuda":
        torch.cuda.init()
    if precision == "ieee":
        torch.backends.cudnn.allow_tf32 = False
    return found
