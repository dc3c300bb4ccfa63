"""One candidate through robust-kbench: ``run_robust_kbench.py CHECKOUT CANDIDATE RESULT LOCK``.

Its own entry takes CUDA files alone. Here its functions for correctness (``check_forward_correctness``), for time
(``time_function_kernel_bench``) and its filters are handed the candidate as the function that a compiled file would have given, with the
settings of its ``run_kernel.py``: tolerance 1e-3, 5 trials, 25 + 1000 calls; each step in a process of its own, as there.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import types
from pathlib import Path
from typing import Any

from entry import Entry, alone, brief, device, finish, module, read, stand_in

CALLS = {"warmup_time": 25, "n_iter": 1000}


def main(checkout: str, candidate: str, result: str, lock: str, step: str = "") -> None:
    """Entry point; ``step`` is what a process started by this one does."""
    entry = read(Path(candidate))
    if step:
        sys.path.insert(0, checkout)
        if step == "check":
            os.environ.update(CUDA_LAUNCH_BLOCKING="1", TORCH_SHOW_CPP_STACKTRACE="1", TORCH_USE_CUDA_DSA="1")
        if not device():
            finish(result, verdict="not run", reason="needs a GPU")
        {"check": check, "time": time, "problem": problem}[step](entry, result, lock)
    checked = _in_a_process(checkout, candidate, result, lock, "check")
    if checked["verdict"] != "accepted":
        finish(result, **checked)
    known = Path(result).parent / f"robust-kbench-{entry.problem.stem}.json"
    with alone(f"{known}.lock"):  # once for all candidates of a problem
        if not known.exists():
            known.write_text(json.dumps(_in_a_process(checkout, candidate, result, lock, "problem")))
    about = json.loads(known.read_text())
    timed = _in_a_process(checkout, candidate, result, lock, "time")
    both = "ms" in about and "ms" in timed
    finish(
        result,
        **checked | {"reason": timed.get("reason", "")},
        speedup=about["ms"] / timed["ms"] if both else None,
        filtered=about.get("filtered", []),
        filter_errors=about.get("filter_errors", []),
    )


def _in_a_process(checkout: str, candidate: str, result: str, lock: str, step: str) -> dict[str, Any]:
    path = Path(f"{result}.{step}")
    done = subprocess.run(
        [sys.executable, __file__, checkout, candidate, str(path), lock, step],
        check=False,
        capture_output=True,
        text=True,
    )
    if not path.exists():
        return {"verdict": "rejected", "reason": brief(f"{step}: rc {done.returncode}: {done.stderr[-300:]}")}
    row: dict[str, Any] = json.loads(path.read_text())
    path.unlink()
    return row


def _task(entry: Entry) -> types.SimpleNamespace:
    """A task in its form: a model that is given the function to call, here with the model in front of the inputs."""
    source = module(entry.problem, "problem")

    class Model(source.Model):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__(*source.get_init_inputs())

        def forward(self, *inputs: Any, fn: Any) -> Any:
            return fn(self, *inputs)

    return types.SimpleNamespace(
        model=Model,
        forward_fn=source.Model.forward,
        get_inputs=source.get_inputs,
        get_init_inputs=source.get_init_inputs,
        get_input_settings=lambda: [{}],
        get_init_settings=lambda: [{}],
    )


class _Function:
    """The candidate as a function of model and inputs. A compiled file is handed the parameters; a module gets them once per model."""

    def __init__(self, entry: Entry, task: types.SimpleNamespace) -> None:
        self.new = module(entry.path, "candidate").ModelNew
        self.task = task
        self.model: Any = None
        self.kernel: Any = None

    def __call__(self, model: Any, *inputs: Any) -> Any:
        import torch

        if model is not self.model:
            with torch.random.fork_rng():
                self.kernel = self.new(*self.task.get_init_inputs()).to("cuda")
            self.kernel.load_state_dict(model.state_dict())
            self.model = model
        return self.kernel(*inputs)


def check(entry: Entry, result: str, _: str) -> None:
    """As its ``cuda_correct.py``."""
    import torch

    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cuda.matmul.allow_tf32 = False
    from robust_kbench.sandbox.correct_forward_fn import check_forward_correctness

    task = _task(entry)
    try:
        found = check_forward_correctness(
            task.model, task.forward_fn, _Function(entry, task), task.get_inputs, {}, {}, rtol=1e-3, atol=1e-3
        )
    except Exception as error:
        finish(result, verdict="rejected", reason=brief(f"{type(error).__name__}: {error}"))
    why = "" if found.correct else f"{found.num_correct} of 5 trials agree, largest difference {found.max_diff:.3g}"
    finish(result, verdict="accepted" if found.correct else "rejected", reason=why)


def time(entry: Entry, result: str, lock: str) -> None:
    """As its ``cuda_eval.py``."""
    import torch
    from robust_kbench.sandbox.eval_forward_fn import time_function_kernel_bench
    from robust_kbench.utils import easy_to_device

    task = _task(entry)
    with torch.no_grad(), alone(lock):
        inputs = easy_to_device(task.get_inputs(), "cuda")
        model = task.model().to("cuda")
        function = _Function(entry, task)
        try:
            found = time_function_kernel_bench(lambda *x: model.forward(*x, fn=function), *inputs, **CALLS)
        except Exception as error:
            finish(result, reason=brief(f"timing: {type(error).__name__}: {error}"))
        finish(result, ms=float(found.mean_time))


def problem(entry: Entry, result: str, lock: str) -> None:
    """The reference's time, as its ``torch_eval.py``, and the filters of ``run_filter.py`` that need no language model."""
    import torch

    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cuda.matmul.allow_tf32 = False
    # Its filters share a module with one that asks a language model.
    for name in (
        "backoff",
        "openai",
        "google",
        "google.generativeai",
        "google.generativeai.types",
        "anthropic",
        "dotmap",
    ):
        stand_in(name, **_CLIENTS.get(name, {}))
    from robust_kbench.filter import forward as filters
    from robust_kbench.sandbox.eval_forward_fn import time_function_kernel_bench
    from robust_kbench.utils import easy_to_device

    task = _task(entry)
    filtered, errors = [], []
    for name in ("filter_output_range", "filter_output_std", "filter_output_axes", "filter_input_impact"):
        try:
            if getattr(filters, name)(task, 5):
                filtered.append(name)
        except Exception as error:
            errors.append(brief(f"{name}: {error}", 80))
    with torch.no_grad(), alone(lock):
        inputs = easy_to_device(task.get_inputs(), "cuda")
        model = task.model().to("cuda")
        found = time_function_kernel_bench(lambda *x: model(*x, fn=task.forward_fn), *inputs, **CALLS)
    finish(result, ms=float(found.mean_time), filtered=filtered, filter_errors=errors)


def _unchanged(*args: Any, **kwargs: Any) -> Any:
    return lambda function: function


_CLIENTS: dict[str, dict[str, Any]] = {
    "backoff": {"on_exception": _unchanged, "expo": None},
    "openai": {"RateLimitError": OSError, "APITimeoutError": OSError},
    "google": {"__path__": []},
    "google.generativeai": {"__path__": []},
    "google.generativeai.types": {"GenerationConfig": None},
    "anthropic": {"RateLimitError": OSError, "APIStatusError": OSError},
    "dotmap": {"DotMap": dict},
}


if __name__ == "__main__":
    main(*sys.argv[1:])
