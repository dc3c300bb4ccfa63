"""Values of the loop IR as C++ statements: one statement per node, at the outermost block where its inputs are known.

A :class:`Block` is a C++ block under construction. Blocks nest; a node emitted in a block is visible in the blocks inside it, so
common subexpressions and loop-invariant values are shared by looking a node up along the chain.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from agent.errors import EmitError
from evaluators.ir.expr import Affine, Expr, Kind, axes_of, op, walk
from evaluators.ir.kernel import Buffer

MEMORY = {
    "float32": "float", "float64": "double", "bfloat16": "bf16", "float16": "f16", "int64": "i64", "int32": "i32",
    "int16": "int16_t", "int8": "int8_t", "uint8": "uint8_t", "bool": "bool",
}  # fmt: skip
SCALAR: dict[Kind, str] = {"f32": "float", "f64": "double", "i64": "i64", "i32": "i32", "bool": "bool"}
VECTOR: dict[Kind, str] = {"f32": "f32v", "f64": "f64v", "i64": "i64v", "i32": "i32v", "bool": "i32v"}

_INFIX = {"add": "+", "sub": "-", "mul": "*", "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!="}
_COMPARE = ("lt", "le", "gt", "ge", "eq", "ne")
_PRELUDE = {
    "exp": ("exp_", "exp"), "tanh": ("tanh_", "tanh"), "sigmoid": ("sigmoid", "sigmoid"), "erf": ("erf_", "erf"),
    "log": ("log_", "log"), "expm1": ("expm1_", "expm1"), "sqrt": ("sqrt_", "sqrt"), "abs": ("abs_", "abs"),
    "floor": ("floor_", "rounding"), "ceil": ("ceil_", "rounding"), "round": ("round_", "rounding"),
    "trunc": ("trunc_", "rounding"), "min": ("minimum", "minmax"), "max": ("maximum", "minmax"),
}  # fmt: skip
_LIBRARY = frozenset("exp2 log1p log2 sin cos tan pow atan2 fmod".split())


@dataclass
class Lanes:
    """What one vector holds: consecutive points of one of ``axes`` (each pass over columns may name its own).

    ``reduced`` names the reductions whose results differ from lane to lane; ``used`` collects prelude fragments; ``serial``
    numbers temporaries.
    """

    axes: frozenset[str]
    buffers: Mapping[str, Buffer]
    reduced: frozenset[str] = frozenset()
    used: set[str] = field(default_factory=set)
    serial: int = 0
    _varies: dict[int, bool] = field(default_factory=dict)

    def fresh(self) -> str:
        """A name for a temporary, unlike any buffer's."""
        self.serial += 1
        name = f"v{self.serial}"
        return self.fresh() if name in self.buffers else name

    def varies(self, node: Expr | Affine) -> bool:
        """Whether a value differs between lanes."""
        found = self._varies.get(id(node))
        if found is None:
            if isinstance(node, Affine):
                found = self.stride(node) != 0 or any(self.varies(t) for t, _ in node.terms)
            elif node.op == "axis":
                found = node.attr in self.axes
            elif node.op == "scanned":
                found = True
            elif node.op == "reduced":
                found = node.attr in self.reduced
            else:
                found = any(self.varies(a) for a in node.args) or (node.index is not None and self.varies(node.index))
            self._varies[id(node)] = found
        return found

    def stride(self, index: Affine) -> int:
        """Elements between the affine parts of neighbouring lanes."""
        return sum(c for a, c in index.axes if a in self.axes)

    def inverse(self, node: Expr) -> Expr | None:
        """For a vector divided by one scalar: the scalar's reciprocal, computed once outside the loop (a vector division takes
        as long as a dozen multiplications, and no compiler hoists it from explicit vectors)."""
        if node.op != "div" or node.kind != "f32" or self.varies(node.args[1]) or not self.varies(node.args[0]):
            return None
        return op("reciprocal", node.args[1])

    def wide(self, roots: Iterable[Expr | Affine]) -> bool:
        """Whether any lane-varying value has 64 bits: a vector then holds half as many lanes."""
        return any(n.kind in ("i64", "f64") and self.varies(n) for root in roots for n in walk(root))


