"""Turn pydantic's validation errors into one line a person can act on."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from pydantic import ValidationError

from evaluators.suggest import suggest

# Names of union branches in pydantic's paths: they are not fields of a file.
_BRANCHES = ("int", "float", "str", "bool", "none", "[key]")


def explain(
    error: ValidationError,
    fields: Callable[[Sequence[str]], Iterable[str]],
    wanted: Callable[[Sequence[str]], str | None],
) -> str:
    """``FIELD: what is wrong; what to do`` for the first problem.

    ``fields`` lists the known keys below a path, ``wanted`` may say what to write at a path.
    """
    # Unknown keys come first: the other problems are often their consequence.
    first = min(error.errors(), key=lambda p: p["type"] != "extra_forbidden")
    path = [str(p) for p in first["loc"] if str(p) not in _BRANCHES]
    where = ".".join(path)
    given, context = first["input"], first.get("ctx", {})
    if first["type"] == "extra_forbidden":
        return f"{where}: unknown key; {suggest(path[-1], fields(path[:-1]))}"
    if str(first["loc"][-1]) == "[key]" and not isinstance(given, str):
        return f"{where}: key {given!r} is {kind(given)}; put it in quotes"
    if isinstance(given, float) and not math.isfinite(given):
        return f"{where}: {given} is not a finite number; write a finite one"
    if first["type"] == "literal_error":
        options = context["expected"].replace(" or ", ", ").replace("'", "").split(", ")
        return f"{where}: {given!r} is not accepted; {suggest(str(given), options)}"
    if first["type"] == "missing":
        return f"{where}: is missing; add it"
    if "ge" in context or "gt" in context:
        bound = f"at least {context['ge']:g}" if "ge" in context else f"above {context['gt']:g}"
        return f"{where}: is {given}; it must be {bound}"
    plain = {"int_type": "write an integer", "string_type": "write text", "float_type": "write a number"}
    advice = wanted(path) or plain.get(first["type"], "write a plain number or text")
    return f"{where}: is {kind(given)}; {advice}"


def kind(value: Any) -> str:
    """A value in words."""
    if value is None:
        return "empty"
    names = {
        bool: "true/false",
        int: "an integer",
        float: "a number",
        str: "text",
        list: "a list",
        tuple: "a list",
        dict: "a mapping",
    }
    name = names.get(type(value), type(value).__name__)
    return f"{name} ({value!r})" if isinstance(value, bool | int | float | str) else name
