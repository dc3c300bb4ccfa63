"""One candidate through KernelBench: ``run_kernelbench.py CHECKOUT CANDIDATE RESULT LOCK``.

As its ``scripts/run_and_check.py`` does: the static checker first, then ``eval_kernel_against_ref`` with 5 trials for correctness and
100 for time. Where the static checker refuses, the rest is run all the same, and reported apart.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from entry import alone, brief, device, finish, read, stand_in

PRECISION = {"float32": "fp32", "float16": "fp16", "bfloat16": "bf16"}


def main(checkout: str, candidate: str, result: str, lock: str) -> None:
    """Entry point."""
    entry = read(Path(candidate))
    source = entry.path.read_text()
    sys.path.insert(0, str(Path(checkout) / "src"))
    # Its module of utilities imports clients of language models, which no evaluation uses.
    clients: dict[str, dict[str, Any]] = {
        "dotenv": {"load_dotenv": lambda: False},
        "openai": {"OpenAI": None},
        "litellm": {"completion": None},
    }
    replaced = [name for name, attributes in clients.items() if stand_in(name, **attributes)]
    from kernelbench.kernel_static_checker import validate_kernel_static

    precision = PRECISION[entry.dtype]
    valid, errors, warnings = validate_kernel_static(source, backend="triton", precision=precision)
    static = {
        "static": "accepted" if valid else "static check: " + "; ".join(errors),
        "warnings": warnings,
        "stand_ins": replaced,
    }
    if not device():
        verdict = "not run" if valid else "rejected"
        finish(result, verdict=verdict, reason="needs a GPU" if valid else static["static"], **static)
    with alone(lock):
        import torch
        from kernelbench import eval as kernelbench

        try:
            found = kernelbench.eval_kernel_against_ref(
                original_model_src=entry.problem.read_text(),
                custom_model_src=source,
                num_correct_trials=5,
                num_perf_trials=100,
                measure_performance=True,
                timing_method="cuda_event",
                device=torch.device("cuda:0"),
                backend="triton",
                precision=kernelbench.get_torch_dtype_from_string(precision),
            )
        except Exception as error:  # run_and_check.py counts it as a failure to compile
            finish(result, verdict="rejected", reason=brief(error), dynamic="rejected", **static)
        if found is None:
            finish(result, verdict="rejected", reason="no result", dynamic="rejected", **static)
        speedup = found.ref_runtime / found.runtime if found.correctness and found.runtime > 0 else None
        dynamic = "accepted" if found.correctness else "rejected"
        why = {k: v for k, v in found.metadata.items() if k not in ("hardware", "device", "runtime_error_traceback")}
        finish(
            result,
            verdict="accepted" if valid and found.correctness else "rejected",
            reason=static["static"] if not valid else "" if found.correctness else brief(why),
            dynamic=dynamic,
            dynamic_reason=brief(why),
            speedup=speedup,
            flagged=bool(found.metadata.get("excessive_speedup")),
            **static,
        )


if __name__ == "__main__":
    main(*sys.argv[1:])
