"""The run over a folder of problem files: one line per problem, resumed without doing one twice, and a table of the last reports."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "benchmarks" / "lint_kernelbench.py"
PROBLEM = """import torch


class Model(torch.nn.Module):
    def forward(self, x):
        return {result}


def get_inputs():
    return [torch.rand(16, 24)]


def get_init_inputs():
    return []
"""


def script(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(SCRIPT), *map(str, arguments)]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(command, capture_output=True, text=True, check=True, env=env)


def test_a_run_resumes_and_is_tabled(tmp_path: Path) -> None:
    folder = tmp_path / "level1"
    folder.mkdir()
    (folder / "2_relu.py").write_text(PROBLEM.format(result="torch.relu(x)"))
    (folder / "10_softmax.py").write_text(PROBLEM.format(result="torch.softmax(x, -1)"))
    results = tmp_path / "results.jsonl"
    arguments = (tmp_path, "--levels", "1", "--results", results)
    assert len(script(*arguments).stderr.strip().splitlines()) == 2
    rows = [json.loads(line) for line in results.read_text().splitlines()]
    assert [(r["problem"], r["weak"], r["repair"]) for r in rows] == [
        ("2_relu", True, "repaired"),
        ("10_softmax", False, "not needed"),
    ]
    assert script(*arguments).stderr == "", "nothing is done twice"
    table = script(results, "--table").stdout
    assert "| problems | 2 | 2 |" in table
    assert "| 1/2_relu | identity | line 6, relu |" in table
