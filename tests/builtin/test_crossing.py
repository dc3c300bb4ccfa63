"""Crossover of plans: the candidate is neither parent, and its note names what was taken from whom."""

from __future__ import annotations

from typing import Any

from agent.proposers.builtin.crossing import crossed
from agent.proposers.builtin.plan import Choice, flatten
from evaluators import spec as specs
from evaluators import targets
from evaluators.trial import traced
from knowledge.exemplars import load_all

CPP = {e.name: e for e in load_all() if e.language == "cpp"}


def facts(spec: str) -> dict[str, Any]:
    from agent.proposers.builtin import cpp
    from agent.proposers.builtin.propose import _device_facts

    program = traced(specs.load(spec))
    device = _device_facts(targets.load("cpu-x86-64"))
    return {k.name: {**cpp.facts(k, program), **device} for k in program.kernels}


def choice(exemplar: str, **knobs: Any) -> Choice:
    return Choice(CPP[exemplar], {**CPP[exemplar].defaults, **knobs})


def test_a_mixture_of_knobs_is_neither_parent_and_named() -> None:
    known = facts("softmax")
    (kernel,) = known
    mine = {kernel: choice("cpp_row_resident")}
    defaults = dict(mine[kernel].knobs)
    names = [n for n, k in CPP["cpp_row_resident"].knobs.items() if len(k.values) > 1][:2]
    other = {n: next(v for v in CPP["cpp_row_resident"].knobs[n].values if v != defaults[n]) for n in names}
    theirs = {kernel: choice("cpp_row_resident", **other)}
    made = list(crossed(mine, theirs, [kernel], known))
    assert made
    for plan, told in made:
        assert flatten(plan) not in (flatten(mine), flatten(theirs))
        (name,) = [n for n in names if plan[kernel].knobs[n] != defaults[n]]
        assert told == f"{kernel}.{name} {defaults[name]} → {other[name]}"


def test_parents_that_differ_in_one_thing_have_nothing_to_cross() -> None:
    known = facts("softmax")
    (kernel,) = known
    mine, theirs = {kernel: choice("cpp_row_resident")}, {kernel: choice("cpp_pointwise")}
    assert list(crossed(mine, theirs, [kernel], known)) == []
    assert list(crossed(mine, mine, [kernel], known)) == []


def test_of_several_kernels_a_whole_schedule_is_taken() -> None:
    known = {"k0": {}, "k1": {}}
    mine = {k: choice("cpp_row_resident") for k in known}
    theirs = {k: choice("cpp_pointwise") for k in known}
    made = list(crossed(mine, theirs, ["k1", "k0"], known))
    assert [told for _, told in made] == ["k1: cpp_pointwise", "k0: cpp_pointwise"]
    assert made[0][0]["k0"].exemplar.name == "cpp_row_resident"
