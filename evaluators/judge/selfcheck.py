"""Exercise the judge end to end on this machine: ``python -m evaluators.judge.selfcheck``.

Hand-written candidates whose verdicts are known: right ones must be accepted, wrong ones rejected, faults survived. Prints a table
and exits with 1 where a verdict is not the expected one.
"""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import dataclass

from evaluators import targets
from evaluators.candidate import Candidate
from evaluators.judge.judge import Judge
from evaluators.judge.settings import JudgeSettings
from evaluators.languages import cpp
from evaluators.spec.kernel_spec import InputSpec, KernelSpec
from evaluators.verdict import Evaluation

_MODEL = "import torch\n\nclass Model(torch.nn.Module):\n    def forward(self, {args}):\n        return {result}\n"

_SOFTMAX_CPP = r"""
#include <algorithm>
#include <cmath>
extern "C" void softmax(const float* x, float* y, int rows, int cols) {
#pragma omp parallel for
    for (int r = 0; r < rows; ++r) {
        const float* a = x + (long)r * cols;
        float* b = y + (long)r * cols;
        float top = a[0];
        for (int c = 1; c < cols; ++c) top = std::max(top, a[c]);
        float sum = 0;
        for (int c = 0; c < cols; ++c) sum += b[c] = std::exp(a[c] - top);
        for (int c = 0; c < cols; ++c) b[c] /= sum;
    }
}
"""
_SOFTMAX_CPP_MODEL = """
import torch


class ModelNew(torch.nn.Module):
    def forward(self, x):
        x = x.contiguous()
        y = torch.empty_like(x)
        _native().softmax(_address(x), _address(y), x.shape[0], x.shape[1])
        return y
"""
_SOFTMAX_TRITON = """
import torch
import triton
import triton.language as tl


@triton.jit
def softmax(x, y, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    c = tl.arange(0, BLOCK)
    a = tl.load(x + row * cols + c, mask=c < cols, other=float("-inf"))
    e = tl.exp(a - tl.max(a, 0))
    tl.store(y + row * cols + c, e / tl.sum(e, 0), mask=c < cols)


class ModelNew(torch.nn.Module):
    def forward(self, x):
        x = x.contiguous()
        y = torch.empty_like(x)
        cols = x.shape[1]
        softmax[(x.shape[0],)](x, y, cols, BLOCK=triton.next_power_of_2(cols), num_warps=8)
        return y
"""
_MATMUL_TRITON = """
import torch
import triton
import triton.language as tl


@triton.jit
def matmul(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    cols = tl.program_id(1) * BN + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        inner = k + tl.arange(0, BK)
        x = tl.load(a + rows[:, None] * K + inner[None, :])
        y = tl.load(b + inner[:, None] * N + cols[None, :])
        acc = tl.dot(x, y, acc, input_precision="PRECISION")
    tl.store(c + rows[:, None] * N + cols[None, :], acc)


class ModelNew(torch.nn.Module):
    def forward(self, x, w):
        c = torch.empty((x.shape[0], w.shape[1]), dtype=x.dtype, device=x.device)
        grid = (x.shape[0] // 64, w.shape[1] // 64)
        matmul[grid](x, w, c, x.shape[0], w.shape[1], x.shape[1], BM=64, BN=64, BK=32, num_warps=4)
        return c
"""


@dataclass(frozen=True)
class Probe:
    """A candidate with the statuses that would be right for it."""

    name: str
    spec: KernelSpec
    source: str
    expected: tuple[str, ...]
    timed: bool = True


def _spec(name: str, args: str, result: str, *inputs: InputSpec) -> KernelSpec:
    return KernelSpec(name=name, source="yaml", reference=_MODEL.format(args=args, result=result), inputs=inputs)


