"""The measuring process of triton_families: baselines, errors and times of compiled variants on the device."""

from __future__ import annotations

import gc
import json
import time
import traceback
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from functools import partial
from pathlib import Path
from typing import Any

import triton_variants as variants

FLOOR = {"float32": 5e-7, "bfloat16": 4e-3}


class Clock:
    """Median device time of a call with a cold L2."""

    def __init__(self) -> None:
        import torch

        self.torch = torch
        self.flush = torch.empty(256 << 20, dtype=torch.int8, device="cuda")

    def ms(self, call: Any, repeats: int = 20, budget_s: float = 1.5) -> float:
        """Median milliseconds of at least 20 calls where ``budget_s`` allows, never fewer than 5."""
        torch = self.torch
        call()
        torch.cuda.synchronize()
        started = time.monotonic()
        call()
        torch.cuda.synchronize()
        once = time.monotonic() - started
        n = max(5, min(repeats, int(budget_s / max(once, 1e-5))))
        pairs = [(torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)) for _ in range(n)]
        for start, stop in pairs:
            self.flush.zero_()
            start.record()
            call()
            stop.record()
        torch.cuda.synchronize()
        times = sorted(a.elapsed_time(b) for a, b in pairs)
        return float(times[n // 2])


def errors(got: Any, want: Any) -> tuple[float, float]:
    """Relative Frobenius error and largest absolute error, computed in pieces of 2^26 elements; NaN where NaNs differ."""
    import torch

    a, b = got.reshape(-1), want.reshape(-1)
    square = size = most = 0.0
    for i in range(0, b.numel(), 1 << 26):
        w = b[i : i + (1 << 26)].double()
        d = torch.where(a[i : i + (1 << 26)].double() == w, 0.0, a[i : i + (1 << 26)].double() - w)
        square += float(d.square().sum())
        size += float(w.square().sum())
        most = max(most, float(d.abs().max()))
    return (square / max(size, 1e-300)) ** 0.5, most


class Captured:
    """Compiled kernels of the last call, for registers and spills."""

    def __init__(self) -> None:
        from triton.runtime.jit import JITFunction

        self.kernels: list[Any] = []
        launch = JITFunction.run

        def run(this: Any, *args: Any, **options: Any) -> Any:
            kernel = launch(this, *args, **options)
            self.kernels.append(kernel)
            return kernel

        JITFunction.run = run

    def resources(self) -> dict[str, int]:
        """Largest register count, spill count and shared memory among them."""
        ks = [k for k in self.kernels if k is not None]
        return {
            "regs": max((int(k.n_regs or 0) for k in ks), default=0),
            "spills": max((int(k.n_spills or 0) for k in ks), default=0),
            "shared": max((int(k.metadata.shared) for k in ks), default=0),
        }


class Bench:
    """One spec in one dtype."""

    def __init__(self, pool: ProcessPoolExecutor, ref: str, dtype: str, out: Path, without: frozenset[str]) -> None:
        self.pool, self.ref, self.dtype, self.out, self.without = pool, ref, dtype, out, without
        self.record: dict[str, Any] = {"spec": ref, "dtype": dtype, "variants": []}
        self.tried: set[str] = set()
        self.prepared: Future[dict[str, Any]] = pool.submit(variants.prepare, ref, dtype, str(out))
        self.pending: dict[Future[dict[str, Any]], dict[str, Any]] = {}
        self.submitted = False

    def start(self, also: list[dict[str, Any]]) -> None:
        """Queue the compilations of the variants asked for, every exemplar's defaults and their neighbours."""
        if self.submitted:
            return
        self.submitted = True
        info = self.prepared.result(timeout=240)
        info["starts"] = [[s for s in each if s[0] not in self.without] for each in info["starts"]]
        self.record |= {"bytes": info["bytes"], "matmul": info["matmul"], "kernels": info["kernels"]}
        for wish in also:
            if wish["spec"] == self.ref and wish["exemplar"] not in self.without:
                self.submit(info["largest"], wish["exemplar"], wish["knobs"])
        for at, starts in enumerate(info["starts"]):
            for name, knobs in starts:
                self.submit(at, name, knobs)
        for name, knobs in info["starts"][info["largest"]]:
            near = self.pool.submit(variants.around, self.ref, self.dtype, name, knobs, info["largest"], 10)
            try:
                for point in near.result(timeout=120):
                    self.submit(info["largest"], name, point)
            except Exception as e:
                self.record.setdefault("notes", []).append(f"around {name}: {e!r}"[:300])

    def submit(self, at: int, name: str, knobs: dict[str, Any]) -> None:
        """Queue one variant: the given schedule for one kernel, the first fitting one for the others."""
        info = self.prepared.result()
        plan = [s[0] if s else ("none", {}) for s in info["starts"]]
        plan[at] = (name, knobs)
        key = json.dumps(plan, sort_keys=True)
        if key in self.tried:
            return
        self.tried.add(key)
        path = self.out / "modules" / f"{self.ref}_{self.dtype}_{len(self.tried)}.py"
        entry = {"exemplar": name, "knobs": knobs, "at": at, "plan": plan, "path": str(path)}
        future = self.pool.submit(variants.compile_variant, self.ref, self.dtype, plan, str(path))
        self.pending[future] = entry

    def run(self, clock: Clock, captured: Captured, seconds: float, rounds: int) -> None:
        """Baselines, then variants as they finish compiling, until the time is up."""
        import torch

        from evaluators.spec import load
        from evaluators.spec.inputs import make_inputs
        from evaluators.spec.model import build_model, to_float64

        deadline = time.monotonic() + seconds
        self.beat("baseline")
        spec = load(self.ref, dtype=self.dtype, profile="gpu")
        model, inputs = build_model(spec, "cuda"), make_inputs(spec, 1, "cuda")
        with torch.no_grad():
            model64, inputs64 = to_float64(model, inputs)
            want = model64(*inputs64)
            del model64, inputs64
            self.record["eager_error"], self.record["eager_max_error"] = errors(model(*inputs), want)
            self.record["eager_ms"] = clock.ms(lambda: model(*inputs))
            self.save()
            self.beat("baseline")
            try:
                torch._dynamo.reset()
                compiled = torch.compile(model)
                self.record["compile_ms"] = clock.ms(partial(compiled, *inputs))
                del compiled
            except Exception as e:
                self.record["compile_failed"] = repr(e)[:300]
            gc.collect()
            torch.cuda.empty_cache()
            deadline = max(deadline, time.monotonic() + seconds * 0.5)
            for turn in range(rounds):
                self.drain(model, inputs, want, clock, captured, deadline)
                self.save()
                best = self.best()
                if best is None or time.monotonic() > deadline or turn == rounds - 1:
                    break
                near = self.pool.submit(
                    variants.around, self.ref, self.dtype, best["exemplar"], best["knobs"], best["at"], 12
                )
                for point in near.result(timeout=60):
                    self.submit(best["at"], best["exemplar"], point)
        for future in self.pending:
            future.cancel()
        self.save()

    def drain(self, model: Any, inputs: Any, want: Any, clock: Clock, captured: Captured, deadline: float) -> None:
        """Check and time variants in the order their compilations finish."""
        while self.pending and time.monotonic() < deadline:
            done, _ = wait(self.pending, timeout=max(0.1, deadline - time.monotonic()), return_when=FIRST_COMPLETED)
            for future in done:
                entry = self.pending.pop(future)
                self.record["variants"].append(entry)
                try:
                    entry |= future.result()
                    self.beat(f"{entry['exemplar']} {entry['knobs']}")
                    self.measure(entry, model, inputs, want, clock, captured)
                except Exception as e:
                    entry["failed"] = f"{type(e).__name__}: {e}"[:400]
                    if "CUDA error" in str(e) or "illegal" in str(e):
                        raise

    def measure(
        self, entry: dict[str, Any], model: Any, inputs: Any, want: Any, clock: Clock, captured: Captured
    ) -> None:
        """Error and time of one compiled variant."""
        import torch

        module = variants.load_module(entry["path"])
        with torch.device("cuda"):
            net = module.ModelNew()
        named = {**dict(model.named_parameters()), **dict(model.named_buffers())}
        for key in net.state_dict():
            owner, _, leaf = key.rpartition(".")
            target = net.get_submodule(owner)
            table = target._parameters if leaf in target._parameters else target._buffers
            source = named[key]
            table[leaf] = (
                torch.nn.Parameter(source.data, requires_grad=False) if table is target._parameters else source
            )
        captured.kernels.clear()
        got = net(*inputs)
        torch.cuda.synchronize()
        entry |= captured.resources()
        entry["error"], entry["max_error"] = errors(got, want)
        limit = max(2 * self.record["eager_error"], FLOOR[self.dtype])
        entry["correct"] = bool(got.shape == want.shape and entry["error"] <= limit)
        del got
        entry["ms"] = clock.ms(lambda: net(*inputs))

    def best(self) -> dict[str, Any] | None:
        """Fastest correct variant."""
        return variants.best(self.record)

    def beat(self, what: str) -> None:
        """Tell the watching process what is about to run, so that a hang costs one schedule and not the run."""
        (self.out / "doing.json").write_text(json.dumps([self.ref, self.dtype, what]))

    def save(self) -> None:
        """Write this spec's record."""
        (self.out / f"{self.ref}_{self.dtype}.json").write_text(json.dumps(self.record, indent=1))


def measure_all(jobs: list[tuple[str, str]], out: Path, without: dict[str, list[str]], options: Any) -> None:
    """Measure each (spec, dtype) in turn; the body of the measuring process."""
    import multiprocessing

    import torch

    began = time.monotonic()
    pool = ProcessPoolExecutor(options.workers, mp_context=multiprocessing.get_context("spawn"))
    benches = [Bench(pool, s, d, out, frozenset(without.get(f"{s}/{d}", ()))) for s, d in jobs]
    torch.backends.cuda.matmul.allow_tf32 = False
    clock, captured = Clock(), Captured()
    for i, bench in enumerate(benches):
        bench.beat("compile")
        left = options.total_seconds - (time.monotonic() - began)
        try:
            for ahead in benches[i : i + 3]:
                ahead.start(json.loads(options.also))
            if left > 5:
                bench.run(clock, captured, min(options.seconds_per_spec, left), options.rounds)
        except Exception as e:
            bench.record["crashed"] = f"{type(e).__name__}: {e}"[:500]
            bench.record["traceback"] = traceback.format_exc()[-2000:]
        bench.record["done"] = True
        bench.save()
        gc.collect()
        torch.cuda.synchronize()  # a broken context ends this process here; the watcher starts another
        torch.cuda.empty_cache()
        print(f"{time.monotonic() - began:5.0f}s", *variants.row(bench.record), flush=True)
    for process in list((pool._processes or {}).values()):
        process.terminate()
