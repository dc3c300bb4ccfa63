"""What a worker may answer. Its process is the candidate's, so each reply is read field by field before any of it is used.

A reply that is not of the form its request asks for is :class:`Malformed`; fields nobody asked for are dropped; text loses what a
terminal, a database or an encoder would trip over.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

LIMIT = 4 << 20
"""Bytes of one reply. Tensors do not travel in replies."""
_DEPTH = 32
_NODES = 20_000
_KINDS = frozenset({"tensor", "dict", "list", "tuple", "dtype", "value", "float"})
_UNPRINTABLE = re.compile(r"[^\t\n\x20-\x7e\xa0-\U0010ffff]")


class Malformed(Exception):
    """A reply is not of the form that its request asks for."""


def clean(value: str, limit: int = 4000) -> str:
    """Text without control characters (a terminal obeys them) and without lone surrogates (nothing can encode them)."""
    return _UNPRINTABLE.sub("\N{REPLACEMENT CHARACTER}", value[:limit]).encode(errors="replace").decode()


def read(op: str, reply: dict[str, Any]) -> dict[str, Any]:
    """The fields of a reply to request ``op``, checked and cleaned. Raises :class:`Malformed`."""
    if "refused" in reply:
        return {"refused": _text(reply["refused"], 40), "message": _text(reply.get("message", ""))}
    reader = _READERS.get(op)
    return reader(reply) if reader else {}


def _text(value: Any, limit: int = 4000) -> str:
    if not isinstance(value, str):
        raise Malformed(f"text was expected, not a {type(value).__name__}")
    return clean(value, limit)


def _whole(value: Any, most: int = 2**63) -> int:
    if type(value) is not int or not 0 <= value < most:
        raise Malformed("a whole number was expected")
    return value


def _list(value: Any, most: int, item: Callable[[Any], Any]) -> list[Any]:
    if not isinstance(value, list) or len(value) > most:
        raise Malformed(f"a list of at most {most} items was expected")
    return [item(v) for v in value]


def _number(value: Any) -> float | int | None:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return None if value is None else _whole(abs(value) if type(value) is int else value) * (-1 if value < 0 else 1)


def _kernel(value: Any) -> dict[str, Any]:
    """Resources of one device kernel: numbers by name, and its name."""
    if not isinstance(value, dict) or len(value) > 32:
        raise Malformed("a kernel's resources were expected")
    return {_text(k, 40): _text(v, 300) if k == "name" else _number(v) for k, v in value.items()}


def _tree(tree: Any) -> Any:
    """The tree itself where it is one, with bounds on depth and size, so that whoever walks it next may recurse."""
    frontier = [tree]
    count = 0
    for _ in range(_DEPTH):
        below: list[Any] = []
        for node in frontier:
            if not isinstance(node, dict) or len(node) != 1:
                raise Malformed("a result's form was expected")
            ((kind, body),) = node.items()
            if kind not in _KINDS:
                raise Malformed("a result's form was expected")
            if kind in ("list", "tuple", "dict"):
                if not isinstance(body, list):
                    raise Malformed("a result's form was expected")
                below += body if kind != "dict" else [_entry(pair) for pair in body]
            elif body is not None and not isinstance(body, (bool, int, float, str)):
                raise Malformed("a result's form was expected")
        count += len(frontier)
        if count > _NODES:
            break
        if not below:
            return tree
        frontier = below
    raise Malformed(f"a result nested deeper than {_DEPTH} or of more than {_NODES} parts")


def _entry(pair: Any) -> Any:
    if not isinstance(pair, list) or len(pair) != 2 or not isinstance(pair[0], str):
        raise Malformed("a result's form was expected")
    return pair[1]


def _output(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise Malformed("an output's description was expected")
    return {
        "dtype": _text(value.get("dtype"), 40),
        "shape": _list(value.get("shape"), 64, _whole),
        "device": _text(value.get("device"), 40),
        "stride": _list(value.get("stride", []), 64, _whole),
        "at": _whole(value.get("at", 0), 2**64),
    }


def _outcome(value: Any) -> dict[str, Any]:
    """What a call gave: its form and outputs, or why it cannot be handed over."""
    if not isinstance(value, dict):
        raise Malformed("a result was expected")
    if "unsupported" in value:
        return {"unsupported": _text(value["unsupported"], 300)}
    return {"tree": _tree(value.get("tree")), "outputs": _list(value.get("outputs"), 4096, _output)}


def _run(reply: dict[str, Any]) -> dict[str, Any]:
    found = {**_outcome(reply), **_time(reply)}
    if "plumbing" in reply:
        found["plumbing"] = _whole(reply["plumbing"], 2**31)
    return found


def _time(reply: dict[str, Any]) -> dict[str, Any]:
    if "operators" not in reply:
        return {}
    return {"operators": _list(reply["operators"], 2000, lambda v: _text(v, 80))[:64]}


def _repeat(reply: dict[str, Any]) -> dict[str, Any]:
    return {**_outcome(reply), "calls": _whole(reply.get("calls"), 2**31)}


def _events(reply: dict[str, Any]) -> dict[str, Any]:
    value = reply.get("events_ms")
    if value is not None and (isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < 1e12):
        raise Malformed("milliseconds were expected")
    return {"events_ms": value}


_READERS: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "hello": lambda r: {"isolation": _text(r.get("isolation"), 500), "sample": _whole(r.get("sample", 0), 2**64)},
    "load": lambda r: {"missing": _list(r.get("missing"), 20_000, lambda v: _text(v, 300))},
    "run": _run,
    "repeat": _repeat,
    "time": _time,
    "events": _events,
    "resources": lambda r: {"kernels": _list(r.get("kernels"), 10_000, _kernel)[:32]},
    "profile": lambda r: {"kernels": _list(r.get("kernels"), 10_000, _kernel)},
    "check_ahead": lambda r: {"kernels": _list(r.get("kernels"), 10_000, _kernel)},
}
