"""Work for the compile processes of triton_families: trace a spec, write its variants as modules, compile them into Triton's cache.

Everything here runs without touching device memory: modules run on meta tensors while every Triton launch is replaced by a
compilation for the present device.
"""

from __future__ import annotations

import importlib.util
import itertools
import math
import random
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

SHARED_LIMIT = 232448


def load_module(path: str) -> Any:
    """Import a candidate module from its file."""
    name = Path(path).stem
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def prepare(ref: str, dtype: str, folder: str) -> dict[str, Any]:
    """Trace a suite spec; returns its counted bytes and, per kernel, the starting variants of every exemplar that fits."""
    import knowledge.exemplars
    from agent.proposers.builtin import space, triton
    from evaluators.ir.facts import work
    from evaluators.ir.pattern import classify
    from evaluators.ir.trace import trace
    from evaluators.spec import load

    spec = load(ref, dtype=dtype, profile="gpu")
    program = trace(spec)
    counted = work(program)
    exemplars = knowledge.exemplars.load_all(ROOT / "corpora/kernels/triton")
    starts: list[list[tuple[str, dict[str, Any]]]] = []
    for kernel in program.kernels:
        facts = {**triton.facts(kernel, program), "shared_limit": SHARED_LIMIT}
        found = []
        for e in exemplars:
            if classify(kernel) in e.patterns:
                knobs = space.repaired(e, e.defaults, facts)
                if knobs is not None:
                    found.append((e.name, knobs))
        starts.append(found)
    largest = max(range(len(starts)), key=lambda i: triton.facts(program.kernels[i], program)["bytes"])
    first = []
    for name, knobs in starts[largest]:
        first.append((largest, name, knobs))
    return {
        "bytes": counted.bytes, "matmul": counted.matmul, "starts": starts, "largest": largest, "first": first,
        "kernels": [k.name for k in program.kernels],
    }  # fmt: skip


def around(ref: str, dtype: str, exemplar: str, knobs: dict[str, Any], at: int, limit: int) -> list[dict[str, Any]]:
    """Admissible knob settings one step from ``knobs``, then two steps, at most ``limit``."""
    import knowledge.exemplars
    from agent.proposers.builtin import space, triton

    e = next(x for x in knowledge.exemplars.load_all(ROOT / "corpora/kernels/triton") if x.name == exemplar)
    program = _program(ref, dtype)
    facts = {**triton.facts(program.kernels[at], program), "shared_limit": SHARED_LIMIT}
    one = [point for _, _, point in space.neighbours(e, knobs, facts)]
    two = [p for q in one for _, _, p in space.neighbours(e, q, facts)]
    random.Random(0).shuffle(two)
    out: list[dict[str, Any]] = []
    for point in itertools.chain(one, two):
        if point != knobs and point not in out:
            out.append(point)
    return out[:limit]


_programs: dict[tuple[str, str], Any] = {}


def _program(ref: str, dtype: str) -> Any:
    from evaluators.ir.trace import trace
    from evaluators.spec import load

    if (ref, dtype) not in _programs:
        _programs[ref, dtype] = trace(load(ref, dtype=dtype, profile="gpu"))
    return _programs[ref, dtype]


def compile_variant(ref: str, dtype: str, plan: list[tuple[str, dict[str, Any]]], path: str) -> dict[str, Any]:
    """Render one plan (exemplar and knobs per kernel) to ``path`` and compile its kernels; returns seconds and shared memory."""
    import torch
    from triton.runtime.jit import JITFunction

    import knowledge.exemplars
    from agent.proposers.builtin import triton
    from agent.proposers.builtin.plan import Choice
    from evaluators.spec import load
    from evaluators.spec.inputs import make_inputs
    from evaluators.spec.model import signature

    started = time.monotonic()
    known = {e.name: e for e in knowledge.exemplars.load_all(ROOT / "corpora/kernels/triton")}
    spec = load(ref, dtype=dtype, profile="gpu")
    program = _program(ref, dtype)
    choices = {k.name: Choice(known[n], q) for k, (n, q) in zip(program.kernels, plan, strict=True)}
    Path(path).write_text(triton.render_module(program, signature(spec), choices))
    module = load_module(path)
    shared: list[int] = []
    launch = JITFunction.run

    def warm(self: Any, *args: Any, grid: Any = None, warmup: bool = False, **options: Any) -> Any:
        kernel = launch(self, *args, grid=grid, warmup=True, **options)
        shared.append(kernel.metadata.shared)
        return kernel

    JITFunction.run = warm
    try:
        with torch.device("meta"):
            module.ModelNew()(*make_inputs(spec, 0, "meta"))
    finally:
        JITFunction.run = launch
    most = max(shared, default=0)
    if most > SHARED_LIMIT:
        raise MemoryError(f"needs {most} bytes of shared memory, the device has {SHARED_LIMIT}")
    return {"compile_s": round(time.monotonic() - started, 2), "shared": most}


def digits(x: float, n: int = 3) -> str:
    """A number with ``n`` significant digits."""
    return f"{x:.{max(0, n - 1 - math.floor(math.log10(abs(x))))}f}" if x and math.isfinite(x) else str(x)


COPY_BANDWIDTH = 4.3e12
"""Bytes per second of a device-to-device copy on an H200, counting reads and writes."""


def best(record: dict[str, Any]) -> dict[str, Any] | None:
    """Fastest correct variant of a spec's record."""
    right = [v for v in record["variants"] if v.get("correct") and "ms" in v]
    return min(right, key=lambda v: float(v["ms"]), default=None)


def row(record: dict[str, Any]) -> list[str]:
    """A spec's line of the table."""
    top = best(record)
    base = min((record[k] for k in ("eager_ms", "compile_ms") if k in record), default=float("nan"))
    cells = [record["spec"], record["dtype"].replace("float", "f")]
    cells += [digits(record.get("eager_ms", 0.0)), digits(record.get("compile_ms", 0.0))]
    if top is None:
        why = record.get("crashed") or next(
            (v["failed"] for v in record["variants"] if "failed" in v), "no correct variant"
        )
        return [*cells, "-", "-", "-", str(why)[:120]]
    share = record["bytes"] / (top["ms"] * 1e-3) / COPY_BANDWIDTH
    knobs = " ".join(f"{k}={v}" for k, v in top["knobs"].items() if v != "")
    wrong = sum(1 for v in record["variants"] if "ms" in v and not v["correct"])
    broken = sum(1 for v in record["variants"] if "failed" in v)
    tried = f"[{len(record['variants'])} tried, {wrong} wrong, {broken} failed]"
    return [*cells, digits(top["ms"]), f"{base / top['ms']:.2f}", f"{share:.2f}", f"{top['exemplar']} {knobs} {tried}"]
