"""Arithmetic on symbolic dims: ``"B+1"``, ``"2*D"``, ``"K**-0.5"``. Parsed as an expression tree, never evaluated as code."""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Mapping
from typing import Any

_BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Pow: operator.pow,
}
_LARGEST = 2**62
_BITS = 1000
"""Bits of a number on the way to a result; more could not be turned into a float, and soon not be held in memory."""
_LONGEST = 400
"""Characters of an expression."""


def _parse(text: str) -> ast.expr:
    if len(text) > _LONGEST:
        raise ValueError(f"'{text[:40]}…' has {len(text)} characters; an expression has at most {_LONGEST}")
    try:
        return ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as e:
        raise ValueError(f"{text!r} is not an expression of dims and numbers") from e


def names(text: str) -> tuple[str, ...]:
    """Names of the dims an expression uses, in order of appearance. Raises ValueError for text that is no expression."""
    found = (n.id for n in ast.walk(_parse(text)) if isinstance(n, ast.Name))
    return tuple(dict.fromkeys(found))


def evaluate(text: str, dims: Mapping[str, int]) -> int | float:
    """Value of an expression of ``+ - * / // **``, brackets, numbers and dims. Raises ValueError naming what is wrong."""
    value: int | float | complex = _value(_parse(text), text, dims)
    if isinstance(value, complex) or (isinstance(value, float) and not math.isfinite(value)):
        raise ValueError(f"{text!r} is not a finite number at {dict(dims)}")
    return value


def _value(node: ast.expr, text: str, dims: Mapping[str, int]) -> Any:
    if isinstance(node, ast.Constant) and type(node.value) in (int, float):
        return node.value
    if isinstance(node, ast.Name):
        if node.id not in dims:
            within = "" if text.strip() == node.id else f" in {text!r}"
            raise ValueError(f"dim {node.id!r}{within} is not declared")
        return dims[node.id]
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_value(node.operand, text, dims)
    if isinstance(node, ast.BinOp) and type(node.op) in _BINARY:
        left, right = _value(node.left, text, dims), _value(node.right, text, dims)
        if isinstance(node.op, ast.Pow) and abs(right) > 64:
            raise ValueError(f"the power in {text!r} is larger than 64")
        try:
            result = _BINARY[type(node.op)](left, right)
            if isinstance(result, int) and result.bit_length() > _BITS:
                raise ValueError(f"{text!r} grows beyond 2^{_BITS} on its way at {dict(dims)}")
            return result
        except (ZeroDivisionError, OverflowError) as e:
            raise ValueError(f"{text!r} cannot be computed at {dict(dims)}: {e}") from e
    raise ValueError(f"{text!r} may use only dims, numbers and + - * / // ** ( )")


def size(item: int | str, dims: Mapping[str, int]) -> int:
    """One extent of a shape, at least 0. Raises ValueError where it is no such integer."""
    value = item if isinstance(item, int) else evaluate(item, dims)
    if isinstance(value, float):
        raise ValueError(f"size {item!r} is {value}, not an integer; use // for division")
    if not 0 <= value < _LARGEST:
        raise ValueError(f"size {item!r} is {value}, outside 0 … 2^62")
    return value


def shape(items: tuple[int | str, ...], dims: Mapping[str, int]) -> tuple[int, ...]:
    """A whole shape at given dims."""
    return tuple(size(i, dims) for i in items)
