"""Moves: typed advice in a document's front matter. Symptom → knob change or exemplar, with its precondition.

moves:
  - when:   {diagnosis: spill, language: triton}
    do:     {knob: num_warps, multiply: 2}
    unless: {num_warps: 16}
    why:    the same tile over twice the threads halves registers per thread
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from knowledge.errors import FrontMatterError
from knowledge.knobs import Knob, Value

CONDITIONS = ("diagnosis", "language", "pattern", "exemplar", "phase")
ACTIONS = ("multiply", "set", "add")


@dataclass(frozen=True)
class Move:
    """One piece of advice. ``when`` maps conditions to accepted values, ``unless`` knob names to values that forbid
    the move.

    ``do`` is ``{"knob": NAME, "multiply" | "set" | "add": VALUE}`` or ``{"exemplar": NAME}``.
    """

    when: Mapping[str, tuple[Value, ...]]
    do: Mapping[str, Any]
    why: str
    unless: Mapping[str, tuple[Value, ...]] = field(default_factory=dict)

    @property
    def knob(self) -> str | None:
        """The knob it changes, or None where it names an exemplar."""
        return self.do.get("knob")

    @property
    def exemplar(self) -> str | None:
        """The exemplar it advises, or None where it changes a knob."""
        return self.do.get("exemplar")

    def applies(self, facts: Mapping[str, Any], knobs: Mapping[str, Any]) -> bool:
        """Whether every condition holds, the knob to change exists, and no ``unless`` value is set.

        A fact may be one value or a collection of them (the patterns of a program); one common value is enough. A
        condition whose fact is unknown does not hold. A move to the exemplar already in use does not apply.
        """
        for name, accepted in self.when.items():
            if not _as_set(facts.get(name)) & set(accepted):
                return False
        if any(name in knobs and _same(knobs[name], values) for name, values in self.unless.items()):
            return False
        if self.knob is not None:
            return self.knob in knobs
        return self.exemplar not in _as_set(facts.get("exemplar"))

    def apply(self, knobs: Mapping[str, Any], space: Mapping[str, Knob]) -> dict[str, Any] | None:
        """Knob values after the move, inside ``space``; None where it changes nothing.

        The wanted value is clamped to the knob's list: for ``multiply`` and ``add`` the listed value nearest to it
        (by ratio where both are positive) among those on the move's side of the present value; for ``set`` the
        nearest listed number, or exactly the listed text or truth value. A move to another exemplar changes no knob:
        None.
        """
        name = self.knob
        if name is None or name not in space or name not in knobs:
            return None
        now, values = knobs[name], space[name].values
        if "set" in self.do:
            new = _nearest(self.do["set"], values)
        else:
            if not _number(now):
                return None
            wanted = now * self.do["multiply"] if "multiply" in self.do else now + self.do["add"]
            onward = [v for v in values if _number(v) and (v > now if wanted > now else v < now)]
            new = _nearest(wanted, onward) if wanted != now else None
        if new is None or (new == now and type(new) is type(now)):
            return None
        return {**knobs, name: new}


def parse_moves(value: Any, file: str) -> tuple[Move, ...]:
    """Moves of one front matter.

    Raises :class:`knowledge.errors.FrontMatterError` naming file, move number and field.
    """
    if value is None:
        return ()
    if not isinstance(value, list):
        raise FrontMatterError(file, "moves", f"expected a list, got {type(value).__name__}")
    return tuple(_parse_move(item, file, f"moves[{i}]") for i, item in enumerate(value))


def _parse_move(item: Any, file: str, where: str) -> Move:
    if not isinstance(item, Mapping):
        raise FrontMatterError(file, where, f"expected when/do/unless/why, got {item!r}")
    for name in item:
        if name not in ("when", "do", "unless", "why"):
            raise FrontMatterError(file, f"{where}.{name}", "unknown field; a move has when, do, unless, why")
    when = _values(item.get("when"), file, f"{where}.when")
    if not when:
        raise FrontMatterError(file, f"{where}.when", f"at least one of {', '.join(CONDITIONS)} is needed")
    for name in when:
        if name not in CONDITIONS:
            raise FrontMatterError(file, f"{where}.when.{name}", f"not one of {', '.join(CONDITIONS)}")
    why = item.get("why")
    if not isinstance(why, str) or not why.strip():
        raise FrontMatterError(file, f"{where}.why", "one line of text is needed")
    do = _parse_do(item.get("do"), file, f"{where}.do")
    return Move(when, do, " ".join(why.split()), _values(item.get("unless"), file, f"{where}.unless"))


def _parse_do(do: Any, file: str, where: str) -> dict[str, Any]:
    if not isinstance(do, Mapping):
        raise FrontMatterError(file, where, "expected {knob: NAME, multiply|set|add: VALUE} or {exemplar: NAME}")
    if set(do) == {"exemplar"} and isinstance(do["exemplar"], str):
        return dict(do)
    actions = [a for a in ACTIONS if a in do]
    if not isinstance(do.get("knob"), str) or len(actions) != 1 or len(do) != 2:
        raise FrontMatterError(
            file, where, f"expected {{knob: NAME, multiply|set|add: VALUE}} or {{exemplar: NAME}}, got {do!r}"
        )
    value = do[actions[0]]
    if actions[0] == "set":
        if not isinstance(value, (int, str, bool)):
            raise FrontMatterError(file, f"{where}.set", f"expected a number, text or truth value, got {value!r}")
    elif isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise FrontMatterError(file, f"{where}.{actions[0]}", f"expected a number, got {value!r}")
    return dict(do)


def _values(value: Any, file: str, where: str) -> dict[str, tuple[Value, ...]]:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise FrontMatterError(file, where, f"expected name: value pairs, got {value!r}")
    out: dict[str, tuple[Value, ...]] = {}
    for name, accepted in value.items():
        items = accepted if isinstance(accepted, list) else [accepted]
        if not items or not all(isinstance(v, (int, str, bool)) for v in items):
            raise FrontMatterError(file, f"{where}.{name}", f"expected a value or a list of values, got {accepted!r}")
        out[str(name)] = tuple(items)
    return out


def _as_set(fact: Any) -> set[Any]:
    if fact is None:
        return set()
    return set(fact) if isinstance(fact, (list, tuple, set, frozenset)) else {fact}


def _number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _same(value: Any, accepted: Sequence[Value]) -> bool:
    # True == 1 in Python, but a knob set to 1 is not a switch that is on.
    return any(value == a and isinstance(value, bool) == isinstance(a, bool) for a in accepted)


def _nearest(wanted: Any, values: Sequence[Value]) -> Value | None:
    if not _number(wanted):
        return next((v for v in values if _same(v, (wanted,))), None)
    numbers = [v for v in values if isinstance(v, int) and not isinstance(v, bool)]
    if not numbers:
        return None

    def distance(v: int) -> float:
        return abs(math.log(v / wanted)) if v > 0 and wanted > 0 else float("inf") if wanted > 0 else abs(v - wanted)

    return min(numbers, key=lambda v: (distance(v), abs(v - wanted)))
