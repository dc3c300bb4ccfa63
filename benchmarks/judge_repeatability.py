"""How far the judge's figures can be believed: the same kernels again and again, and PyTorch against itself.

    python benchmarks/judge_repeatability.py again --times 10         # winners of the run store, each in fresh processes
    python benchmarks/judge_repeatability.py same --trials 200        # a candidate that calls the very operator it is compared with
    python benchmarks/judge_repeatability.py table FILE…              # of one or several days

Results are appended to ``repeatability.jsonl`` (``--results``) as they come, with the day and the machine's boot; the same command goes on
from there. ``again`` gives the spread of a kernel's ratio, (largest − smallest) / median. ``same`` counts intervals that lie wholly above
1, where there is nothing to gain, and repeats each such trial in fresh processes, as a search does with its winner.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections import defaultdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from evaluators import targets
from evaluators.candidate import Candidate
from evaluators.judge.judge import Judge
from evaluators.judge.settings import JudgeSettings
from evaluators.languages import cpp
from evaluators.spec.kernel_spec import InputSpec, KernelSpec
from evaluators.target import Target
from evaluators.verdict import Evaluation

_MODEL = "import torch\n\n\nclass {name}(torch.nn.Module):\n    def forward(self, x):\n        return {result}\n"
_NEVER_CALLED = "import triton\n\n\n@triton.jit\ndef unused(x):\n    pass\n\n\n"
_OPERATORS = {"softmax": "torch.softmax(x, -1)", "sum": "x.sum(-1)", "gelu": "torch.nn.functional.gelu(x)"}
_ROWS = {"cpu": (1024, 2048), "gpu": (8192, 8192)}
_FRESH = 25
"""Trials after which the reference's process is a new one."""


def main() -> None:
    """Entry point."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["again", "same", "table"])
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--times", type=int, default=10)
    parser.add_argument("--trials", type=int, default=200)
    parser.add_argument("--kernels", type=int, default=20, help="winners at most")
    parser.add_argument("--results", type=Path, default=Path("repeatability.jsonl"))
    options = parser.parse_args()
    if options.what == "table":
        print(table([row for file in options.files or [options.results] for row in _read(file)]))
        return
    rows = _read(options.results)
    if options.what == "again":
        again(options.times, options.kernels, options.results, rows)
    else:
        same(options.trials, options.results, rows)
    print(table(_read(options.results)))


def again(times: int, most: int, results: Path, rows: list[dict[str, Any]]) -> None:
    """Judge the winners of the run store ``times`` times on this boot."""
    from knowledge.runs.queries import summaries
    from knowledge.runs.store import RunStore

    store, target = RunStore(), targets.load("auto")
    winners = [r for r in summaries(store, target=target.name) if r.best][:most]
    for run in winners:
        spec, candidate = store.get_run(run.id).spec, store.candidate(str(run.best))
        done = sum(r["what"] == "again" and r["kernel"] == run.id and r["boot"] == _boot() for r in rows)
        for _ in range(done, times):
            with Judge(spec, target) as judge:
                found = judge.confirm(candidate)
            _write(results, "again", f"{spec.name} {spec.dtype}", run.id, target, found)


def same(trials: int, results: Path, rows: list[dict[str, Any]]) -> None:
    """Judge PyTorch's own operators against eager PyTorch."""
    target = targets.load("auto")
    settings = JudgeSettings(compile_mode="off")
    done = sum(r["what"] == "same" and r["boot"] == _boot() for r in rows)
    names = list(_OPERATORS)
    judge: Judge | None = None
    try:
        for number in range(done, trials):
            name = names[number // _FRESH % len(names)]
            spec, candidate = _itself(name, target, number)
            if judge is None or judge.spec.name != name or number % _FRESH == 0:
                if judge is not None:
                    judge.close()
                judge = Judge(spec, target, settings)
            found = judge.evaluate(candidate)
            _write(results, "same", name, f"{name} {number}", target, found)
            if found.timing is not None and found.timing.low > 1:
                _write(results, "same, confirmed", name, f"{name} {number}", target, judge.confirm(candidate))
    finally:
        if judge is not None:
            judge.close()


def _itself(name: str, target: Target, number: int) -> tuple[KernelSpec, Candidate]:
    result = _OPERATORS[name]
    reference = _MODEL.format(name="Model", result=result)
    spec = KernelSpec(name=name, source="yaml", reference=reference, inputs=(InputSpec("x", _ROWS[target.kind]),))
    body = _MODEL.format(name="ModelNew", result=result)
    if target.kind == "cpu":
        text, language = cpp.wrap({"unused.cpp": 'extern "C" void unused() {}\n'}, body), "cpp"
    else:
        text, language = _NEVER_CALLED + body, "triton"
    return spec, Candidate(f"{name}-{number}", language, text, "manual")


def _write(results: Path, what: str, spec: str, kernel: str, target: Target, found: Evaluation) -> None:
    t = found.timing
    row = {
        "what": what, "spec": spec, "kernel": kernel, "target": target.name, "status": found.status, "message": found.message[:200],
        "ratio": t and t.ratio, "low": t and t.low, "high": t and t.high, "candidate_ms": t and t.candidate_ms,
        "boot": _boot(), "when": datetime.now(UTC).isoformat(timespec="seconds"),
    }  # fmt: skip
    with results.open("a") as file:
        file.write(json.dumps(row) + "\n")
    shown = f"{t.ratio:.3f} ({t.low:.3f} to {t.high:.3f})" if t else found.message.splitlines()[0][:100]
    print(f"{what:<16} {kernel:<50} {found.status:<10} {shown}", flush=True)


def table(rows: list[dict[str, Any]]) -> str:
    """Markdown of what was found: a line per kernel and boot, then the trials of PyTorch against itself."""
    lines = ["| kernel | boot | times | kernel ms | ratio, median | spread |", "|---|---|---|---|---|---|"]
    kernels: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        if row["what"] == "again" and row["ratio"]:
            kernels[row["spec"], row["boot"][:8]].append(row)
    for (spec, boot), found in sorted(kernels.items()):
        ratios = [r["ratio"] for r in found]
        middle = statistics.median(ratios)
        ms = statistics.median(r["candidate_ms"] for r in found)
        lines.append(
            f"| {spec} | {boot} | {len(found)} | {ms:.3g} | {middle:.3f} | {(max(ratios) - min(ratios)) / middle:.1%} |"
        )
    trials = [r for r in rows if r["what"] == "same" and r["ratio"]]
    if trials:
        above = sum(r["low"] > 1 for r in trials)
        below = sum(r["high"] < 1 for r in trials)
        confirmed = sum(r["what"] == "same, confirmed" and bool(r["low"]) and r["low"] > 1 for r in rows)
        lines += [
            "",
            f"PyTorch against itself: {len(trials)} trials, median ratio {statistics.median(r['ratio'] for r in trials):.4f}; "
            f"{above} intervals wholly above 1 ({above / len(trials):.1%}), {below} wholly below; of those above, {confirmed} are "
            "above 1 again in fresh processes.",
        ]
    return "\n".join(lines)


def _boot() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def _read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


if __name__ == "__main__":
    main()
