"""Measure every Triton schedule family on the starter suite's GPU shapes: correctness, time, registers, spills.

    python benchmarks/triton_families.py --out DIR [--specs a,b] [--dtypes float32,bfloat16] [--seconds-per-spec 14]

For each spec and dtype: eager and torch.compile, then every exemplar that fits each kernel with its default knobs, then
settings around the best ones while time remains. Times are medians of CUDA events with L2 overwritten before every call; a
variant counts only if its error against a float64 run of the reference is at most twice eager's own (or below a small
floor). Variants are compiled by worker processes, and a hang or a broken device context costs one schedule. Everything is
written to DIR as it is found: a record per spec and dtype, results.json, table.txt.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))
import triton_variants as variants

SPECS = (
    "pointwise_chain residual_rmsnorm_swiglu layernorm rmsnorm_dim1 softmax colsum sum_of_squares cumsum cross_entropy "
    "gemm_bias_gelu bmm_small embedding_bag mapid jagged_mean"
).split()
SILENCE_S = 60
"""A measuring process that reports nothing for this long hangs; it is ended and another continues without the schedule it ran."""


def main() -> None:
    """Entry point."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", required=True, type=Path)
    parser.add_argument("--specs", default=",".join(SPECS))
    parser.add_argument("--dtypes", default="float32,bfloat16")
    parser.add_argument("--seconds-per-spec", type=float, default=11.0)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--total-seconds", type=float, default=480.0)
    parser.add_argument("--workers", type=int, default=max(2, (os.cpu_count() or 4) - 2))
    parser.add_argument(
        "--also", default="[]", help='JSON list of {"spec", "exemplar", "knobs"} to try before the defaults'
    )
    parser.add_argument("--jobs", default="", help=argparse.SUPPRESS)
    options = parser.parse_args()
    out: Path = options.out.resolve()
    options.out = out
    (out / "modules").mkdir(parents=True, exist_ok=True)
    if options.jobs:
        from triton_measure import measure_all

        jobs, without = json.loads(options.jobs)
        measure_all([(s, d) for s, d in jobs], out, without, options)
        os._exit(0)
    wanted = [(s, d) for s in options.specs.split(",") for d in options.dtypes.split(",")]
    for s, d in wanted:
        (out / f"{s}_{d}.json").unlink(missing_ok=True)
    watch(wanted, out, options)
    table([read(out, s, d) for s, d in wanted], out)


def read(out: Path, spec: str, dtype: str) -> dict[str, Any]:
    """A spec's record as the measuring process left it."""
    path = out / f"{spec}_{dtype}.json"
    if path.exists():
        found: dict[str, Any] = json.loads(path.read_text())
        return found
    return {"spec": spec, "dtype": dtype, "variants": [], "crashed": "never reached"}


def watch(wanted: list[tuple[str, str]], out: Path, options: argparse.Namespace) -> None:
    """Run measuring processes until every job is done or time is up."""
    began = time.monotonic()
    without: dict[str, list[str]] = {}
    attempts: dict[tuple[str, str], int] = {}
    while True:
        left = [j for j in wanted if not read(out, *j).get("done") and attempts.get(j, 0) < 3]
        remaining = options.total_seconds - (time.monotonic() - began)
        if not left or remaining < 20:
            return
        doing = out / "doing.json"
        doing.write_text("[]")
        command = [sys.executable, __file__, "--out", str(out), "--jobs", json.dumps([left, without])]
        command += ["--seconds-per-spec", str(options.seconds_per_spec), "--rounds", str(options.rounds)]
        command += ["--also", options.also]
        command += ["--total-seconds", str(remaining), "--workers", str(options.workers)]
        child = subprocess.Popen(command, start_new_session=True)
        while child.poll() is None:
            time.sleep(0.5)
            quiet = time.time() - doing.stat().st_mtime
            allowed = SILENCE_S if doing.read_text() != "[]" else 4 * SILENCE_S
            if quiet > allowed or time.monotonic() - began > options.total_seconds + 30:
                os.killpg(child.pid, signal.SIGKILL)
                child.wait()
        try:
            spec, dtype, what = json.loads(doing.read_text())
        except ValueError:
            print("the measuring process ended before its first report", flush=True)
            attempts |= {j: attempts.get(j, 0) + 1 for j in left}
            continue
        record = read(out, spec, dtype)
        if not record.get("done"):
            attempts[spec, dtype] = attempts.get((spec, dtype), 0) + 1
            without.setdefault(f"{spec}/{dtype}", []).append(what.split()[0])
            print(f"{spec} {dtype}: ended or hung while running {what}; continuing without it", flush=True)
            (out / f"crash_{spec}_{dtype}_{attempts[spec, dtype]}.txt").write_text(what)


def table(records: list[dict[str, Any]], out: Path) -> None:
    """Print the table and write it and all records down."""
    rows = [["spec", "dtype", "eager", "compile", "ours", "ratio", "of copy", "best"]] + [
        variants.row(r) for r in records
    ]
    widths = [max(len(r[i]) for r in rows) for i in range(7)]
    lines = ["  ".join([*(c.ljust(w) for c, w in zip(r, widths, strict=False)), r[7]]) for r in rows]
    ratios = [float(r[5]) for r in rows[1:] if r[5] not in ("-", "nan")]
    if ratios:
        product = 1.0
        for x in ratios:
            product *= x
        lines.append(f"{len(ratios)} of {len(records)} correct, geometric mean {product ** (1 / len(ratios)):.3f}")
    text = "\n".join(lines)
    (out / "table.txt").write_text(text + "\n")
    (out / "results.json").write_text(json.dumps(records, indent=1))
    print(text)


if __name__ == "__main__":
    main()
