"""Mutations of Python text, found in its syntax tree: Triton kernels, and the module around any kernel."""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator

from tests.judge_corpora.mutants.mutation import Mutation, made

_FLIPPED: dict[type[ast.cmpop], type[ast.cmpop]] = {ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt}
_OPPOSITE: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.Gt, ast.Gt: ast.Lt, ast.LtE: ast.GtE, ast.GtE: ast.LtE, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
}  # fmt: skip
_OPERATOR: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.Div: ast.Mult, ast.Mod: ast.FloorDiv, ast.FloorDiv: ast.Mod,
    ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd,
}  # fmt: skip
_CALL = {
    "sum": "max",
    "max": "min",
    "min": "max",
    "maximum": "minimum",
    "minimum": "maximum",
    "cumsum": "cumprod",
    "exp": "exp2",
}
_TUNING = frozenset({"num_warps", "num_stages", "input_precision"})
Place = tuple[str, ast.AST, ast.AST]
"""A kind, a node of the tree, and what stands in its place."""


def mutations(text: str, dtype: str = "float32") -> list[Mutation]:
    """Every mutation of a module's ``@triton.jit`` functions and of the body of ``forward``, for a spec of floating type ``dtype``."""
    tree = ast.parse(text)
    before = ast.unparse(tree)
    found: list[Mutation] = []
    seen = {before}
    for function in _functions(tree):
        for kind, old, new in [*_expressions(function), *_statements(function)]:
            if dtype == "float16" and kind == "cast left out":
                continue  # a tile summed in half precision stays within a roundoff of a half-precision result
            after = ast.unparse(_replaced(tree, old, new))
            if after not in seen:
                seen.add(after)
                found.append(made(kind, "python", before, after))
    return found


def _functions(tree: ast.Module) -> Iterator[ast.FunctionDef]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and (node.decorator_list or node.name == "forward"):
            yield node


def _replaced(tree: ast.Module, old: ast.AST, new: ast.AST) -> ast.Module:
    """The tree with ``new`` in the place of ``old``; the tree given is left alone."""

    class Swap(ast.NodeTransformer):
        def visit(self, node: ast.AST) -> ast.AST:
            return new if node is old else self.generic_visit(node)

    memo: dict[int, object] = {id(old): old}  # the copy keeps this one node, so that it can be found
    changed = Swap().visit(copy.deepcopy(tree, memo))
    assert isinstance(changed, ast.Module)
    return ast.fix_missing_locations(changed)


def _with(node: ast.AST, **fields: object) -> ast.AST:
    changed = copy.copy(node)
    for name, value in fields.items():
        setattr(changed, name, value)
    return changed


def _name(node: ast.AST) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _expressions(function: ast.FunctionDef) -> Iterator[Place]:
    launches = {id(n) for n in ast.walk(function) if isinstance(n, ast.Call) and isinstance(n.func, ast.Subscript)}
    tuning = {
        id(k.value)
        for n in ast.walk(function)
        if isinstance(n, ast.Call)
        for k in n.keywords
        if k.arg in _TUNING or id(n) in launches
    }
    for node in [n for statement in function.body for n in ast.walk(statement)]:
        if id(node) in tuning:
            continue
        if isinstance(node, ast.Compare) and len(node.ops) == 1:
            kind = type(node.ops[0])
            if kind in _FLIPPED:
                yield "bound off by one", node, _with(node, ops=[_FLIPPED[kind]()])
            if kind in _OPPOSITE:
                yield "comparison turned round", node, _with(node, ops=[_OPPOSITE[kind]()])
        elif isinstance(node, ast.BinOp):
            yield from _binary(node)
        elif isinstance(node, ast.Call):
            yield from _call(node, function.args.args[0].arg)
        elif (
            isinstance(node, ast.Constant) and isinstance(node.value, (int, float)) and not isinstance(node.value, bool)
        ):
            for value in _other_values(node.value):
                yield "wrong constant", node, ast.Constant(value)
        elif isinstance(node, ast.Attribute) and node.attr == "float32":
            yield "narrow accumulator", node, _with(node, attr="float16")


def _other_values(value: float) -> tuple[float, ...]:
    if isinstance(value, int):
        return (value + 1,)
    return {0.0: (1.0,), 1.0: (0.0, 2.0)}.get(value, (value * 10, value * 0.5))


