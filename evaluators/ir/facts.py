"""Counted work of a program: the bytes it cannot avoid moving, and the operations it performs."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from evaluators.ir.expr import BINARY, UNARY, Expr, axes_of, walk
from evaluators.ir.kernel import Axis, Buffer, Kernel, LibraryCall, Program
from evaluators.ir.library import library_operations
from evaluators.ir.pattern import classify, contraction_operands

ITEM_BYTES = {
    "float64": 8, "int64": 8, "float32": 4, "int32": 4, "bfloat16": 2, "float16": 2, "int16": 2,
    "int8": 1, "uint8": 1, "bool": 1,
}  # fmt: skip


@dataclass(frozen=True)
class Work:
    """``bytes``: compulsory traffic (inputs read once, outputs written once; a gathered table counts the rows it is asked
    for, at most its size). ``operations`` per dtype of arithmetic: multiply and add count one each; ``matmul`` of them in products,
    and ``convolution`` of these in convolutions, which PyTorch's defaults compute in TF32 on GPUs that have it."""

    bytes: int
    operations: int
    matmul: int
    dtype: str
    convolution: int = 0


def work(program: Program) -> Work:
    """Bytes and operations of the whole program, what is left to PyTorch included; intermediates are not compulsory and count nothing."""
    total = 0
    for b in program.buffers.values():
        if b.role in ("input", "param", "constant"):
            total += _read_bytes(program, b)
        elif b.role == "output":
            total += b.numel * ITEM_BYTES[b.dtype]
    operations = matmul = 0
    for k in program.kernels:
        ops, mm = kernel_operations(k)
        operations += ops
        matmul += mm
    convolution = 0
    for call in program.steps:
        if isinstance(call, LibraryCall):
            ops = library_operations(call, program.buffers)
            operations += ops
            matmul += ops
            convolution += ops if "convolution" in call.target else 0
    floats = [b.dtype for b in program.buffers.values() if b.role == "input" and "float" in b.dtype]
    return Work(total, operations, matmul, floats[0] if floats else "float32", convolution)


def _read_bytes(program: Program, buffer: Buffer) -> int:
    """Whole buffer, unless every access is through gathered indices or a smaller domain."""
    seen: dict[int, int] = {}
    library = any(buffer.name in repr(s.args) for s in program.steps if isinstance(s, LibraryCall))
    for k in program.kernels:
        for p in k.passes:
            roots = [r.value for r in p.reductions] + [s.value for s in p.scans] + [s.value for s in p.stores]
            roots += [e for c in p.cols for e in (c.low, c.high) if e is not None]
            for node in {id(n): n for root in roots for n in walk(root)}.values():
                if node.op == "load" and node.attr == buffer.name:
                    assert node.index is not None
                    seen.setdefault(id(node.index), _points(k, p.cols, axes_of(node.index)))
    size = buffer.numel if library else min(sum(seen.values()), buffer.numel)
    return size * ITEM_BYTES[buffer.dtype]


def _points(kernel: Kernel, cols: tuple[Axis, ...], names: frozenset[str]) -> int:
    """How many distinct points the named axes span; a ragged axis adds its mean length per row it depends on."""
    span = prod(a.extent for a in (*kernel.rows, *cols) if a.name in names)
    for c in cols:
        if c.ragged and c.name in names:
            assert c.low is not None
            span *= prod(a.extent for a in kernel.rows if a.name in axes_of(c.low) and a.name not in names)
    return span


def kernel_operations(kernel: Kernel) -> tuple[int, int]:
    """(all operations, of which in matrix products)."""
    total = matmul = 0
    rows = prod(a.extent for a in kernel.rows)
    for p in kernel.passes:
        cols = prod(c.extent for c in p.cols)
        roots: list[Expr] = [s.value for s in p.stores] + [s.value for s in p.scans]
        total += rows * cols * (len(p.reductions) + len(p.scans))
        for r in p.reductions:
            if contraction_operands(kernel, p, r):
                matmul += 2 * rows * cols
                total += rows * cols
            else:
                roots.append(r.value)
        nodes = {id(n): n for root in roots for n in walk(root)}
        for n in nodes.values():
            if n.kind in ("f32", "f64") and (n.op in UNARY or n.op in BINARY):
                names = axes_of(n)
                total += prod(a.extent for a in (*kernel.rows, *p.cols) if a.name in names)
    return total, matmul


def patterns(program: Program) -> tuple[str, ...]:
    """Pattern of each kernel, in order."""
    return tuple(classify(k) for k in program.kernels)


def operators(program: Program) -> tuple[str, ...]:
    """Names of the operators that occur, sorted: the program's signature for retrieval and warm start."""
    names: set[str] = set()
    for k in program.kernels:
        for p in k.passes:
            names |= {r.combine for r in p.reductions} | {f"cum{s.combine}" for s in p.scans}
            for root in [r.value for r in p.reductions] + [s.value for s in p.scans] + [s.value for s in p.stores]:
                names |= {n.op for n in walk(root) if n.op in UNARY or n.op in BINARY or n.op == "where"}
    names |= {s.target.removeprefix("aten::").split(".")[0] for s in program.steps if isinstance(s, LibraryCall)}
    return tuple(sorted(names))
