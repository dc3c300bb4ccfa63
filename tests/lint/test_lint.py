"""The lint as callers use it: reference code in a child process with bounds, a report in every case; sizes; the shipped specs."""

from __future__ import annotations

import json

import pytest

from evaluators.lint.finding import KINDS, WEAK, Finding, LintReport
from evaluators.lint.lint import LintSettings, lint
from evaluators.lint.sizes import cost, smaller
from evaluators.spec import load
from evaluators.spec.kernel_spec import Dim, InputSpec, KernelSpec
from tests.lint.planted import Said, planted


def short(spec: KernelSpec, seconds: float = 20.0, memory: int = 2 << 30) -> LintReport:
    return lint(spec, None, LintSettings(seconds=seconds, memory_bytes=memory))


def test_a_report_in_one_piece() -> None:
    report = short(planted("return torch.relu(x)", InputSpec("x", (16, 24), dist="uniform")))
    assert report.weak
    assert report.repair == "repaired"
    assert {f.kind for f in report.errors} == {"identity_pass"}
    plain = json.loads(json.dumps(report.to_dict()))
    assert plain["repaired_digest"] == report.repaired.digest if report.repaired else False
    assert plain["findings"][0]["kind"] in KINDS


def test_an_unused_argument_is_a_warning_in_the_report() -> None:
    report = short(planted("return x.exp()", InputSpec("x", (16, 24)), InputSpec("unused", (16, 24))))
    assert {f.kind for f in report.findings} == {"input_unused"}
    assert not report.weak


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("import os\nos.kill(os.getpid(), 11)", "signal 11"),
        ("import os\nos._exit(3)", "code 3"),
        ("if not x.is_meta:\n    y = [torch.ones(1 << 27) for _ in range(64)]\nreturn x", "allocate"),
        ("import time\ntime.sleep(600)", "not within"),
        ("import os\nos.closerange(3, 4096)\nreturn x", "ended"),
    ],
)
def test_a_reference_that_misbehaves_costs_a_finding(body: str, why: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A crash, an exit, a memory bomb, a hang and closed descriptors end the child alone, and say at which stage."""
    monkeypatch.setattr("evaluators.lint.lint.GRACE_S", 4.0)
    (finding,) = short(planted(body), seconds=1.0 if "sleep" in body else 20.0).findings
    assert (finding.kind, finding.severity) == ("reference_fails", "error")
    assert why in finding.message


def test_sizes_shrink_in_files_without_dims() -> None:
    """Batches first; sizes that belong together go together; what breaks the reference stays."""
    text = (
        "import torch\nimport torch.nn as nn\n\nbatch_size = 4096\nheads = 8\nwidth = 64 * 64\n\n\nclass Model(nn.Module):\n"
        "    def forward(self, x, w):\n        return (x @ w).reshape(x.shape[0], 8, -1)\n\n\n"
        "def get_inputs():\n    return [torch.rand(batch_size, width), torch.rand(4096, 512)]\n\n\ndef get_init_inputs():\n    return []\n"
    )
    spec = KernelSpec("p", "kernelbench", text, mode="train")
    changed, sizes = smaller(spec, cost(spec), 0.001, 20.0)
    assert sizes["batch_size"][0] == 4096
    assert cost(changed).seconds < cost(spec).seconds / 100
    assert "heads" not in sizes
    assert sizes["width"][1] == sizes["get_inputs[0]"][1]


def test_dims_shrink_within_their_ranges() -> None:
    dims = {"M": Dim(1 << 20, 1 << 10, 1 << 20), "D": Dim(512, 512, 512)}
    spec = planted("return x.exp()", InputSpec("x", ("M", "D")), dims=dims)
    said = Said(spec)
    assert said.sizes == {"M": [1 << 20, said.sizes["M"][1]]}
    assert 1 << 10 <= said.sizes["M"][1] < 1 << 20


@pytest.mark.parametrize("name", ["cumsum", "embedding_bag", "gemm_bias_gelu", "mapid", "softmax", "kernelbench_gelu"])
def test_shipped_specs_have_no_error(name: str) -> None:
    said = Said(load(name))
    assert not said.kinds("error"), [(f.kind, f.where, f.message) for f in said.findings]


def test_kinds_are_explained() -> None:
    assert set(WEAK) <= set(KINDS)
    assert all(text for text in KINDS.values())
    assert Finding("zeros_pass", "error", "output", "m", "a").to_dict()["evidence"] == {}
