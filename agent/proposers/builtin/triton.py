"""The Triton emitter: a program of the loop IR, a schedule for each of its kernels → a candidate module.

A schedule is an exemplar's skeleton (a Jinja2 template under ``corpora/kernels/triton``): it decides grids, tiles, loops and launches,
and asks the object ``k`` (:class:`agent.proposers.builtin.triton_holes.Holes`) for the code between. Lines that start with ``#:`` divide a
rendered skeleton: above the first is the device code; ``#: scratch NAME SHAPE DTYPE [zero]`` asks for a temporary; after
``#: launch`` come the lines that run it inside ``forward``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import jinja2

from agent.errors import EmitError
from agent.proposers.builtin import triton_math
from agent.proposers.builtin.module import Rendered, assemble
from agent.proposers.builtin.plan import Choice
from agent.proposers.builtin.triton_dot import Contraction
from agent.proposers.builtin.triton_holes import Holes, bytes_touched
from evaluators.ir.kernel import Kernel, Program
from evaluators.ir.pattern import classify

_HEADER = "import torch\nimport triton\nimport triton.language as tl\n"
_SM_COUNT = '''
def _processors(x):
    """Multiprocessors of the device that holds x: the size of a persistent grid."""
    if x.device.type != "cuda":
        return 4 if x.device.type == "cpu" else 132
    return torch.cuda.get_device_properties(x.device).multi_processor_count
'''
_ALLOCATOR = '''
def _workspace(size, alignment, stream):
    """Device memory in which the kernel builds its tensor descriptors."""
    return torch.empty(size, dtype=torch.int8, device="cuda")
'''


def render_module(program: Program, signature: tuple[str, ...], plan: Mapping[str, Choice]) -> str:
    """Source of a self-contained candidate module.

    ``signature`` names forward's arguments; ``plan`` gives the exemplar and knobs for every kernel by name. The text depends
    on the arguments alone. Raises :class:`agent.errors.EmitError` where a kernel cannot be carried by its schedule.
    """
    rendered = {k.name: render_kernel(k, program, plan[k.name]) for k in program.kernels}
    code = "\n".join(r.definitions for r in rendered.values())
    launches = "\n".join(line for r in rendered.values() for line in r.launch)
    preamble = _HEADER + (_SM_COUNT if "_processors(" in launches else "")
    preamble += _ALLOCATOR if "_workspace" in launches else ""
    return assemble(program, signature, preamble + "\n" + triton_math.used(f"{code}\n{launches}"), rendered)


def render_kernel(kernel: Kernel, program: Program, choice: Choice) -> Rendered:
    """One kernel under one schedule. Raises :class:`agent.errors.EmitError`."""
    env = jinja2.Environment(
        undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True, autoescape=False,
        extensions=["jinja2.ext.do"],
    )  # fmt: skip
    env.filters["i"] = lambda text, width=4: str(text).replace("\n", "\n" + " " * width)
    names: dict[str, Any] = {
        "k": Holes(kernel, program), "contraction": Contraction, "cdiv": lambda a, b: -(-a // b), "pow2": next_pow2,
        "min": min, "max": max, **choice.knobs,
    }  # fmt: skip
    try:
        text = env.from_string(choice.exemplar.skeleton).render(names)
    except jinja2.TemplateError as error:
        raise EmitError(f"{choice.exemplar.name}: skeleton: {error}; check its knobs and holes") from error
    return _divide(text, choice.exemplar.name)


def _divide(text: str, name: str) -> Rendered:
    """Split a rendered skeleton at its ``#:`` lines."""
    code: list[str] = []
    launch: list[str] = []
    scratch: list[tuple[str, tuple[int, ...], str, bool]] = []
    into = code
    for line in text.splitlines():
        word = line.strip()
        if not word.startswith("#:"):
            if into is code or word:
                into.append(line.rstrip())
            continue
        head, *rest = word[2:].split()
        if head == "launch":
            into = launch
        elif head == "scratch" and len(rest) >= 3:
            sizes = tuple(int(n) for n in rest[1].split("x"))
            scratch.append((rest[0], sizes, rest[2], rest[-1] == "zero"))
        else:
            raise EmitError(f"{name}: skeleton: {word!r} is neither '#: scratch NAME AxB DTYPE [zero]' nor '#: launch'")
    if not launch:
        raise EmitError(f"{name}: skeleton: no '#: launch' section")
    return Rendered("\n".join(code).strip("\n"), tuple(launch), tuple(scratch))


def facts(kernel: Kernel, program: Program) -> dict[str, int | str]:
    """What exemplar constraints may speak of, besides knobs.

    Sizes are in elements, ``bytes`` in bytes: ``pattern``, ``rows``, ``cols`` (of the narrowest sweep), ``cols_pow2``, ``unit``
    (extent of the contiguous row axis), ``outer`` (rows over unit), ``sweeps``, ``reductions``, ``stored`` (1 where a sweep
    writes), ``epilogue`` (1 where something runs once per row after the sweeps), ``tiles`` (whole-row tiles alive at once, an
    estimate), ``itemsize`` (of the widest floating buffer), ``half`` (1 where all of them are 16 bits), ``softmax`` (1 where an
    online form exists), ``m``, ``n``, ``k``, ``batch``, ``bare`` (1 where both operands are plain matrices; 0 outside
    contractions), ``inner`` (row points per segment).
    """
    k = Holes(kernel, program)
    outer, unit = k.unit_rows() if kernel.rows else ((), ())
    swept = [math.prod(c.extent for c in p.cols) for p in k.kernel.passes if p.cols]
    sizes = {"float64": 8, "float32": 4, "bfloat16": 2, "float16": 2}
    widths = [sizes[k.buffers[b].dtype] for b in k.touched if k.buffers[b].dtype in sizes]
    cols = min(swept, default=1)
    large = [b for b in k.touched if k.buffers[b].numel >= k.ROWS * cols]
    out: dict[str, int | str] = {
        "pattern": classify(kernel), "rows": k.ROWS, "cols": cols, "cols_pow2": next_pow2(cols),
        "unit": math.prod(a.extent for a in unit), "outer": math.prod(a.extent for a in outer), "sweeps": len(swept),
        "reductions": sum(len(p.reductions) for p in kernel.passes), "itemsize": max(widths, default=4),
        "tiles": sum(-(-k.buffers[b].numel // max(1, k.ROWS * cols)) for b in large), "half": int(max(widths, default=4) == 2),
        "softmax": int(k.has_softmax), "bytes": bytes_touched(kernel, program), "m": 0, "n": 0, "k": 0, "batch": 0, "bare": 0,
        "inner": 1, "epilogue": int(bool(k.after)),
        "stored": int(any(p.stores and p.cols for p in kernel.passes)),
    }  # fmt: skip
    if out["pattern"] == "contraction":
        try:
            c = Contraction(k)
        except EmitError:
            return out
        out |= {"m": c.M, "n": c.N, "k": c.K, "batch": c.BATCH, "bare": int(c.bare("a") and c.bare("b"))}
    if out["pattern"] == "segment":
        out["inner"] = math.prod(a.extent for a in k.segment_axes()[1])
    return out


def next_pow2(n: int) -> int:
    """Smallest power of two that is at least ``n``."""
    return 1 << max(0, n - 1).bit_length()
