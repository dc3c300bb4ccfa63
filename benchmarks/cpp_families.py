"""Time the C++ exemplars on a suite against eager and torch.compile: interleaved batches, same threads, a quantile of the calls.

    python benchmarks/cpp_families.py [SPEC…] [--dtype float32] [--sweep] [--exemplar NAME] [--knob NAME=VALUE…]

Default: every spec of the starter suite with every kernel's first admissible exemplar at its default knobs. ``--sweep`` adds every other
admissible exemplar and every single-knob change, and prints them by time. Figures are for orientation; the judge's own count.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
# Fresh pages cost more than most kernels: keep freed memory in the process, for both sides alike.
MALLOC = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": "100000000000", "MALLOC_TOP_PAD_": "1000000000"}
BATCH_S = 0.03


def main() -> None:
    """Parse arguments and print one Markdown table row per spec."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("specs", nargs="*", help="spec names of the suite (default: all)")
    parser.add_argument("--suite", default="starter")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--pairs", type=int, default=15)
    parser.add_argument("--quantile", type=float, default=0.5, help="0.5: median; lower on a machine that others use")
    parser.add_argument("--sweep", action="store_true")
    parser.add_argument("--threads", type=int, default=0, help="PyTorch's threads (default: its own choice)")
    parser.add_argument("--cpu-time", action="store_true", help="processor time, for one thread on a busy machine")
    parser.add_argument("--exemplar", action="append", default=[])
    parser.add_argument("--knob", action="append", default=[])
    parser.add_argument("--no-compile", action="store_true")
    args = parser.parse_args()

    import torch

    from evaluators.spec import load_suite

    if args.threads:
        torch.set_num_threads(args.threads)

    print("| spec | schedule | eager ms | compile ms | ours ms | ratio | rel. error |\n|---|---|---|---|---|---|---|")
    ratios = []
    for spec in load_suite(args.suite, "cpu", args.dtype):
        if not args.specs or spec.name in args.specs:
            try:
                ratios.append(measure(spec, args))
            except Exception as error:
                print(f"| {spec.name} | {type(error).__name__}: {str(error)[:300]} |||||", flush=True)
    if ratios:
        wins = sum(r > 1 for r in ratios)
        print(f"\ngeomean {statistics.geometric_mean(ratios):.2f} over {len(ratios)} specs, {wins} above 1")


def measure(spec: Any, args: argparse.Namespace) -> float:
    """Print the rows of one spec; the ratio of the best baseline to the default schedule."""
    import torch

    from agent.proposers.builtin.cpp import render_module
    from evaluators.ir.trace import trace
    from evaluators.spec.inputs import make_inputs
    from evaluators.spec.model import build_model, signature, to_float64

    program = trace(spec)
    model = build_model(spec, "cpu")
    inputs = [make_inputs(spec, seed, "cpu") for seed in range(3)]
    model64, inputs64 = to_float64(model, inputs[0])
    with torch.no_grad():
        oracle = model64(*inputs64)
    baselines = {"eager": model}
    if not args.no_compile:
        baselines["compile"] = torch.compile(model)
    rows: list[tuple[float, str]] = []
    first = 0.0
    for label, plan in plans(program, args):
        candidate = load(render_module(program, signature(spec), plan), model)
        with torch.no_grad():
            error = relative_error(candidate(*inputs[0]), oracle)
        times = interleaved({**baselines, "ours": candidate}, inputs, args)
        best = min(times[name] for name in baselines)
        ratio = best / times["ours"]
        first = first or ratio
        shown = " | ".join(f"{times.get(name, 0):.3f}" for name in ("eager", "compile", "ours"))
        rows.append((times["ours"], f"| {spec.name} | {label} | {shown} | {ratio:.2f} | {error:.1e} |"))
        if not args.sweep:
            print(rows[-1][1], flush=True)
    if args.sweep:
        print("\n".join(text for _, text in sorted(rows)), flush=True)
    return first


def plans(program: Any, args: argparse.Namespace) -> Iterator[tuple[str, dict[str, Any]]]:
    """The default plan, then (``--sweep``) every other exemplar and single-knob change of one kernel at a time."""
    from agent.proposers.builtin.cpp import facts
    from agent.proposers.builtin.plan import Choice
    from knowledge.exemplars import load_all

    exemplars = load_all(ROOT / "corpora" / "kernels" / "cpp")
    given = dict(k.split("=", 1) for k in args.knob)
    options: dict[str, list[Any]] = {}
    for kernel in program.kernels:
        about = facts(kernel, program)
        found = []
        for e in exemplars:
            fixed = {n: next((v for v in k.values if str(v).lower() == given[n].lower()), k.default) if n in given else k.default
                     for n, k in e.knobs.items()}  # fmt: skip
            spaces = [fixed] + [{**fixed, n: v} for n, k in e.knobs.items() for v in k.values if v != fixed[n]]
            if about["pattern"] in e.patterns and (
                not args.exemplar or e.name in args.exemplar or len(program.kernels) > 1
            ):
                found += [Choice(e, knobs) for knobs in spaces if not e.violated(knobs, about)]
        if not found:
            raise LookupError(f"{kernel.name}: no admissible exemplar for {about}")
        options[kernel.name] = found
    base = {name: found[0] for name, found in options.items()}
    yield ", ".join(c.exemplar.name for c in base.values()), base
    if args.sweep:
        for name, found in options.items():
            for choice in found[1:]:
                knobs = ", ".join(f"{n}={v}" for n, v in choice.knobs.items())
                yield f"{name}: {choice.exemplar.name} {knobs}", {**base, name: choice}


def load(source: str, model: Any) -> Any:
    """ModelNew of a candidate's text, with the reference's parameters."""
    module = types.ModuleType("candidate")
    exec(compile(source, "candidate", "exec"), module.__dict__)
    candidate = module.ModelNew()
    candidate.load_state_dict(model.state_dict(), strict=False)
    return candidate


def relative_error(value: Any, oracle: Any) -> float:
    """Frobenius norm of the error over that of the float64 result."""
    gap = (value.double() - oracle.double()).norm()
    return float(gap / oracle.double().norm().clamp_min(1e-300))


def interleaved(
    calls: dict[str, Callable[..., Any]], inputs: list[list[Any]], args: argparse.Namespace
) -> dict[str, float]:
    """A quantile of the milliseconds per call: short batches of each in turn, rotating over the inputs."""
    import torch

    clock = time.process_time if args.cpu_time else time.perf_counter
    counts: dict[str, int] = {}
    samples: dict[str, list[float]] = {name: [] for name in calls}
    with torch.no_grad():
        for name, call in calls.items():
            call(*inputs[0])
            begin = time.perf_counter()
            for i in range(3):
                call(*inputs[i % len(inputs)])
            counts[name] = max(1, round(BATCH_S / ((time.perf_counter() - begin) / 3)))
        for _ in range(args.pairs):
            for name, call in calls.items():
                time.sleep(0.004)  # let the other side's idle OpenMP threads stop spinning
                call(*inputs[0])
                for i in range(counts[name]):
                    begin = clock()
                    call(*inputs[i % len(inputs)])
                    samples[name].append((clock() - begin) * 1e3)
    return {name: sorted(found)[int(args.quantile * len(found))] for name, found in samples.items()}


if __name__ == "__main__":
    if any(os.environ.get(name) != value for name, value in MALLOC.items()):
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, **MALLOC})
    main()
