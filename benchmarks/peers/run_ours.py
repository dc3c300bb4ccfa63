"""One candidate through this project's judge: ``run_ours.py TARGET CANDIDATE RESULT LOCK``.

``judge_file`` with its usual settings, but with PyTorch eager as the only baseline, which the other evaluators time against too. For a
GPU that is not here: compiled for it and interpreted, not timed.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from entry import alone, brief, finish, read


def main(target: str, candidate: str, result: str, lock: str) -> None:
    """Entry point."""
    from evaluators import targets
    from evaluators.judge.alone import judge_file
    from evaluators.judge.settings import JudgeSettings

    entry = read(Path(candidate))
    here = targets.load(target).present
    with alone(lock):
        found = judge_file(
            entry.path,
            str(entry.problem),
            target,
            dtype=None if entry.dtype == "float32" else entry.dtype,
            settings=JudgeSettings(compile_mode="off"),
            timed=here,
        )
    uncredited = any(
        words in found.message for words in ("does not count as a generated kernel", "no credit: weak spec")
    )
    accepted = found.status in ("correct", "checked") and not uncredited
    finish(
        result,
        verdict="accepted" if accepted else "rejected",
        reason="" if accepted else brief(f"{found.status}: {found.message}", 240),
        status=found.status,
        message=found.message,
        speedup=found.timing.ratio if found.timing else None,
        interval=[found.timing.low, found.timing.high] if found.timing else None,
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
