"""Whole searches by a model served on loopback, with the real judge: wrong kernels refused, right ones timed, replies kept."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agent.run import optimize, resume
from agent.settings import RunSettings
from evaluators import targets
from evaluators.spec import load
from knowledge.runs.store import RunStore
from tests.graph.toy import ToyRetriever
from tests.llm.conftest import Response, Server, chat
from tests.llm.quick import Shipped, nodding_judge, real_judge

YAML = """\
description: Twice x plus one.
dims:
  N: {cpu: 4096, gpu: 4096, range: [1, 65536]}
inputs:
  x: {shape: [N]}
reference: |
  def reference(x):
      return 2 * x + 1
"""


def kernel(expression: str, remark: str) -> str:
    return f'''Idea: {remark}

```python
import torch

SOURCES = {{
    "kernel.cpp": r"""
extern "C" void apply(const float* __restrict x, float* __restrict y, int n) {{
  for (int i = 0; i < n; ++i) y[i] = {expression};
}}
""",
}}


class ModelNew(torch.nn.Module):
    def forward(self, x):
        x = x.contiguous()
        y = torch.empty_like(x)
        _native().apply(_address(x), _address(y), x.numel())
        return y
```
'''


def model(asked: dict[str, Any]) -> Response:
    """A model whose second draft is right, and whose repair and improvement depend on being shown what they are about."""
    prompt = asked["messages"][0]["content"]
    if "a faster version" in prompt:
        assert "2.0f * x[i] + 1.0f" in prompt
        assert "speedup" in prompt
        return chat(kernel("x[i] + x[i] + 1.0f", "add instead of multiply"))
    if "a repair" in prompt:
        assert "mismatch" in prompt
        return chat("I give up.")
    return chat(
        kernel("2.0f * x[i] + 1.0f", "one loop") if "number 2" in prompt else kernel("2.0f * x[i]", "forget one")
    )


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunStore:
    monkeypatch.setenv("KERNELEVOLVE_HOME", str(tmp_path / "home"))
    return RunStore()


def test_a_model_drafts_improves_and_wins_under_the_real_judge(server: Server, store: RunStore, tmp_path: Path) -> None:
    (tmp_path / "twice.yaml").write_text(YAML)
    server.script = [model]
    settings = RunSettings(proposers=("llm",), evaluations=3, drafts=2, languages=("cpp",), roofline=None)
    parts: dict[str, Any] = {"retriever": ToyRetriever(), "store": store, "judge_factory": real_judge}
    result = optimize(
        load(str(tmp_path / "twice.yaml")), targets.load("cpu-x86-64"), settings, run_id="twice-1", **parts
    )
    assert [e.status for e in result.evaluations] == ["mismatch", "correct", "correct"]
    assert result.best is not None
    assert result.confirmed is not None
    assert result.confirmed.status == "correct"
    assert result.best.proposer == "llm"
    made = [store.candidate(i) for i in store.candidate_ids("twice-1")]
    assert [c.note for c in made] == ["forget one", "one loop", "add instead of multiply"]
    assert made[2].parents == (made[1].id,)
    assert all(c.chunk_ids == ("chunk-1",) for c in made)
    replies, costs = store.replies("twice-1"), store.costs("twice-1")
    assert [r.reply_ref for r in replies] == [c.reply_ref for c in made]
    assert len(costs) == len(server.requests) == 3
    assert sum(c.prompt_tokens for c in costs) == 300
    prompts = [s.prompt for s in store.steps("twice-1")]
    assert all(p is not None and p["tokens"] <= settings.prompt_tokens for p in prompts)
    assert resume("twice-1", **parts).best == result.best
    assert len(server.requests) == 3


def test_a_reply_without_code_costs_one_candidate_and_the_search_goes_on(
    server: Server, store: RunStore, tmp_path: Path
) -> None:
    (tmp_path / "twice.yaml").write_text(YAML)
    server.script = [model]
    settings = RunSettings(proposers=("llm",), evaluations=2, drafts=1, languages=("cpp",), roofline=None)
    parts: dict[str, Any] = {"retriever": ToyRetriever(), "store": store, "judge_factory": real_judge}
    result = optimize(
        load(str(tmp_path / "twice.yaml")), targets.load("cpu-x86-64"), settings, run_id="twice-2", **parts
    )
    assert [e.status for e in result.evaluations] == ["mismatch", "source_rejected"]
    assert "no class ModelNew" in result.evaluations[1].message
    assert result.best is None


def test_builtin_and_model_deal_the_drafts_and_then_take_turns(server: Server, store: RunStore, tmp_path: Path) -> None:
    (tmp_path / "twice.yaml").write_text(YAML)
    server.script = [lambda _: chat(kernel(f"2.0f * x[i] + 1.0f + {len(server.requests)}.0f", "another"))]
    settings = RunSettings(proposers=("builtin", "llm"), evaluations=5, drafts=2, languages=("cpp",), roofline=None)
    parts: dict[str, Any] = {"retriever": Shipped(), "store": store, "judge_factory": nodding_judge}
    optimize(load(str(tmp_path / "twice.yaml")), targets.load("cpu-x86-64"), settings, run_id="twice-3", **parts)
    made = [store.candidate(i) for i in store.candidate_ids("twice-3")]
    asked = [(c.step, c.proposer) for c in made]
    assert asked == [(0, "builtin"), (0, "llm"), (1, "llm"), (2, "builtin"), (3, "llm")]
