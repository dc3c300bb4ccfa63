"""Values of the loop IR as Triton tile expressions.

Every tile of a kernel has the same rank; an index along one tile dimension has size 1 in the others, so that values which depend on
fewer axes stay small and broadcast. A :class:`Scope` is a block of straight-line code: each interned expression becomes one
variable in it, and scopes nest as loops do.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from agent.errors import EmitError
from agent.proposers.builtin import triton_math
from agent.proposers.builtin.triton_bounds import INT32, affine_bounds, bounds, narrow
from agent.proposers.builtin.triton_dims import DTYPES, KINDS, Dim, Text, literal, merged, scaled, without
from evaluators.ir.expr import Affine, Expr, axes_of, axis
from evaluators.ir.kernel import Buffer


@dataclass
class Scope:
    """A block of statements. ``lines`` is the code so far; :meth:`take` hands it over."""

    rank: int
    buffers: Mapping[str, Buffer]
    extents: Mapping[str, int]
    dims: tuple[Dim, ...] = ()
    counter: Iterator[int] = field(default_factory=itertools.count)
    memo: dict[int, Text] = field(default_factory=dict)
    reduced: dict[str, Text] = field(default_factory=dict)
    cache: Mapping[str, str] = field(default_factory=dict)
    fast: bool = False
    derived: dict[tuple[str, int], str] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)

    def child(self, *dims: Dim) -> Scope:
        """A scope nested in this one that binds more axes; it sees every value emitted so far."""
        return Scope(
            self.rank, self.buffers, self.extents, self.dims + dims, self.counter, dict(self.memo), dict(self.reduced),
            self.cache, self.fast,
        )  # fmt: skip

    def take(self) -> str:
        """The statements emitted since the last call."""
        text, self.lines = "\n".join(self.lines), []
        return text or "pass"

    @property
    def ones(self) -> str:
        """Shape of a single value as a tile of this scope's rank."""
        return f"[{', '.join(['1'] * self.rank)}]"

    def fresh(self, prefix: str = "v") -> str:
        """A new variable name."""
        return f"{prefix}{next(self.counter)}"

    def let(self, text: str, prefix: str = "v") -> str:
        """Emit an assignment and return the variable."""
        name = self.fresh(prefix)
        self.lines.append(f"{name} = {text}")
        return name

    # -- indices and masks -------------------------------------------------------------------------------------------

    def open(self, *dims: Dim) -> None:
        """Emit what each dimension needs: its index broadcast to the tile's rank, its mask."""
        for d in dims:
            if d.position is not None and self.rank > 1:
                where = ", ".join(":" if i == d.position else "None" for i in range(self.rank))
                self.lines.append(f"{d.var}_ = {d.var}[{where}]")
            else:
                self.lines.append(f"{d.var}_ = {d.var}")
            if not d.exact:
                self.lines.append(f"{d.var}_ok = {d.var}_ < {d.limit or d.extent}")

    def span(self, axes: Iterable[str]) -> frozenset[int]:
        """Tile dimensions spanned by a set of axes."""
        wanted = set(axes)
        return frozenset(d.position for d in self.dims if d.position is not None and d.names & wanted)

    def masks(self, axes: Iterable[str]) -> list[str]:
        """Mask variables that guard a value of these axes."""
        wanted = set(axes)
        return [f"{d.var}_ok" for d in self.dims if not d.exact and d.names & wanted]

    def _axis(self, name: str) -> Text:
        for d in self.dims:
            if name in d.names:
                dims = frozenset() if d.position is None else frozenset((d.position,))
                if len(d.axes) == 1:
                    return Text(f"{d.var}_", dims)
                at = next(i for i, a in enumerate(d.axes) if a.name == name)
                inner = math.prod(a.extent for a in d.axes[at + 1 :])
                text = f"{d.var}_ // {inner}" if inner > 1 else f"{d.var}_"
                if at > 0:
                    text = f"({text}) % {d.axes[at].extent}" if inner > 1 else f"{text} % {d.axes[at].extent}"
                return Text(self.let(text, f"{d.var}_{name}_"), dims)
        raise EmitError(f"axis {name!r} is not bound by this schedule; choose an exemplar for the kernel's pattern")

    def offset(self, index: Affine, numel: int) -> tuple[str, list[str]]:
        """Text of an element offset, and guards that keep it inside a buffer of ``numel`` elements."""
        known = affine_bounds(index, self.extents)
        wide = numel >= INT32 or (known is not None and not narrow(known))
        parts: list[str] = []
        left = dict(index.axes)
        for d in self.dims:
            here = [a for a in d.axes if a.name in left]
            if not here:
                continue
            stride = merged(d, left)
            if stride is not None:
                parts.append(scaled(f"{d.var}_" + (".to(tl.int64)" if wide else ""), stride))
                for a in d.axes:
                    left.pop(a.name, None)
        for name, c in sorted(left.items()):
            value = self.emit(axis(name))
            parts.append(scaled(value.text + (".to(tl.int64)" if wide else ""), c))
        guards = [] if known is not None and known[0] >= 0 and known[1] < numel else self._guards(index, numel)
        for term, c in index.terms:
            value = self.emit(term)
            text = value.text
            if not value.literal and value.wide != wide:
                text = f"{text}.to({'tl.int64' if wide else 'tl.int32'})"
            parts.append(scaled(text, c))
        if index.const or not parts:
            parts.append(str(index.const))
        return " + ".join(parts), guards

    def _guards(self, index: Affine, numel: int) -> list[str]:
        """Conditions for an index that may leave its buffer: on the one unknown term where there is just one, else on the whole."""
        unknown = [(t, c) for t, c in index.terms if bounds(t, self.extents) is None]
        if len(unknown) == 1 and unknown[0][1] > 0:
            term, c = unknown[0]
            rest = affine_bounds(without(index, term), self.extents)
            if rest is not None and rest[0] >= 0:
                value = self.emit(term).text
                return [f"({value} >= 0)", f"({value} < {(numel - 1 - rest[1]) // c + 1})"]
        if any(a not in self.extents for a, _ in index.axes):
            return []
        whole = " + ".join(
            [scaled(self.emit(axis(a)).text, c) for a, c in index.axes]
            + [scaled(self.emit(t).text, c) for t, c in index.terms]
            + [str(index.const)]
        )
        value = self.let(whole, "at")
        return [f"({value} >= 0)", f"({value} < {numel})"]

    # -- values ------------------------------------------------------------------------------------------------------

    def emit(self, node: Expr) -> Text:
        """The value of an expression, computed here unless an enclosing scope already has it."""
        found = self.memo.get(id(node))
        if found is None:
            found = self.memo[id(node)] = self._compute(node)
        return found

    def _compute(self, node: Expr) -> Text:
        if node.op == "const":
            return Text(literal(node.attr), literal=True)
        if node.op == "axis":
            return self._axis(node.attr)
        if node.op == "load":
            return self.load(node)
        if node.op in ("reduced", "scanned"):
            if node.attr not in self.reduced:
                raise EmitError(f"{node.op} value {node.attr!r} is not finished where this schedule needs it")
            return self.reduced[node.attr]
        if self.fast and node.kind == "f32" and triton_math.one_reciprocal(node):
            return self._one_reciprocal(node)
        args = [self.emit(a) for a in node.args]
        dims = frozenset[int]().union(*(a.dims for a in args))
        if node.op == "cast":
            return self._cast(node, args[0])
        if node.op == "where":
            text = f"tl.where({', '.join(a.text for a in args)})"
            return Text(self.let(text), dims, any(a.wide for a in args[1:]))
        texts = [a.text for a in args]
        wide = any(a.wide for a in args)
        if all(a.literal for a in args):
            texts[0] = self.let(f"tl.full({self.ones}, {texts[0]}, {KINDS[node.args[0].kind]})")
        integer = node.kind in ("i32", "i64")
        if integer and not wide and node.kind == "i64" and not narrow(bounds(node, self.extents)):
            at = next(i for i, a in enumerate(args) if not a.literal)
            texts[at], wide = f"{texts[at]}.to(tl.int64)", True
        ranges = [bounds(a, self.extents) for a in node.args] if integer else []
        positive = bool(ranges) and all(r is not None and r[0] >= 0 for r in ranges)
        if node.op == "div" and not args[1].literal and args[1].dims < args[0].dims:
            # one exact reciprocal per row instead of a division per element
            texts[1] = self._reciprocal(node.args[1], texts[1])
            return Text(self.let(f"({texts[0]} * {texts[1]})"), dims)
        text = triton_math.apply(node.op, node.args[0].kind, texts, positive, self.fast)
        return Text(self.let(text), dims, wide and integer)

    def _one_reciprocal(self, node: Expr) -> Text:
        """A product of two fractions, divided once: reciprocals and exponentials run at an eighth of the rate of products."""
        inner = [self.emit(a.args[0]) for a in node.args]
        below = [self.let(f"_{a.op}_below({x.text})") for a, x in zip(node.args, inner, strict=True)]
        above = [self.let(f"_{a.op}_above({x.text}, {b})") for a, x, b in zip(node.args, inner, below, strict=True)]
        dims = inner[0].dims | inner[1].dims
        return Text(self.let(f"({above[0]} * {above[1]}) * _rcp({below[0]} * {below[1]})"), dims)

    def _reciprocal(self, divisor: Expr, text: str) -> str:
        key = ("reciprocal", id(divisor))
        if key not in self.derived:
            form = f"1.0 / {text}"
            if divisor.kind == "f32" and not self.fast:
                # correctly rounded; its slow path is a call, across which a tile held in registers may spill: not worth it in 16 bits
                form = f"tl.div_rn(tl.full({self.ones}, 1.0, tl.float32), {text} + tl.zeros({self.ones}, tl.float32))"
            self.derived[key] = self.let(form)
        return self.derived[key]

    def _cast(self, node: Expr, value: Text) -> Text:
        source = node.args[0].kind
        if value.literal:
            return Text(self.let(f"tl.full({self.ones}, {value.text}, {KINDS[node.kind]})"), wide=node.kind == "i64")
        if node.kind in ("i32", "i64") and source in ("i32", "i64"):
            if node.kind == "i64" or not value.wide:
                return value
            return Text(self.let(f"{value.text}.to(tl.int32)"), value.dims)
        if node.kind == "bool":
            return Text(self.let(f"({value.text} != 0)"), value.dims)
        if node.kind == "i64" and source == "bool":
            return Text(self.let(f"{value.text}.to(tl.int32)"), value.dims)
        return Text(self.let(f"{value.text}.to({KINDS[node.kind]})"), value.dims, node.kind == "i64")

    def load(self, node: Expr, raw: bool = False, text: str = "") -> Text:
        """A load, widened to its compute type unless ``raw``; ``text`` names the loaded value where it is already there."""
        assert node.index is not None
        buffer = self.buffers[node.attr]
        axes = axes_of(node.index)
        text = text or self._load_text(node.attr, node.index, axes)
        dims = self.span(axes)
        if buffer.dtype in ("float16", "bfloat16") and not raw:
            text += ".to(tl.float32)"
        elif buffer.dtype in ("int16", "int8", "uint8"):
            text += ".to(tl.int32)"
        elif buffer.dtype == "bool":
            text += ".to(tl.int1)"
        return Text(self.let(text), dims, buffer.dtype == "int64")

    def _load_text(self, name: str, index: Affine, axes: Iterable[str]) -> str:
        offset, guards = self.offset(index, self.buffers[name].numel)
        conditions = self.masks(axes) + guards
        text = f"tl.load({name}_ptr + ({offset})"
        if conditions:
            text += f", mask={' & '.join(conditions)}, other=0"
        policy = self.cache.get(name, "")
        return text + (f", {policy})" if policy else ")")

    def store(self, buffer: str, index: Affine, value: Expr, policy: str = "") -> None:
        """Write a value, narrowed to the buffer's type."""
        target = self.buffers[buffer]
        offset, guards = self.offset(index, target.numel)
        axes = set(axes_of(index))
        computed = self.emit(value)
        missing = [d for d in self.dims if d.position in computed.dims - self.span(axes)]
        for d in missing:
            offset += f" + {d.var}_ * 0"
            axes |= d.names
        if not self.span(axes):
            offset += f" + tl.zeros({self.ones}, tl.int32)"
        conditions = self.masks(axes) + guards
        lone = [d for d in self.dims if d.position is None and not d.exact and not d.names & axes]
        conditions += [f"{d.var}_ok" for d in lone]
        text = computed.text
        if not computed.literal:
            text = f"{text}.to({DTYPES[target.dtype]})" if target.dtype != "bool" else f"({text} != 0)"
        end = f", mask={' & '.join(conditions)}" if conditions else ""
        end += f", {policy}" if policy else ""
        self.lines.append(f"tl.store({buffer}_ptr + ({offset}), {text}{end})")
