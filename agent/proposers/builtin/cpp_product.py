"""Holes of the contraction schedules: a block of MR rows by a few vectors of columns stays in registers while k runs.

Axes are read off the operands: ``m`` (rows of the left factor, broadcast), ``n`` (contiguous in the result, laid along lanes),
``k`` (summed); all other row axes are the batch.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from agent.errors import EmitError
from agent.proposers.builtin.cpp_expr import Block, Lanes
from agent.proposers.builtin.cpp_view import View, roots_of, taken, var
from evaluators.ir.expr import Expr, affine, axes_of, walk
from evaluators.ir.kernel import Axis, Buffer, Kernel, Pass, Program, Reduction, Store
from evaluators.ir.pattern import contraction_operands


@dataclass(frozen=True)
class Shape:
    """A contraction taken apart."""

    reduction: Reduction
    left: Expr
    right: Expr
    m: Axis
    n: Axis
    k: Axis
    epilogue: tuple[Pass, ...]


def shape_of(kernel: Kernel) -> Shape:
    """Raises ``EmitError`` where the kernel is not one sum of products followed by an epilogue."""
    first, *rest = kernel.passes
    if len(first.cols) != 1 or len(first.reductions) != 1 or first.stores or first.scans or any(p.cols for p in rest):
        raise EmitError(f"kernel {kernel.name!r}: a product schedule needs one sum of products, then an epilogue")
    r = first.reductions[0]
    operands = contraction_operands(kernel, first, r)
    if operands is None:
        raise EmitError(f"kernel {kernel.name!r}: {r.name!r} is not a sum of products of two operands")
    left, right = operands
    rows = {a.name: a for a in kernel.rows}
    contiguous = [a for p in rest for s in p.stores for a, c in s.index.axes if c == 1 and a in rows]
    if contiguous and contiguous[0] in axes_of(left) and contiguous[0] not in axes_of(right):
        left, right = right, left
    only_left = [a for n, a in rows.items() if n in axes_of(left) and n not in axes_of(right)]
    only_right = [a for n, a in rows.items() if n in axes_of(right) and n not in axes_of(left)]
    n = next((a for a in only_right if a.name in contiguous), only_right[-1])
    return Shape(r, left, right, only_left[-1], n, first.cols[0], tuple(rest))


@dataclass
class ProductView(View):
    """A contraction with its epilogue."""

    shape: Shape = field(init=False)
    to_stage: bool = False

    @classmethod
    def of(cls, kernel: Kernel, program: Program) -> ProductView:
        """Raises ``EmitError`` where the kernel is no contraction."""
        return cls(kernel, program, shape_of(kernel).n, True)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.shape = shape_of(self.kernel)

    @staticmethod
    def facts(kernel: Kernel) -> dict[str, int | str]:
        """``m``, ``n``, ``k``, ``batch``, and whether the right factor is contiguous along n (``direct``)."""
        try:
            s = shape_of(kernel)
        except EmitError:
            return {"direct": 0}
        batch = 1
        for a in kernel.rows:
            batch *= a.extent
        direct = all(x.index is None or x.index.coeff(s.n.name) in (0, 1) for x in walk(s.right) if x.op == "load")
        return {
            "m": s.m.extent, "n": s.n.extent, "k": s.k.extent, "direct": int(direct),
            "batch": batch // (s.m.extent * s.n.extent),
        }  # fmt: skip

    @property
    def outer(self) -> tuple[Axis, ...]:
        """The batch axes."""
        s = self.shape
        return tuple(r for r in self.kernel.rows if r.name not in (s.m.name, s.n.name))

    @property
    def m(self) -> int:
        """Rows of the product."""
        return self.shape.m.extent

    @property
    def n(self) -> int:
        """Columns of the product."""
        return self.shape.n.extent

    @property
    def k(self) -> int:
        """Length of the sum."""
        return self.shape.k.extent

    @property
    def hoisted(self) -> str:
        """Values that depend on the batch only."""
        s = self.shape
        varying = frozenset((s.m.name, s.n.name, s.k.name))
        for p in self.kernel.passes:
            self.top.hoist(list(roots_of(p)), varying)
        return taken(self.top)

    @property
    def kv(self) -> str:
        """Loop variable of the sum."""
        return var(self.shape.k.name)

    def declare(self, rows: int, vectors: int) -> str:
        """The register block, at zero."""
        return "\n".join(
            f"f32v {', '.join(f'acc{i}_{j} = splat<f32v>(0.0f)' for j in range(vectors))};" for i in range(rows)
        )

    def multiply(self, rows: int, vectors: int, m: str, n: str, partial: bool = False, packed: str = "") -> str:
        """One step of k: ``rows`` by ``vectors`` fused multiply-adds.

        The right factor is read in place at column ``n``, or from ``packed`` (address of this step's vectors).
        """
        s = self.shape
        block = self.top.inside({s.k.name: var(s.k.name)})
        names = []
        for j in range(vectors):
            at = block.inside({s.n.name: f"({n} + {j} * W)"}, f"rest_{j}" if partial else None)
            if packed:
                self.lanes.used.add("load")
                at.lines.append(f"const f32v right{j} = load<f32v>({packed} + {j} * W);")
            else:
                at.lines.append(f"const f32v right{j} = {at.vector(s.right)};")
            block.lines += at.lines
            names.append(f"right{j}")
        for i in range(rows):
            at = block.inside({s.m.name: f"({m} + {i})"})
            value = at.vector(s.left)
            at.lines.append(f"const f32v left{i} = {value if value.startswith('splat') else f'splat<f32v>({value})'};")
            block.lines += at.lines
            block.lines += [f"acc{i}_{j} += left{i} * {b};" for j, b in enumerate(names)]
        return taken(block)

    def finish(self, rows: int, vectors: int, m: str, n: str, partial: bool = False, stream: bool = False) -> str:
        """The epilogue of every element of the register block: in place where it only stores, otherwise in a loop."""
        s = self.shape
        simple = sum(1 for p in s.epilogue for t in p.stores for _ in walk(t.value)) <= 2
        if simple:
            out = []
            for i in range(rows):
                for j in range(vectors):
                    out.append(
                        self.epilogue(
                            f"({m} + {i})", f"({n} + {j} * W)", f"acc{i}_{j}", f"rest_{j}" if partial else None, stream
                        )
                    )
            return "\n".join(out)
        tile = ", ".join("{" + ", ".join(f"acc{i}_{j}" for j in range(vectors)) + "}" for i in range(rows))
        inner = self.epilogue(f"({m} + i)", f"({n} + j * W)", "tile[i][j]", "rest" if partial else None, stream)
        rest = "const int rest = rest_of[j];\nif (rest == 0) break;\n" if partial else ""
        rests = (
            f"const int rest_of[{vectors}] = {{{', '.join(f'rest_{j}' for j in range(vectors))}}};\n" if partial else ""
        )
        return (
            f"const f32v tile[{rows}][{vectors}] = {{{tile}}};\n{rests}for (int i = 0; i < {rows}; ++i) {{\n"
            f"for (int j = 0; j < {vectors}; ++j) {{\n{rest}{inner}\n}}\n}}"
        )

    @property
    def parts(self) -> tuple[int, int]:
        """How many bfloat16 numbers sum to each operand: one where it is a bfloat16 tensor itself, three for float32."""
        return self._parts(self.shape.left), self._parts(self.shape.right)

    @property
    def products(self) -> list[tuple[int, int, bool, bool]]:
        """The products of parts that matter, small ones first, ordered so that neighbours share an operand: left part, right part,
        and whether each must be loaded."""
        left, right = self.parts
        order = [(0, 2), (0, 1), (1, 1), (1, 0), (2, 0), (0, 0)]
        out: list[tuple[int, int, bool, bool]] = []
        for a, b in order:
            if a < left and b < right:
                before = out[-1] if out else (-1, -1, True, True)
                out.append((a, b, before[0] != a, before[1] != b))
        return out

    def left_vector(self, target: str, m: str, k: str, rest: str | None) -> str:
        """Assign 16 consecutive k of the left factor to ``target``."""
        s = self.shape
        along = Lanes(frozenset((s.k.name,)), self.lanes.buffers, used=self.lanes.used, serial=self.lanes.serial + 1000)
        block = Block(along, self.top, {s.m.name: m, s.k.name: k}, rest)
        block.lines.append(f"{target} = {block.vector(s.left)};")
        return taken(block)

    def right_vector(self, target: str, k: str, n: str, rest: str | None) -> str:
        """Assign 16 consecutive columns of the right factor to ``target``."""
        s = self.shape
        block = self.top.inside({s.k.name: k, s.n.name: n}, rest)
        block.lines.append(f"{target} = {block.vector(s.right)};")
        return taken(block)

    def use(self, *fragments: str) -> str:
        """Ask for prelude fragments that the skeleton calls itself."""
        self.lanes.used.update((*fragments, "tiles"))
        return ""

    def _parts(self, operand: Expr) -> int:
        if operand.op == "load":
            return {"bfloat16": 1, "float16": 2}.get(self.program.buffers[operand.attr].dtype, 3)
        return 3

    def rests(self, vectors: int, n: str) -> str:
        """Declare how many lanes of each vector lie inside the matrix."""
        lines = []
        for u in range(vectors):
            left = f"{self.n} - ({n} + {u} * W)"
            lines.append(f"const int rest_{u} = {left} >= W ? W : {left} > 0 ? (int)({left}) : 0;")
        return "\n".join(lines)

    @property
    def staged(self) -> Store | None:
        """The one store of the epilogue, where whole rows of the result are contiguous in memory and can be written as one run."""
        s = self.shape
        stores = [t for p in s.epilogue for t in p.stores]
        rows = len(stores) == 1 and stores[0].index.coeff(s.n.name) == 1 and stores[0].index.coeff(s.m.name) == self.n
        plain = rows and not stores[0].index.terms and self.program.buffers[stores[0].buffer].dtype == "float32"
        return stores[0] if plain else None

    def ahead(self, rows: int) -> str:
        """Prefetch the next batch's operands, a block of rows' share at a time, where they are contiguous matrices."""
        s = self.shape
        if not self.outer:
            return ""
        batch = self.outer[-1].name
        tiles = -(-self.m // rows)
        shares = (
            (s.left, {s.m.name: self.k, s.k.name: 1}, "m0", rows * self.k, "0"),
            (
                s.right,
                {s.k.name: self.n, s.n.name: 1},
                "0",
                -(-self.k * self.n // tiles),
                f"m0 / {rows} * {-(-self.k * self.n // tiles)}",
            ),
        )
        lines = []
        for operand, strides, m, count, start in shares:
            if operand.op != "load" or operand.index is None or operand.index.terms or not operand.index.coeff(batch):
                continue
            if any(operand.index.coeff(axis) != c for axis, c in strides.items()):
                continue
            bind = {batch: f"({var(batch)} + 1)", s.m.name: m, s.n.name: "0", s.k.name: "0"}
            at = self.top.inside(bind).address(operand.attr, operand.index)
            lines.append(f"for (int e = 0; e < {count}; e += 16) prefetch_far({at} + {start} + e);")
            self.lanes.used.add("prefetch")
        return "\n".join(lines)

    def stage(self) -> str:
        """Send the epilogue's stores to a local array ``stage``, one row of the block after another, from now on."""
        assert self.staged is not None
        buffers = {**self.program.buffers, "stage": Buffer("stage", (self.m, self.n), "float32", "scratch")}
        self.lanes.buffers = self.top.lanes.buffers = buffers
        self.to_stage = True
        self.lanes.used.update(("stream", "load"))
        return ""

    def unstage(self, rows: str) -> str:
        """Write ``rows`` rows of the stage to the result, past the caches."""
        store = self.staged
        assert store is not None
        block = self.top.inside({self.shape.m.name: "m0", self.shape.n.name: "0"})
        return (
            f"float* const to = {block.address(store.buffer, store.index)};\n"
            f"const int count = {rows} * {self.n};\nint e = 0;\n"
            f"for (; e + W <= count; e += W) stream<float>(to + e, load<f32v>(stage + e));\n"
            f"for (; e < count; ++e) to[e] = stage[e];"
        )

    def epilogue(self, m: str, n: str, value: str, rest: str | None, stream: bool = False) -> str:
        """The epilogue of one vector of results ``value`` at row ``m`` and column ``n``."""
        s = self.shape
        block = self.top.inside({s.m.name: m, s.n.name: n}, rest)
        block.results = {s.reduction.name: value}
        for p in s.epilogue:
            for r in p.reductions:
                block.results[r.name] = block.vector(r.value)
            for t in p.stores:
                block.vector(t.value)
                if self.to_stage:
                    at = affine(0, {s.m.name: self.n, s.n.name: 1})
                    local = block.inside({s.m.name: f"({m} - m0)"})
                    local.write("stage", at, t.value)
                    block.lines += local.lines
                else:
                    block.write(t.buffer, t.index, t.value, stream)
        return taken(block)