@dataclass
class Block:
    """A C++ block. ``bind`` gives the C++ text of an axis's index; ``rest`` is the number of valid lanes where the block handles
    a partial vector (``None``: all are valid)."""

    lanes: Lanes
    parent: Block | None = None
    bind: dict[str, str] = field(default_factory=dict)
    rest: str | None = None
    names: dict[int, str] = field(default_factory=dict)
    results: dict[str, str] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)

    def inside(self, bind: Mapping[str, str] | None = None, rest: str | None = None) -> Block:
        """A nested block with further axes bound."""
        return Block(self.lanes, self, dict(bind or {}), rest or self.rest)

    def text(self, indent: int = 0) -> str:
        """The statements so far, indented by ``indent`` spaces after the first line."""
        return ("\n" + " " * indent).join(self.lines)

    def value(self, node: Expr) -> str:
        """C++ text of a value, emitting what it needs. Raises ``EmitError``."""
        known = self._known(node)
        if known is not None:
            return known
        if node.op == "const":
            return literal(node.attr, node.kind)
        if node.op == "axis" and not self.lanes.varies(node):
            return self._axis(node.attr)
        text = self._expression(node)
        name = self.lanes.fresh()
        self.lines.append(f"const {self.type_of(node)} {name} = {text};")
        self.names[id(node)] = name
        return name

    def hoist(self, roots: Iterable[Expr | Affine], varying: frozenset[str]) -> None:
        """Emit here every value below ``roots`` that depends on none of the ``varying`` axes and that a varying one uses."""
        for root in roots:
            for node in walk(root):
                inverse = self.lanes.inverse(node)
                below = list(node.args if inverse is None else (node.args[0], inverse))
                below += [t for t, _ in node.index.terms] if node.index is not None else []
                if self._free(node, varying):
                    if node is root:
                        self.value(node)
                    continue
                for b in below:
                    if self._free(b, varying) and b.op not in ("const", "axis"):
                        self.value(b)
            if isinstance(root, Affine):
                for t, _ in root.terms:
                    if self._free(t, varying):
                        self.value(t)

    def vector(self, node: Expr) -> str:
        """C++ text of a value as a vector: a uniform one is spread over the lanes."""
        text = self.value(node)
        if self.lanes.varies(node) or not self.lanes.axes:
            return text
        return f"splat<{VECTOR[node.kind]}>({'-(i32)' + text if node.kind == 'bool' else text})"

    def type_of(self, node: Expr) -> str:
        """C++ type of a value."""
        return (VECTOR if self.lanes.varies(node) else SCALAR)[node.kind]

    def address(self, buffer: str, index: Affine, skip_terms: bool = False) -> str:
        """``buffer + offset`` with the lane axis at its first lane."""
        return f"{buffer} + {self.offset(index, skip_terms)}"

    def offset(self, index: Affine, skip_terms: bool = False) -> str:
        """An index as 64-bit arithmetic, at the first lane."""
        parts = [str(index.const)] if index.const else []
        for axis, c in index.axes:
            a = self._axis(axis)
            parts.append(a if c == 1 else f"{a} * {c}")
        for term, c in index.terms:
            if skip_terms and self.lanes.varies(term):
                continue
            t = self.value(term)
            t = t if term.kind == "i64" else f"(i64){t}"
            parts.append(t if c == 1 else f"{t} * {c}")
        return f"({' + '.join(parts)})" if parts else "0"

    def write(self, buffer: str, index: Affine, value: Expr, stream: bool = False) -> None:
        """Store a value; ``stream`` writes past the caches where the lanes are contiguous."""
        target, used = self.lanes.buffers[buffer], self.lanes.used
        memory = memory_type(target)
        if not self.lanes.varies(index):
            used.add("store")
            cast = self.value(value)
            self.lines.append(f"store<{memory}>({self.address(buffer, index)}, {cast});")
            return
        text = self.vector(value)
        contiguous = self.lanes.stride(index) == 1 and not any(self.lanes.varies(t) for t, _ in index.terms)
        if contiguous:
            kind = "store_n" if self.rest else "stream" if stream else "store"
            used.add(kind)
            tail = f", {self.rest}" if self.rest else ""
            self.lines.append(f"{kind}<{memory}>({self.address(buffer, index)}, {text}{tail});")
            return
        used.add("narrow")
        at = self._lane_offsets(index)
        count = self.rest or f"lanes<{VECTOR[value.kind]}>::count"
        self.lines.append(f"{{ const auto m = narrowed<{memory}>({text}); const auto at = {at};")
        self.lines.append(
            f"  for (int l = 0; l < {count}; ++l) {{ const auto x = m[l]; "
            f"__builtin_memcpy({self.address(buffer, index, True)} + at[l], &x, sizeof x); }} }}"
        )

    def _axis(self, name: str) -> str:
        at: Block | None = self
        while at is not None:
            if name in at.bind:
                return at.bind[name]
            at = at.parent
        raise EmitError(f"axis {name!r} is used outside its loop")

    def _known(self, node: Expr) -> str | None:
        at: Block | None = self
        while at is not None:
            if id(node) in at.names:
                return at.names[id(node)]
            if node.op in ("reduced", "scanned") and node.attr in at.results:
                return at.results[node.attr]
            at = at.parent
        return None

    def _free(self, node: Expr, varying: frozenset[str]) -> bool:
        if axes_of(node) & varying:
            return False
        return all(n.op != "scanned" and (n.op != "reduced" or self._known(n) is not None) for n in walk(node))

    def _lane_offsets(self, index: Affine) -> str:
        parts = []
        stride = self.lanes.stride(index)
        varying = [(t, c) for t, c in index.terms if self.lanes.varies(t)]
        kind: Kind = "i64" if any(t.kind == "i64" for t, _ in varying) else "i32"
        for t, c in varying:
            v = self.value(t) if t.kind == kind else f"convert<{VECTOR[kind]}>({self.value(t)})"
            parts.append(v if c == 1 else f"{v} * {c}")
        if stride:
            self.lanes.used.add("iota")
            lane = f"iota<{VECTOR[kind]}>()"
            parts.append(lane if stride == 1 else f"{lane} * {stride}")
        return f"({' + '.join(parts)})"

    def _load(self, node: Expr) -> str:
        assert node.index is not None
        buffer, used = self.lanes.buffers[node.attr], self.lanes.used
        memory = memory_type(buffer)
        if not self.lanes.varies(node.index):
            element = f"{node.attr}[{self.offset(node.index)}]"
            if buffer.dtype in ("bfloat16", "float16"):
                used.add("widen")
                element = f"widened({element})"
            return element if memory == SCALAR[node.kind] else f"({SCALAR[node.kind]}){element}"
        v = VECTOR[node.kind]
        tail = f", {self.rest}" if self.rest else ""
        suffix = "_n" if self.rest else ""
        if any(self.lanes.varies(t) for t, _ in node.index.terms) or self.lanes.stride(node.index) != 1:
            used.add("gather")
            base = self.address(node.attr, node.index, True)
            text = f"gather{suffix}<{v}>({base}, {self._lane_offsets(node.index)}{tail})"
        else:
            used.add("load" + suffix)
            text = f"load{suffix}<{v}>({self.address(node.attr, node.index)}{tail})"
        if buffer.dtype == "bool" and node.kind != "bool":
            return f"-{text}"
        if node.kind == "bool" and buffer.dtype != "bool":
            return f"as_mask({text} != 0)"
        return text

    def _expression(self, node: Expr) -> str:
        if node.op == "load":
            return self._load(node)
        varies = self.lanes.varies(node)
        if node.op == "axis":
            self.lanes.used.add("iota")
            return f"{self._axis(node.attr)} + iota<i64v>()"
        if node.op in ("reduced", "scanned"):
            raise EmitError(f"{node.op} value {node.attr!r} is used before the pass that makes it")
        inverse = self.lanes.inverse(node)
        if inverse is not None:
            return f"{self.vector(node.args[0])} * {self.vector(inverse)}"
        args = [self.vector(a) if varies else self.value(a) for a in node.args]
        if node.op == "cast":
            return self._cast(node, args[0], varies)
        if node.op == "where":
            return f"select({', '.join(args)})" if varies else f"{args[0]} ? {args[1]} : {args[2]}"
        return self._operator(node, args, varies)

    def _cast(self, node: Expr, x: str, varies: bool) -> str:
        source = node.args[0].kind
        if node.kind == "bool":
            return f"as_mask({x} != 0)"
        if not varies:
            return f"({SCALAR[node.kind]}){x}"
        return f"convert<{VECTOR[node.kind]}>({'-' if source == 'bool' else ''}{x})"

    def _operator(self, node: Expr, args: list[str], varies: bool) -> str:
        name, used = node.op, self.lanes.used
        kind = node.args[0].kind
        floating = kind in ("f32", "f64")
        a, b = args[0], args[1] if len(args) > 1 else ""
        one = "1.0f" if kind == "f32" else "1.0"
        if name in _COMPARE:
            return f"as_mask({a} {_INFIX[name]} {b})"
        if name in _INFIX:
            return f"{a} {_INFIX[name]} {b}"
        if name in ("and", "or", "xor", "not"):
            if kind == "bool" and not varies:
                return {"and": f"{a} && {b}", "or": f"{a} || {b}", "xor": f"{a} != {b}", "not": f"!{a}"}[name]
            return {"and": f"{a} & {b}", "or": f"{a} | {b}", "xor": f"{a} ^ {b}", "not": f"~{a}"}[name]
        if name in _PRELUDE:
            function, fragment = _PRELUDE[name]
            if fragment == "rounding" and not floating:
                return a
            used.add(fragment)
            return f"{function}({', '.join(args)})"
        if name == "neg":
            return f"-{a}"
        if name == "div":
            return f"{a} / {b}"
        if name == "reciprocal":
            return f"{one} / {a}"
        if name == "rsqrt":
            used.add("sqrt")
            return f"{one} / sqrt_({a})"
        if name == "sign":
            t = self.type_of(node)
            return f"select({a} > {t}{{}}, splat<{t}>(1), select({a} < {t}{{}}, splat<{t}>(-1), {a} * {a}))"
        if name == "isnan":
            return f"as_mask({a} != {a})"
        if name == "isinf":
            used.add("abs")
            return f"as_mask(abs_({a}) == {'__builtin_inff()' if kind == 'f32' else '__builtin_inf()'})"
        if name in ("floordiv", "mod"):
            return self._integer_division(name, a, b, floating)
        if name in _LIBRARY:
            used.add("each")
            formals = "auto a, auto b" if b else "auto a"
            actuals = "a, b" if b else "a"
            if not floating:
                return f"each({', '.join(args)}, []({formals}) {{ return a % b; }})"
            return f"each({', '.join(args)}, []({formals}) {{ return std::{name}({actuals}); }})"
        raise EmitError(f"operator {name!r} on {kind} has no C++ form")

    def _integer_division(self, name: str, a: str, b: str, floating: bool) -> str:
        if floating:
            self.lanes.used.add("rounding")
            quotient = f"floor_({a} / {b})"
            return quotient if name == "floordiv" else f"{a} - {quotient} * {b}"
        self.lanes.used.update(("integer", "each"))
        function = "floor_div" if name == "floordiv" else "floor_mod"
        return f"each({a}, {b}, [](auto a, auto b) {{ return {function}(a, b); }})"


def memory_type(buffer: Buffer) -> str:
    """C++ type of a buffer's elements. Raises ``EmitError`` for a dtype that has none."""
    if buffer.dtype not in MEMORY:
        raise EmitError(f"buffer {buffer.name!r}: dtype {buffer.dtype} is not supported in C++")
    return MEMORY[buffer.dtype]


def literal(value: float | int | bool, kind: Kind) -> str:
    """A number as C++ text of the given compute type."""
    if kind == "bool":
        return "true" if value else "false"
    if kind in ("i64", "i32"):
        if kind == "i64" and int(value) <= -(2**63):
            return "INT64_MIN"
        text = f"{int(value)}{'L' if kind == 'i64' else ''}"
    elif math.isnan(value):
        text = '__builtin_nanf("")' if kind == "f32" else '__builtin_nan("")'
    elif math.isinf(value):
        text = ("-" if value < 0 else "") + ("__builtin_inff()" if kind == "f32" else "__builtin_inf()")
    else:
        text = repr(float(value)) + ("f" if kind == "f32" else "")
    return f"({text})" if text.startswith("-") else text
