"""Constraint expressions: agree with Python on what they allow, and refuse everything else."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knowledge.errors import ExpressionError
from knowledge.expression import cdiv, evaluate, names_in, next_pow2, parsed

ATOM = st.sampled_from(["a", "b", "c", "1", "7", "64"])
TREE = st.recursive(
    ATOM,
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(["+", "-", "*", "//", "%", "<", "<=", "==", "!=", "and", "or"]), inner).map(
            lambda t: f"({t[0]} {t[1]} {t[2]})"
        ),
        inner.map(lambda x: f"(not {x})"),
        st.tuples(inner, inner).map(lambda t: f"min({t[0]}, {t[1]})"),
        st.tuples(inner, inner, inner).map(lambda t: f"({t[0]} if {t[1]} else {t[2]})"),
    ),
    max_leaves=12,
)


@given(TREE, st.integers(-9, 99), st.integers(1, 50), st.booleans())
def test_agrees_with_python(text: str, a: int, b: int, c: bool) -> None:
    names = {"a": a, "b": b, "c": c}
    try:
        expected = eval(text, {"__builtins__": {}, "min": min}, names)
    except ZeroDivisionError:
        with pytest.raises(ExpressionError):
            evaluate(text, names)
        return
    assert evaluate(text, names) == expected


@pytest.mark.parametrize(
    "text",
    ["__import__('os')", "a.b", "a[0]", "lambda: 1", "[x for x in a]", "a ** b", "f'{a}'", "min(a, key=b)", "open(a)",
     "a := 1", "", "1 +", "a << 9", "None", "min(*a)", "(1).real"],
)  # fmt: skip
def test_refuses(text: str) -> None:
    with pytest.raises(ExpressionError):
        evaluate(text, {"a": 1, "b": 2})


def test_functions_strings_and_membership() -> None:
    names = {"cols": 1000, "block": 256, "order": "rows", "flag": True}
    assert evaluate("next_pow2(cols) == 1024 and cdiv(cols, block) == 4", names)
    assert evaluate("order in ('rows', 'cols') and block not in [1, 2]", names)
    assert evaluate("1 < block <= 256 and flag", names)
    assert names_in("max(cols, block) > 3 or order == 'rows'") == {"cols", "block", "order"}
    with pytest.raises(ExpressionError, match="unknown name 'rows'; known are block, cols, flag, order"):
        evaluate("rows > 1", names)
    with pytest.raises(ExpressionError, match="arithmetic on text"):
        evaluate("order * block", names)


@given(st.integers(-5, 1 << 40), st.integers(1, 1 << 20))
def test_arithmetic_functions(n: int, m: int) -> None:
    p = next_pow2(n)
    assert p >= max(n, 1)
    assert p & (p - 1) == 0
    assert p == 1 or p // 2 < n
    assert (cdiv(n, m) - 1) * m < n <= cdiv(n, m) * m


def test_deep_nesting_is_an_error_not_a_crash() -> None:
    with pytest.raises(ExpressionError):
        parsed("(" * 5000 + "1" + ")" * 5000)
