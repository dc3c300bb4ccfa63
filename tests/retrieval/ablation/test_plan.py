"""A malformed plan is refused by one line that names file and field."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from retrieval.ablation.plan import load, parse
from retrieval.arms import Arms
from retrieval.errors import PlanError

GOOD: dict[str, Any] = {"factors": {"structure": [True, False]}, "specs": ["softmax"], "evaluations": 2}


@pytest.mark.parametrize(
    ("change", "field", "says"),
    [
        ({"factor": {}}, "factor:", "did you mean 'factors'?"),
        ({"factors": {"structur": [True, False]}}, "factors.structur:", "did you mean 'structure'?"),
        ({"factors": {"structure": [True]}}, "factors.structure:", "on, off"),
        ({"factors": {"structure": ["yes", "no"]}}, "factors.structure:", "on, off"),
        ({"factors": {"structure": 3}}, "factors.structure:", "levels"),
        ({"factors": []}, "factors:", "mapping"),
        ({"factors": {"r": {"a": {}, "b": {"lexcal": False}}}}, "factors.r.b.lexcal:", "lexical"),
        ({"factors": {"r": {"a": {}, "b": {"lexical": 0}}}}, "factors.r.b.lexical:", "on or off"),
        ({"factors": {"dense": [True, False], "r": {"a": {}, "b": {"dense": False}}}}, "factors.r:", "factors.dense"),
        ({"factors": {n: [True, False] for n in ("dense", "lexical", "structure")}}, "factors:", "leave one on"),
        ({"factors": {f"f{n}": {"a": {}, "b": {}} for n in range(99)}}, "factors.f16:", "too many"),
        ({"fraction": "third"}, "fraction:", "full or half"),
        ({"fraction": "half"}, "fraction:", "three factors"),
        ({"arms": ["nothing"]}, "arms:", "none"),
        ({"arms": ["none", "none"]}, "arms:", "twice"),
        ({"arms": {"mine": {"dense": False, "lexical": False, "structure": False}}}, "arms.mine:", "leave one on"),
        ({"arms": 3}, "arms:", "list"),
        ({"factors": None}, "factors:", "only one arm"),
        ({"specs": "softmax"}, "specs:", "list"),
        ({"specs": []}, "specs:", "suite"),
        ({"evaluations": 0}, "evaluations:", "from 1"),
        ({"evaluations": None}, "evaluations:", "missing"),
        ({"evaluations": True}, "evaluations:", "whole number"),
        ({"seeds": []}, "seeds:", "different"),
        ({"seeds": [1, 1]}, "seeds:", "different"),
        ({"seeds": -1}, "seeds:", "from 1"),
        ({"seed": "x"}, "seed:", "whole number"),
        ({"target": 3}, "target:", "text"),
    ],
)  # fmt: skip
def test_malformed(change: dict[str, Any], field: str, says: str) -> None:
    with pytest.raises(PlanError) as caught:
        parse(GOOD | change, "plan.yaml", "plan")
    text = str(caught.value)
    assert text.startswith(f"plan.yaml: {field}")
    assert says in text
    assert "\n" not in text


def test_not_a_mapping_and_not_there(tmp_path: Path) -> None:
    with pytest.raises(PlanError, match="no mapping"):
        parse([1], "plan.yaml", "plan")
    with pytest.raises(PlanError, match="no such file"):
        load(str(tmp_path / "p.yaml"))
    with pytest.raises(PlanError, match="did you mean 'smoke'"):
        load("smok")
    with pytest.raises(PlanError, match="cannot name"):
        parse(GOOD, "plan.yaml", "../elsewhere")


def test_controls_are_what_they_say() -> None:
    plan = parse(GOOD | {"arms": ["none", "shuffled"], "seeds": [3, 5]}, "plan.yaml", "plan")
    none, shuffled = plan.arms[-2:]
    assert Arms(**none.switches) == Arms(uniform=True, moves=False)
    assert Arms(**shuffled.switches) == Arms(shuffle=True)
    assert plan.seeds == (3, 5)
