"""One candidate through BackendBench: ``run_backendbench.py CHECKOUT CANDIDATE RESULT LOCK``.

Its suites hold ATen operators alone. Here its ``eval_one_op`` is handed the reference as the operator and the candidate's ``forward`` as
the implementation, five sets of inputs for correctness and one for time. Without a GPU correctness alone, with Triton's interpreter.
"""

from __future__ import annotations

import contextlib
import os
import sys
import types
from pathlib import Path
from typing import Any

from entry import alone, brief, device, finish, module, read


class Test:
    """One set of inputs, in its form."""

    def __init__(self, args: list[Any]) -> None:
        self.args = args
        self.kwargs: dict[str, Any] = {}


def main(checkout: str, candidate: str, result: str, lock: str) -> None:
    """Entry point."""
    import torch

    if not torch.cuda.is_available():
        os.environ["TRITON_INTERPRET"] = "1"
    entry = read(Path(candidate))
    if entry.dtype == "bfloat16" and not torch.cuda.is_available():
        finish(result, verdict="not run", reason="needs a GPU: Triton's interpreter multiplies no bfloat16")
    # The package's own first module imports clients of language models; its evaluation needs none of them.
    package = types.ModuleType("BackendBench")
    package.__path__ = [str(Path(checkout) / "BackendBench")]
    sys.modules["BackendBench"] = package
    available = device()
    with alone(lock) if available else contextlib.nullcontext():
        place = "cuda" if available else "cpu"
        from BackendBench.eval import eval_one_op

        source = module(entry.problem, "problem")
        torch.manual_seed(0)
        reference = source.Model(*source.get_init_inputs()).to(place).requires_grad_(False)
        sets = [Test([x.to(place) if torch.is_tensor(x) else x for x in source.get_inputs()]) for _ in range(6)]
        try:
            kernel = module(entry.path, "candidate").ModelNew(*source.get_init_inputs()).to(place).requires_grad_(False)
            kernel.load_state_dict(reference.state_dict())
        except Exception as error:
            finish(result, verdict="rejected", reason=brief(f"{type(error).__name__}: {error}"))
        timed = sets[5:] if available else []
        _, _, correct, fast = eval_one_op(reference.forward, kernel.forward, sets[:5], timed)
        wrong = [r for r in correct if not r.is_correct]
        reason = ""
        if wrong:
            lines = [line for line in wrong[0].error_msg.splitlines() if line.strip().startswith(("exc:", "Skipped"))]
            reason = (lines or [f"{len(wrong)} of {len(correct)} wrong, largest difference {wrong[0].max_abs_error}"])[
                0
            ]
        finish(
            result,
            verdict="rejected" if wrong else "accepted",
            reason=brief(reason or next((f"timing: {r.error_msg}" for r in fast if r.error_msg), "")),
            speedup=next((float(r.speedup) for r in fast if r.speedup), None),
        )


if __name__ == "__main__":
    main(*sys.argv[1:])
