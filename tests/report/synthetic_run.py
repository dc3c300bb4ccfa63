"""A small recorded run, made by hand: what a report must cope with, without judging anything."""

from __future__ import annotations

import random
from pathlib import Path

from evaluators.candidate import Candidate
from evaluators.spec.kernel_spec import Dim, InputSpec, KernelSpec
from evaluators.target import Target
from evaluators.verdict import Accuracy, Evaluation, Roofline, Timing
from knowledge.runs.records import Share, Step
from knowledge.runs.store import RunStore

SPEC = KernelSpec(
    name="pointwise_chain",
    source="yaml",
    reference="import torch\n\nclass Model(torch.nn.Module):\n    def forward(self, x):\n        return torch.tanh(x) & <x>\n",
    inputs=(InputSpec("x", ("N", 4096)),),
    dims={"N": Dim(4096, 1, 8192)},
    description="tanh(x*s + b) * sigmoid(x) + x",
)
TARGET = Target(
    name="cpu-x86-64", kind="cpu", vendor="generic", architecture="x86-64", families=("cpu-x86-64", "cpu"), memory_bandwidth_gbs=20.0,
    peak_tflops={"float32": 0.2}, languages=("cpp",), compute_units=2, warp_size=8, l2_bytes=1 << 21, shared_memory_bytes=1 << 15,
    memory_bytes=1 << 34, present=True,
)  # fmt: skip

_SHAPE = [  # step, parents (by position), status, ratio, note
    (0, (), "correct", 1.12, "flat loop"),
    (0, (), "correct", 0.81, "row by row"),
    (0, (), "compile_error", None, "hand-unrolled"),
    (0, (), "mismatch", None, "half-range tanh"),
    (1, (0,), "correct", 1.74, "block 256 → 1024 (memory bound)"),
    (1, (0,), "crash", None, "unaligned stores"),
    (2, (4,), "correct", 2.31, "streaming stores"),
    (2, (4, 1), "correct", 2.05, "crossover with row by row"),
    (3, (6,), "timeout", None, "threads 2 → 64"),
    (3, (6,), "correct", 2.44, "prefetch distance 0 → 8"),
    (4, (9,), "correct", 2.40, "block 1024 → 2048"),
]


def source(i: int, note: str) -> str:
    """A candidate whose native code differs from its neighbours by a few lines."""
    native = (
        f"// {note}\\nvoid run(const float* x, float* y, long n) {{\\n  const long block = {256 * (i + 1)};\\n}}\\n"
    )
    head = f'import torch\n\nSOURCES = {{"kernel.cpp": "{native}"}}\n\n\n'
    return head + "class ModelNew(torch.nn.Module):\n    def forward(self, x):\n        return x\n"


def timing(ratio: float, seed: int, fresh: bool = False) -> Timing:
    """Forty noisy pairs around a ratio."""
    rng = random.Random(seed)
    pairs = tuple((b := 20.0 * rng.uniform(0.97, 1.04), b / (ratio * rng.uniform(0.96, 1.05))) for _ in range(40))
    return Timing(
        candidate_ms=20.0 / ratio, baseline="compile", baselines={"eager": 31.2, "compile": 20.0}, ratio=ratio, low=ratio * 0.97,
        high=ratio * 1.03, samples=pairs, clock="wall", fresh_process=fresh,
    )  # fmt: skip


def evaluation(candidate_id: str, status: str, ratio: float | None, seed: int, fresh: bool = False) -> Evaluation:
    """A verdict of that status."""
    t = timing(ratio, seed, fresh) if ratio else None
    bound = 6.7
    return Evaluation(
        candidate_id=candidate_id,
        target=TARGET.name,
        status=status,  # type: ignore[arg-type]
        fitness=ratio or 0.0,
        message="" if ratio else f"{status}: <kernel.cpp:3> expected ';' & more",
        accuracy=Accuracy(2.1e-7, 1.9e-7, 4.8e-6, 5) if ratio else None,
        timing=t,
        roofline=Roofline(134_217_728, 300_000_000, bound, "memory", bound / t.candidate_ms, 20.0, 0.2) if t else None,
        diagnosis="memory_bound" if ratio else "runtime_error",
        resources={"vector_width": 16} if ratio else {},
        isolation="bubblewrap",
        phases={"compile": 0.6, "correctness": 0.9, "timing": 1.4},
        environment={"cpu": "a processor", "torch": "2.13.0", "g++": "12.2.0"},
    )


def record(
    folder: Path, run_id: str = "pointwise-1", confirmed: float | None = 2.38, finished: bool = True
) -> RunStore:
    """A store in ``folder`` with one run. ``confirmed`` is the ratio of the fresh re-run (None: not made)."""
    store = RunStore(f"sqlite:///{folder / 'store.db'}", str(folder / "objects"))
    store.create_run(run_id, SPEC, TARGET, {"evaluations": 11, "policy": "greedy"}, ("aten::tanh",), ("pointwise",))
    draws: dict[int, int] = {}
    ids: list[str] = []
    for i, (step, parents, status, ratio, note) in enumerate(_SHAPE):
        draw = draws.get(step, 0)
        draws[step] = draw + 1
        ids.append(f"{run_id}.{step}.{draw}")
        if draw == 0:
            phase = "draft" if step == 0 else "improve"
            store.add_step(
                Step(
                    run_id,
                    step,
                    phase,
                    (),
                    (),
                    "unknown",
                    (Share("builtin", (0, 1)),),
                    "why",
                    None,
                    None,
                    None,
                    3.0,
                    0.1,
                    2.8,
                    0.1,
                )
            )
            passages = [{"chunk_id": f"c{step}{k}", "title": f"Passage {k} <b>", "document": "guidance/memory.md", "kind": "guidance",
                         "locator": "Streaming", "score": 0.5 - k / 10, "text": "…"} for k in range(3)]  # fmt: skip
            store.add_retrieval(run_id, step, {"text": "memory bound"}, passages, 0.02)
        candidate = Candidate(
            id=ids[-1], language="cpp", source=source(i, note), proposer="builtin", parents=tuple(ids[p] for p in parents), step=step,
            phase="draft" if step == 0 else "improve", exemplar="pointwise_flat", knobs={"block": 256 * (i + 1)},
            chunk_ids=(f"c{step}0", f"c{step}2"), note=note,
        )  # fmt: skip
        store.add_candidate(run_id, candidate)
        store.add_evaluation(run_id, evaluation(ids[-1], status, ratio, i))
    best = ids[9]
    if confirmed is not None:
        store.add_evaluation(run_id, evaluation(best, "correct", confirmed, 99, fresh=True), "confirm")
    if finished:
        gain = confirmed is not None and confirmed * 0.97 > 1
        store.finish_run(run_id, "11 evaluations used", "kernel" if gain else "baseline", best)
    return store