def probes(kind: str) -> list[Probe]:
    """The candidates for a kind of device."""
    if kind == "cpu":
        spec = _spec("softmax", "x", "torch.softmax(x, -1)", InputSpec("x", (1024, 1000)))

        def native(text: str) -> str:
            return cpp.wrap({"kernel.cpp": text}, _SOFTMAX_CPP_MODEL)

        return [
            Probe("right", spec, native(_SOFTMAX_CPP), ("correct",)),
            Probe(
                "last column left out",
                spec,
                native(_SOFTMAX_CPP.replace("c < cols; ++c) b[c] /=", "c < cols - 1; ++c) b[c] /=")),
                ("mismatch",),
            ),
            Probe(
                "off by 0.01%",
                spec,
                native(_SOFTMAX_CPP.replace("b[c] /= sum", "b[c] /= sum * 1.0001f")),
                ("mismatch",),
            ),
            Probe("does not compile", spec, native(_SOFTMAX_CPP.replace("float top", "flaot top")), ("compile_error",)),
            Probe(
                "crashes",
                spec,
                native(_SOFTMAX_CPP.replace("b[c] /= sum", "((volatile float*)0)[c] = sum")),
                ("crash",),
            ),
            Probe("right, after the crash", spec, native(_SOFTMAX_CPP), ("correct",)),
        ]
    rows = _spec("softmax", "x", "torch.softmax(x, -1)", InputSpec("x", (8192, 4000)))
    product = _spec(
        "matmul", "x, w", "x @ w", InputSpec("x", (2048, 2048)), InputSpec("w", (2048, 2048), args={"std": 2048**-0.5})
    )
    outside = _SOFTMAX_TRITON.replace("tl.store(y + row * cols + c, e", "tl.store(y + row * cols + c + (1 << 42), e")
    return [
        Probe("right", rows, _SOFTMAX_TRITON, ("correct",)),
        Probe("off by 0.01%", rows, _SOFTMAX_TRITON.replace("tl.sum(e, 0)", "(tl.sum(e, 0) * 1.0001)"), ("mismatch",)),
        Probe(
            "last row left out", rows, _SOFTMAX_TRITON.replace("[(x.shape[0],)]", "[(x.shape[0] - 1,)]"), ("mismatch",)
        ),
        Probe("illegal address", rows, outside, ("crash",)),
        Probe("right, after the crash", rows, _SOFTMAX_TRITON, ("correct",), False),
        Probe("fp32 product, ieee", product, _MATMUL_TRITON.replace("PRECISION", "ieee"), ("correct",)),
        Probe("fp32 product, tf32", product, _MATMUL_TRITON.replace("PRECISION", "tf32"), ("mismatch",), False),
        Probe("fp32 product, tf32x3", product, _MATMUL_TRITON.replace("PRECISION", "tf32x3"), ("correct",), False),
    ]


def row(probe: Probe, found: Evaluation, seconds: float) -> str:
    """One line of the table, with a second one for what the judge said."""
    verdict = "ok  " if found.status in probe.expected else "FAIL"
    time_text = f"{found.timing.candidate_ms:8.4f} ms  {found.timing.ratio:5.2f}x" if found.timing else " " * 19
    events = f"  events {found.timing.event_ms:.4f} ms" if found.timing and found.timing.event_ms is not None else ""
    phases = " ".join(f"{k} {v:.2f}" for k, v in found.phases.items())
    first = f"{verdict} {probe.name:<26} {found.status:<14} {time_text}{events}  {seconds:5.1f} s ({phases})"
    detail = found.message.splitlines()[0][:180] if found.message else ""
    accuracy = f"; {found.accuracy.detail[:150]}" if found.accuracy and found.status == "correct" else ""
    return f"{first}\n       {detail}{accuracy}"


def main(arguments: list[str] | None = None) -> int:
    """Run the probes on the named (or the local) target; 0 where every verdict was the expected one."""
    parser = argparse.ArgumentParser(description="Exercise the judge on this machine.")
    parser.add_argument("--target", default="auto")
    parser.add_argument("--no-compile", action="store_true", help="leave the torch.compile baseline out")
    options = parser.parse_args(arguments)
    target = targets.load(options.target)
    settings = JudgeSettings(compile_mode="off" if options.no_compile else "default")
    wrong = 0
    print(f"target {target.name} ({target.kind}, {'present' if target.present else 'absent'})")
    judges: dict[str, Judge] = {}
    try:
        for probe in probes(target.kind):
            judge = judges.get(probe.spec.digest)
            if judge is None:
                for other in judges.values():
                    other.close()
                judge = judges[probe.spec.digest] = Judge(probe.spec, target, settings)
            begin = time.perf_counter()
            candidate = Candidate(probe.name, "cpp" if target.kind == "cpu" else "triton", probe.source, "manual")
            found = judge.evaluate(candidate, timed=probe.timed)
            print(row(probe, found, time.perf_counter() - begin), flush=True)
            wrong += found.status not in probe.expected
            if found.timing:
                print(
                    f"       baselines {', '.join(f'{k} {v:.4f} ms' for k, v in found.timing.baselines.items())}; {found.isolation}"
                )
            if found.environment and probe.name == "right":
                print(f"       {found.environment}")
                print(f"       resources {dict(found.resources)}")
    finally:
        for judge in judges.values():
            judge.close()
    print("all verdicts as expected" if not wrong else f"{wrong} verdict(s) not as expected")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
