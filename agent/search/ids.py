"""Ids and seeds, derived from (run, step, draw): work that runs again after a crash names and seeds the same candidates."""

from __future__ import annotations

import hashlib
import re
import secrets


def new_run_id(spec_name: str) -> str:
    """A fresh run id that starts with the spec's name, such as ``layernorm-3f2a9c1b``."""
    name = re.sub(r"[^a-z0-9]+", "-", spec_name.lower()).strip("-")[:40].strip("-") or "run"
    return f"{name}-{secrets.token_hex(4)}"


def candidate_id(run_id: str, step: int, draw: int) -> str:
    """``RUN.STEP.DRAW``."""
    return f"{run_id}.{step}.{draw}"


def seed_of(seed: int, step: int, draw: int) -> int:
    """Random seed of one share, below 2**31, the same for every run with the same settings."""
    return int.from_bytes(hashlib.sha256(f"{seed}.{step}.{draw}".encode()).digest()[:4]) >> 1
