"""Constraint expressions of exemplars: a small safe subset of Python over knobs and kernel facts.

Allowed: names, numbers, strings, tuples and lists of them, ``+ - * / // %``, comparisons (``in`` too), ``and or
not``, ``a if c else b`` and calls of ``min``, ``max``, ``abs``, ``next_pow2`` and ``cdiv``. Attributes, subscripts
and any other call are refused, so a document that came from anywhere cannot run code.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from knowledge.errors import ExpressionError


def next_pow2(n: int) -> int:
    """Smallest power of two that is at least ``n`` (1 for n ≤ 1)."""
    return 1 if n <= 1 else 1 << (int(n) - 1).bit_length()


def cdiv(a: int, b: int) -> int:
    """``a / b`` rounded up."""
    return -(-a // b)


FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "min": min,
    "max": max,
    "abs": abs,
    "next_pow2": next_pow2,
    "cdiv": cdiv,
}
_BINARY: Mapping[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_COMPARE: Mapping[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.In: lambda a, b: a in b,
    ast.NotIn: lambda a, b: a not in b,
}


def evaluate(expression: str, names: Mapping[str, Any]) -> Any:
    """Value of ``expression`` where names stand for ``names``. Raises :class:`knowledge.errors.ExpressionError`."""
    try:
        return _value(parsed(expression), names)
    except ExpressionError as error:
        raise ExpressionError(f"{expression!r}: {error}") from None
    except (ZeroDivisionError, TypeError, ValueError, OverflowError) as error:
        raise ExpressionError(f"{expression!r}: {error}") from None


@lru_cache(maxsize=1024)
def parsed(expression: str) -> ast.expr:
    """Parse and check the grammar, so that a bad expression is found when its document loads.

    Raises ``ExpressionError``.
    """
    try:
        tree = ast.parse(expression.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise ExpressionError(f"{expression!r} is not an expression ({getattr(error, 'msg', error)})") from None
    _check(tree, expression)
    return tree


def names_in(expression: str) -> frozenset[str]:
    """The names an expression reads, functions excluded."""
    tree = parsed(expression)
    called = {id(n.func) for n in ast.walk(tree) if isinstance(n, ast.Call)}
    return frozenset(n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and id(n) not in called)


def _check(tree: ast.expr, expression: str) -> None:
    plain = (
        ast.Name, ast.Load, ast.BoolOp, ast.And, ast.Or, ast.UnaryOp, ast.Not, ast.USub, ast.UAdd, ast.BinOp,
        ast.Compare, ast.IfExp, ast.Tuple, ast.List, *_BINARY, *_COMPARE,
    )  # fmt: skip
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            if not isinstance(node.func, ast.Name) or node.func.id not in FUNCTIONS or node.keywords:
                raise ExpressionError(
                    f"{expression!r}: only {', '.join(FUNCTIONS)} may be called, with positional arguments"
                )
        elif isinstance(node, ast.Constant):
            if not isinstance(node.value, (int, float, str, bool)):
                raise ExpressionError(f"{expression!r}: constant {node.value!r} is not a number, text or truth value")
        elif not isinstance(node, plain):
            raise ExpressionError(f"{expression!r}: {type(node).__name__} is not allowed in a constraint")


def _value(node: ast.expr, names: Mapping[str, Any]) -> Any:
    match node:
        case ast.Constant(value):
            return value
        case ast.Name(name):
            if name not in names:
                raise ExpressionError(f"unknown name {name!r}; known are {', '.join(sorted(names)) or 'none'}")
            return names[name]
        case ast.BoolOp(op, values):
            result: Any = isinstance(op, ast.And)
            for each in values:
                result = _value(each, names)
                if bool(result) != isinstance(op, ast.And):
                    return result
            return result
        case ast.UnaryOp(op, operand):
            value = _value(operand, names)
            return (not value) if isinstance(op, ast.Not) else -value if isinstance(op, ast.USub) else +value
        case ast.BinOp(left, op, right):
            a, b = _value(left, names), _value(right, names)
            if isinstance(a, (str, list, tuple)) or isinstance(b, (str, list, tuple)):
                raise ExpressionError("arithmetic on text or lists")
            return _BINARY[type(op)](a, b)
        case ast.Compare(left, ops, comparators):
            current = _value(left, names)
            for comparison, right in zip(ops, comparators, strict=True):
                following = _value(right, names)
                if not _COMPARE[type(comparison)](current, following):
                    return False
                current = following
            return True
        case ast.IfExp(test, body, orelse):
            return _value(body if _value(test, names) else orelse, names)
        case ast.Tuple(elts) | ast.List(elts):
            return tuple(_value(e, names) for e in elts)
        case ast.Call(ast.Name(function), args):
            return FUNCTIONS[function](*(_value(a, names) for a in args))
    raise ExpressionError(f"{type(node).__name__} is not allowed in a constraint")