def _binary(node: ast.BinOp) -> Iterator[Place]:
    kind = type(node.op)
    if kind in _OPERATOR:
        yield "wrong operator", node, _with(node, op=_OPERATOR[kind]())
    if kind in (ast.Sub, ast.Div, ast.Mod, ast.FloorDiv):
        yield "operands swapped", node, _with(node, left=node.right, right=node.left)
    if kind in (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.BitAnd):
        yield "term left out", node, node.left
        if kind in (ast.Add, ast.Mult, ast.BitAnd):
            yield "term left out", node, node.right
    if kind is ast.Mult and isinstance(node.right, ast.Name) and node.right.id in ("cols", "K", "N", "d"):
        narrow = ast.parse("tl.int8", mode="eval").body
        yield "narrow index", node, ast.Call(ast.Attribute(node, "to", ast.Load()), [narrow], [])


def _call(node: ast.Call, operand: str) -> Iterator[Place]:
    name = _name(node.func)
    if isinstance(node.func, ast.Attribute) and name in _CALL:
        yield "max for sum, or the like", node, _with(node, func=_with(node.func, attr=_CALL[name]))
    if name == "cdiv":
        yield "last block skipped", node, ast.BinOp(node.args[0], ast.FloorDiv(), node.args[1])
    if name == "program_id":
        yield "wrong axis", node, _with(node, args=[ast.Constant(1 - min(node.args[0].value, 1))])  # type: ignore[attr-defined]
    if name == "range" and len(node.args) == 3:
        start, stop, step = node.args
        yield "first block skipped", node, _with(node, args=[ast.BinOp(start, ast.Add(), step), stop, step])
        yield "last block skipped", node, _with(node, args=[start, ast.BinOp(stop, ast.Sub(), step), step])
    if name in ("load", "store", "atomic_add"):
        for keyword in node.keywords:
            if keyword.arg == "mask":
                rest = [k for k in node.keywords if k.arg not in ("mask", "other")]
                yield "mask left out", node, _with(node, keywords=rest)
            if keyword.arg == "other" and ast.unparse(keyword.value) not in ("0", "0.0"):
                yield "padding left out", node, _with(node, keywords=[k for k in node.keywords if k is not keyword])
    if name == "atomic_add":
        yield "missing atomic", node, _with(node, func=_with(node.func, attr="store"))
    if name == "float":
        yield "wrong identity", node, ast.Constant(0.0)
    if name == "zeros" and _name(getattr(node.func, "value", node)) == "torch":
        yield "uninitialised accumulator", node, _with(node, func=_with(node.func, attr="empty"))
    inner = node.func.value if name == "to" and isinstance(node.func, ast.Attribute) else None
    loaded = (
        {_name(n) for n in ast.walk(inner)} if isinstance(inner, ast.Call) and _name(inner.func) == "load" else set()
    )
    if (
        operand in loaded and "float32" in ast.unparse(node) and inner is not None
    ):  # weights are promoted where they meet it
        yield "cast left out", node, inner
    if name in ("stride", "size") and node.args:
        yield "wrong axis", node, _with(node, args=[ast.Constant(1)])


def _statements(function: ast.FunctionDef) -> Iterator[Place]:
    for node in ast.walk(function):
        if isinstance(node, ast.AugAssign):
            yield "accumulation lost", node, ast.Assign([node.target], node.value)
            yield "wrong operator", node, _with(node, op=_OPERATOR.get(type(node.op), ast.Sub)())
            yield "statement left out", node, ast.Pass()
        elif isinstance(node, ast.For):
            yield "loop left out", node, _with(node, iter=ast.parse("range(0, 0)", mode="eval").body)
            for first, second in zip(node.body, node.body[1:], strict=False):
                if _assigned(first) & _used(second):
                    order = [second if s is first else first if s is second else s for s in node.body]
                    yield "value of the previous iteration", node, _with(node, body=order)
        elif (
            isinstance(node, ast.Assign)
            and isinstance(node.value, ast.Call)
            and _name(node.value.func) in ("where", "maximum")
        ):
            yield "statement left out", node, ast.Pass()


def _assigned(node: ast.AST) -> set[str]:
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}


def _used(node: ast.AST) -> set[str]:
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}
