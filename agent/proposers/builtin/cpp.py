"""C++/OpenMP emitter: loop-IR kernels and a plan in, the text of a candidate module out.

An exemplar's skeleton is the schedule (loops, tiles, threads, accumulators); a view fills its holes with statements from the IR. The
skeleton picks its view: ``rows()`` lays vectors along columns, ``lanes()`` along rows, ``product()`` blocks a contraction; ``share(n)``
is the part of n jobs that a thread takes at a time. Sizes that reach beyond what there is are cut to it by ``within(size, extent)`` and
``copies(unroll, extent)``: values of a knob that come to the same schedule give the same text, and so count as one candidate.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, StrictUndefined, TemplateError

from agent.errors import EmitError
from agent.proposers.builtin.cpp_lanes import LaneView, row_lane
from agent.proposers.builtin.cpp_prelude import prelude
from agent.proposers.builtin.cpp_product import ProductView
from agent.proposers.builtin.cpp_rows import RowView, column_lane
from agent.proposers.builtin.cpp_view import View, buffers_of
from agent.proposers.builtin.module import Rendered, assemble
from agent.proposers.builtin.plan import Choice
from evaluators.ir.kernel import Kernel, Program
from evaluators.ir.pattern import classify
from evaluators.languages.cpp import wrap

_LAUNCH = '''\
import torch


def _launch(kernel, *tensors):
    """Call a C function with a table of addresses (ctypes passes bytes as a pointer) and PyTorch's number of threads."""
    table = b"".join(t.data_ptr().to_bytes(8, "little") for t in tensors)
    getattr(_native(), kernel)(table, torch.get_num_threads())
'''
_BYTES = {"float64": 8, "int64": 8, "float32": 4, "int32": 4, "bfloat16": 2, "float16": 2, "int16": 2}


def render_module(program: Program, signature: tuple[str, ...], plan: Mapping[str, Choice]) -> str:
    """The candidate module that computes ``program``, each kernel scheduled by its choice in ``plan``.

    The text depends on nothing but the arguments. Raises ``EmitError`` naming the construct that has no C++ form.
    """
    functions: list[str] = []
    rendered: dict[str, Rendered] = {}
    used: set[str] = set()
    for kernel in program.kernels:
        view, text = render_kernel(kernel, program, plan[kernel.name])
        used |= view.lanes.used
        functions.append(text)
        launch = f'_launch("{kernel.name}", {", ".join(view.arguments)})'
        rendered[kernel.name] = Rendered("", (launch,), tuple(view.scratch))
    source = prelude(used) + "\n" + "\n".join(functions)
    body = assemble(program, signature, _LAUNCH, rendered)
    return wrap({"kernel.cpp": source}, body)


def render_kernel(kernel: Kernel, program: Program, choice: Choice) -> tuple[View, str]:
    """One kernel's C function and the view that filled it. Raises ``EmitError``."""
    made: list[View] = []

    def view(make: Callable[[Kernel, Program], View]) -> Callable[[], View]:
        def build() -> View:
            made.append(make(kernel, program))
            return made[-1]

        return build

    where = f"kernel {kernel.name!r} with exemplar {choice.exemplar.name!r}"
    try:
        template = Environment(undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True).from_string(
            choice.exemplar.skeleton
        )
        body = template.render(
            **choice.knobs,
            rows=view(RowView.of),
            lanes=view(LaneView.of),
            product=view(ProductView.of),
            cdiv=lambda a, b: -(-a // b),
            share=lambda jobs: max(1, jobs // 64),
            within=min,
            copies=_copies,
        )
    except TemplateError as error:
        raise EmitError(f"{where}: {error}") from error
    except EmitError as error:
        raise EmitError(f"{where}: {error}") from error
    if not made:
        raise EmitError(f"{where}: the skeleton calls none of rows(), lanes(), product()")
    view_ = made[-1]
    text = f'extern "C" void {kernel.name}(void* const* at, int threads) {{\n{view_.head}\n{body}\n}}\n'
    return view_, indented(text)


def _copies(unroll: int, extent: int) -> int:
    """``unroll``, or fewer where a loop over ``extent`` elements would never fill that many vectors of 16."""
    while unroll > 1 and unroll * 16 > extent:
        unroll //= 2
    return unroll


def facts(kernel: Kernel, program: Program) -> dict[str, int | str]:
    """What exemplar constraints may read about a kernel.

    ``pattern``; ``rows`` and ``cols`` (points of the row axes, of the longest pass's column axes); ``inner`` (extent of the contiguous
    axis a schedule lays vectors along: ``lane_rows`` for lanes over rows, ``lane_cols`` over columns); ``outer`` (rows divided by
    ``lane_rows``); ``passes``; ``bytes`` (widest element); ``ragged``; ``m``, ``n``, ``k``, ``batch`` of a contraction, and ``direct``
    where its right factor is contiguous along n; ``threads``; ``amx``: the processor multiplies bfloat16 tiles.
    """
    pattern = classify(kernel)
    rows = _points(a.extent for a in kernel.rows)
    cols = max((_points(a.extent for a in p.cols) for p in kernel.passes), default=1)
    over_rows, over_cols = row_lane(kernel), column_lane(kernel)
    lane_rows = over_rows.extent if over_rows else 1
    lane_cols = over_cols.extent if over_cols else 1
    read, written = buffers_of(kernel)
    by_row = pattern in ("pointwise", "column_reduce", "column_norm", "contraction") or not over_cols
    out: dict[str, int | str] = {
        "pattern": pattern,
        "rows": rows,
        "cols": cols,
        "lane_rows": lane_rows,
        "lane_cols": lane_cols,
        "inner": lane_rows if by_row else lane_cols,
        "outer": rows // max(lane_rows, 1),
        "outer_cols": cols // max(lane_cols, 1),
        "passes": sum(1 for p in kernel.passes if p.cols),
        "reductions": sum(len(p.reductions) for p in kernel.passes),
        "bytes": max((_BYTES.get(program.buffers[b].dtype, 1) for b in read + written), default=4),
        "ragged": int(any(c.ragged for p in kernel.passes for c in p.cols)),
        "m": 0,
        "n": 0,
        "k": 0,
        "batch": 0,
        "threads": os.cpu_count() or 1,
        "amx": int("amx_bf16" in _processor_flags()),
        "direct": 1,
    }
    if pattern == "contraction":
        out |= ProductView.facts(kernel)
    return out


@cache
def _processor_flags() -> frozenset[str]:
    """Instruction sets of the local processor, as Linux names them (empty elsewhere)."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return frozenset()
    return frozenset(next((line.split(":", 1)[1] for line in lines if line.startswith("flags")), "").split())


def _points(extents: Any) -> int:
    n = 1
    for e in extents:
        n *= int(e)
    return n


def indented(text: str) -> str:
    """Lay out C++ by its braces: two spaces a level, no blank lines inside."""
    out: list[str] = []
    depth = 0
    for raw in text.splitlines():
        line = raw.strip()
        if not line:
            continue
        if line.startswith(("#if", "#el", "#endif")):
            out.append(line)
            continue
        leading = len(line) - len(line.lstrip("}"))
        out.append("  " * max(depth - leading, 0) + line)
        depth += line.count("{") - line.count("}")
    return "\n".join(out) + "\n"
