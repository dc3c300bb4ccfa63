"""The loop IR: kernels as parallel rows and sequential passes over columns, independent of any language.

A kernel runs one independent program per point of its ``rows`` axes. Each program executes the ``passes`` in order. A pass
loops over its ``cols`` axes, evaluates its expressions at every point, folds them into its reductions and scans, and writes its stores. A
reduction's result is usable (as ``reduced``) in later passes. A pass without cols runs once per row: an epilogue.

Examples (rows | passes):
- pointwise: ``i | store y[i]``
- softmax over the last axis: ``r | c: max  ;  c: sum exp(x - max)  ;  c: store exp(x - max) / sum``
- column sum: ``c | r: sum x[r, c]  ;  store``
- matrix product with epilogue: ``m, n | k: sum a[m, k] * b[k, n]  ;  store f(sum)``
- segment mean: ``s, d | k in [offset[s], offset[s+1]): sum v[k, d]  ;  store sum / count``

The schedule (tiles, vectors, splits, threads) is no part of it: that is what exemplars decide.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from evaluators.ir.expr import Affine, Expr, Kind

Combine = Literal["sum", "prod", "max", "min", "any", "all"]
IDENTITY: dict[str, float] = {"sum": 0.0, "prod": 1.0, "max": float("-inf"), "min": float("inf"), "any": 0, "all": 1}


@dataclass(frozen=True)
class Axis:
    """A loop axis. A ragged axis (``low`` and ``high`` set) runs over ``[low, high)``, values that depend on rows only;
    its ``extent`` is then the expected mean length."""

    name: str
    extent: int
    low: Expr | None = None
    high: Expr | None = None

    @property
    def ragged(self) -> bool:
        return self.low is not None


@dataclass(frozen=True)
class Buffer:
    """A tensor in device memory, contiguous in ``shape``. ``dtype`` is a torch dtype name.

    ``role``: ``input`` (argument of forward; ``source`` is its position), ``param`` (``source`` is its state-dict name), ``constant``
    (``source`` is a nested list of values), ``output`` (``source`` is its position among the outputs), ``scratch`` (intermediate).
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    role: Literal["input", "param", "constant", "output", "scratch"]
    source: Any = None

    @property
    def numel(self) -> int:
        n = 1
        for s in self.shape:
            n *= s
        return n


@dataclass(frozen=True)
class Reduction:
    """Fold ``value`` over all cols of its pass."""

    name: str
    combine: Combine
    value: Expr
    kind: Kind


@dataclass(frozen=True)
class Scan:
    """Inclusive running fold of ``value`` along the single cols axis of its pass, in increasing (or decreasing, ``reverse``) order."""

    name: str
    combine: Literal["sum", "prod", "max", "min"]
    value: Expr
    kind: Kind
    reverse: bool = False


@dataclass(frozen=True)
class Store:
    """Write ``value`` to ``buffer`` at ``index``, narrowed to the buffer's dtype. Indices of distinct points never collide."""

    buffer: str
    index: Affine
    value: Expr


@dataclass(frozen=True)
class Pass:
    cols: tuple[Axis, ...]
    reductions: tuple[Reduction, ...] = ()
    scans: tuple[Scan, ...] = ()
    stores: tuple[Store, ...] = ()


@dataclass(frozen=True)
class Kernel:
    """One launch (or one OpenMP region)."""

    name: str
    rows: tuple[Axis, ...]
    passes: tuple[Pass, ...]


@dataclass(frozen=True)
class LibraryCall:
    """An operator left to PyTorch (a convolution, say): ``target`` is its ATen overload; tensor arguments are buffer names
    wrapped in :class:`Ref`."""

    target: str
    args: tuple[Any, ...]
    kwargs: tuple[tuple[str, Any], ...]
    outputs: tuple[str, ...]


@dataclass(frozen=True)
class Ref:
    """A buffer passed to a LibraryCall."""

    buffer: str


@dataclass(frozen=True)
class Program:
    """A traced reference: buffers, and steps in execution order. ``outputs`` lists the returned buffers, in order."""

    name: str
    buffers: dict[str, Buffer]
    steps: tuple[Kernel | LibraryCall, ...]
    outputs: tuple[str, ...]
    structure: str
    """How outputs are returned: ``"tensor"`` or ``"tuple"``."""
    arguments: int
    """Number of arguments of forward, tensors and scalars together."""

    @property
    def kernels(self) -> tuple[Kernel, ...]:
        return tuple(s for s in self.steps if isinstance(s, Kernel))
