"""Moves: when they apply, what they do to knobs, and that a result never leaves the knob's space."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knowledge.errors import FrontMatterError
from knowledge.knobs import Knob
from knowledge.moves import Move, parse_moves


def move(**fields: Any) -> Move:
    item = {"when": {"diagnosis": "spill"}, "do": {"knob": "warps", "multiply": 2}, "why": "w", **fields}
    return parse_moves([item], "a.md")[0]


SPACE = {"warps": Knob((1, 2, 4, 8), 4), "order": Knob(("rows", "cols"), "rows"), "stream": Knob((True, False), False)}
KNOBS: dict[str, Any] = {"warps": 4, "order": "rows", "stream": False}


def test_conditions() -> None:
    m = move(when={"diagnosis": ["spill", "low_occupancy"], "language": "triton", "pattern": "row_norm"})
    facts: dict[str, Any] = {"diagnosis": "spill", "language": "triton", "pattern": ("pointwise", "row_norm")}
    assert m.applies(facts, KNOBS)
    assert not m.applies({**facts, "language": "cpp"}, KNOBS)
    assert not m.applies({**facts, "pattern": "scan"}, KNOBS)
    assert not m.applies({"diagnosis": "spill"}, KNOBS), "an unknown fact does not hold"
    assert not m.applies(facts, {"order": "rows"}), "the knob must exist"


def test_unless() -> None:
    m = move(unless={"warps": [8, 16]})
    assert m.applies({"diagnosis": "spill"}, KNOBS)
    assert not m.applies({"diagnosis": "spill"}, {**KNOBS, "warps": 8})
    switch = move(unless={"warps": True})
    assert switch.applies({"diagnosis": "spill"}, {**KNOBS, "warps": 1}), "1 is not a switch that is on"


@pytest.mark.parametrize(
    ("do", "knobs", "expected"),
    [
        ({"knob": "warps", "multiply": 2}, {}, {"warps": 8}),
        ({"knob": "warps", "multiply": 0.5}, {}, {"warps": 2}),
        ({"knob": "warps", "multiply": 16}, {}, {"warps": 8}),
        ({"knob": "warps", "multiply": 2}, {"warps": 8}, None),
        ({"knob": "warps", "multiply": 1}, {}, None),
        ({"knob": "warps", "add": 1}, {}, {"warps": 8}),
        ({"knob": "warps", "add": -3}, {}, {"warps": 1}),
        ({"knob": "warps", "set": 1}, {}, {"warps": 1}),
        ({"knob": "warps", "set": 16}, {}, {"warps": 8}),
        ({"knob": "warps", "set": 4}, {}, None),
        ({"knob": "order", "set": "cols"}, {}, {"order": "cols"}),
        ({"knob": "order", "set": "tiles"}, {}, None),
        ({"knob": "order", "multiply": 2}, {}, None),
        ({"knob": "stream", "set": True}, {}, {"stream": True}),
        ({"knob": "absent", "set": 1}, {}, None),
        ({"exemplar": "split"}, {}, None),
    ],
)
def test_apply(do: dict[str, Any], knobs: dict[str, Any], expected: dict[str, Any] | None) -> None:
    now = {**KNOBS, **knobs}
    result = move(do=do).apply(now, SPACE)
    assert result == (None if expected is None else {**now, **expected})


@given(
    values=st.lists(st.integers(0, 4096), min_size=1, max_size=6, unique=True),
    pick=st.integers(0, 5),
    action=st.sampled_from(["multiply", "add", "set"]),
    amount=st.integers(-8, 8),
)
def test_stays_in_space_and_moves_the_right_way(values: list[int], pick: int, action: str, amount: int) -> None:
    now = values[pick % len(values)]
    result = move(do={"knob": "k", action: amount}).apply({"k": now}, {"k": Knob(tuple(values), now)})
    if result is not None:
        assert result["k"] in values
        assert result["k"] != now
        wanted = now * amount if action == "multiply" else now + amount
        if action != "set":
            assert (result["k"] > now) == (wanted > now)


def test_exemplar_move_does_not_apply_to_itself() -> None:
    m = move(do={"exemplar": "split"})
    assert (m.exemplar, m.knob) == ("split", None)
    assert m.applies({"diagnosis": "spill", "exemplar": "rows"}, KNOBS)
    assert not m.applies({"diagnosis": "spill", "exemplar": "split"}, KNOBS)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"when": {}}, "a.md: moves[0].when: at least one"),
        ({"when": {"weather": "rain"}}, "a.md: moves[0].when.weather: not one of"),
        ({"do": {"knob": "x"}}, "a.md: moves[0].do: expected"),
        ({"do": {"knob": "x", "set": 1, "add": 2}}, "a.md: moves[0].do: expected"),
        ({"do": {"knob": "x", "multiply": "two"}}, "a.md: moves[0].do.multiply: expected a number"),
        ({"do": None}, "a.md: moves[0].do: expected"),
        ({"why": ""}, "a.md: moves[0].why: one line"),
        ({"unless": {"x": []}}, "a.md: moves[0].unless.x: expected a value"),
        ({"unles": {"x": 1}}, "a.md: moves[0].unles: unknown field"),
    ],
)
def test_malformed(fields: dict[str, Any], expected: str) -> None:
    with pytest.raises(FrontMatterError) as caught:
        move(**fields)
    assert str(caught.value).startswith(expected)
