"""Lint every problem of a KernelBench checkout, and table what is found.

    python benchmarks/lint_kernelbench.py PATH/KernelBench            # writes lint-kernelbench.jsonl, resumes from it
    python benchmarks/lint_kernelbench.py PATH/KernelBench --retry --seconds 240 --memory 12
    python benchmarks/lint_kernelbench.py --table lint-kernelbench.jsonl > table.md

One process forked per problem, one thread, lowest priority. Problems of which one run would take long on one core are checked at smaller
sizes, which the table says (``s``). A line of the file is one report, as ``kernelevolve lint --json`` prints it.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

from evaluators.lint.lint import LintSettings

WEAK = ("zeros_pass", "constant_pass", "identity_pass", "other_seed_passes", "input_ignored")


def main() -> None:
    """Entry point."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("path", type=Path, help="the folder with level1 … level3, or with --table the results")
    parser.add_argument("--levels", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--seconds", type=float, default=40.0, help="time of one problem")
    parser.add_argument("--memory", type=float, default=6.0, help="GiB of one problem's process")
    parser.add_argument("--results", type=Path, default=Path("lint-kernelbench.jsonl"))
    parser.add_argument("--retry", action="store_true", help="do again what did not finish, or found no repair")
    parser.add_argument("--table", action="store_true", help="print the table of a results file")
    options = parser.parse_args()
    if options.table:
        print(table(_read(options.path)))
    else:
        settings = LintSettings(options.seconds, int(options.memory * 2**30), forked=True)
        run(options.path, options.levels, settings, options.results, options.retry)


def run(path: Path, levels: list[int], settings: LintSettings, results: Path, retry: bool) -> None:
    """Lint what the results do not hold yet; one line per problem is appended as soon as it is known."""
    os.nice(19)
    import torch

    torch.set_num_threads(1)
    from evaluators import targets
    from evaluators.lint import child, sizes  # noqa: F401  # imported here, before the forks
    from evaluators.lint.lint import lint
    from evaluators.spec import KernelSpec, load

    # What PyTorch imports at the first run on the meta device is imported before the forks too.
    text = "import torch\n\n\nclass Model(torch.nn.Module):\n    def forward(self):\n        return torch.relu(torch.ones(2))\n"
    sizes.cost(KernelSpec("first", "yaml", text, inputs=()))
    rows = _read(results) if results.exists() else []
    done = {(r["level"], r["problem"]) for r in rows if not (retry and _open(r))}
    problems = [(level, p) for level in levels for p in sorted((path / f"level{level}").glob("*.py"), key=_number)]
    target = targets.load("nvidia-h200")
    begin = time.monotonic()
    for at, (level, problem) in enumerate(problems):
        if (level, problem.stem) in done:
            continue
        report = lint(load(str(problem)), target, settings)
        plain = report.to_dict()
        plain.pop("repaired")
        with results.open("a") as file:
            file.write(json.dumps({"level": level, "problem": problem.stem, **plain}) + "\n")
        found = Counter(f.severity for f in report.findings)
        print(
            f"{at + 1}/{len(problems)} level {level} {problem.stem}: {report.repair}, {dict(found)}, {report.seconds:.1f} s, "
            f"{time.monotonic() - begin:.0f} s in all",
            file=sys.stderr,
            flush=True,
        )


def _open(row: dict[str, Any]) -> bool:
    """Whether more time might say more."""
    return (
        row["repair"] in ("unrepairable", "not tried")
        or _has(row, "unfinished", "info", "warning")
        or _has(row, "reference_fails", "error")
    )


def _number(path: Path) -> int:
    found = re.match(r"\d+", path.stem)
    return int(found[0]) if found else 0


def _read(path: Path) -> list[dict[str, Any]]:
    """The last report of each problem."""
    rows = (json.loads(line) for line in path.read_text().splitlines())
    return list({(r["level"], r["problem"]): r for r in rows}.values())


def table(rows: list[dict[str, Any]]) -> str:
    """Markdown: totals by level, then one line per problem."""
    rows = sorted(rows, key=lambda r: (r["level"], int(re.match(r"\d+", r["problem"])[0])))  # type: ignore[index]
    levels = sorted({r["level"] for r in rows})
    lines = ["| | " + " | ".join(f"level {n}" for n in levels) + " | all |", "|---" * (len(levels) + 2) + "|"]

    def total(name: str, holds: Any) -> None:
        counts = [sum(bool(holds(r)) for r in rows if r["level"] == n) for n in levels]
        lines.append(f"| {name} | " + " | ".join(map(str, [*counts, sum(counts)])) + " |")

    total("problems", lambda r: True)
    total("something trivial passes", lambda r: r["weak"])
    for kind in WEAK:
        total(f"– `{kind}`", lambda r, kind=kind: _has(r, kind, "error"))
    total("– repaired", lambda r: r["weak"] and r["repair"] == "repaired")
    total("– unrepairable", lambda r: r["weak"] and r["repair"] == "unrepairable")
    total(
        "a trivial answer would pass at 1e-4 (fails here)",
        lambda r: not r["weak"] and _has(r, "faint_output", "warning"),
    )
    total(
        "a trivial answer would pass at 1e-2 (fails here)", lambda r: not r["weak"] and _has(r, "faint_output", "info")
    )
    for kind in ("dead_operator", "constant_parameter", "parameter_ignored", "input_partly_ignored", "tolerance_loose", "random", "mutates",
                 "nondeterministic", "nonfinite", "precision", "too_large", "reference_fails", "unfinished"):  # fmt: skip
        total(f"`{kind}`, warning or error", lambda r, kind=kind: _has(r, kind, "warning", "error"))
    total("checked at smaller sizes", lambda r: r["sizes"])
    total("no error and no warning", lambda r: not any(f["severity"] in ("error", "warning") for f in r["findings"]))
    lines += [
        "",
        "| problem | trivial answers that pass | dead operators | other | repair | s |",
        "|---|---|---|---|---|---|",
    ]
    return "\n".join([*lines, *(_line(r) for r in rows)])


def _has(row: dict[str, Any], kind: str, *severities: str) -> bool:
    return any(f["kind"] == kind and f["severity"] in severities for f in row["findings"])


def _line(row: dict[str, Any]) -> str:
    weak = sorted(
        {f["kind"].removesuffix("_pass").removesuffix("_passes") for f in row["findings"] if f["kind"] in WEAK}
    )
    dead = [f["where"] for f in row["findings"] if f["kind"] == "dead_operator" and f["severity"] != "info"]
    other = sorted(
        {
            f["kind"] + (f" {f['evidence']['tolerance']:g}" if f["kind"] == "faint_output" else "")
            for f in row["findings"]
            if f["kind"] not in (*WEAK, "dead_operator", "sizes")
            and (f["severity"] != "info" or f["kind"] in ("faint_output", "wide_indices", "unfinished"))
        }
    )
    repair = row["repair"] if row["repair"] != "not needed" else ""
    shown = "; ".join(dead[:3]) + (f" and {len(dead) - 3} more" if len(dead) > 3 else "")
    cells = (
        f"{row['level']}/{row['problem']}",
        ", ".join(weak),
        shown,
        ", ".join(other),
        repair,
        "s" if row["sizes"] else "",
    )
    return "| " + " | ".join(cells) + " |"


if __name__ == "__main__":
    main()
