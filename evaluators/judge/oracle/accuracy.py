"""The accuracy rule.

For one floating output let ``e`` be the float64 oracle's result, ``r`` the reference's own result in its dtype, ``y`` the
candidate's, and ``p`` the oracle's result on inputs and parameters perturbed by one unit roundoff of their dtype (each element times
``1 + u·U(-1, 1)``). With

    norm(a)    = ‖a − e‖_F / ‖e‖_F
    element(a) = max_i |a_i − e_i| / (|e_i| + rms(e))

the candidate passes if

    norm(y)    ≤ max(2 · norm(r),    c · u,      k · norm(p))
    element(y) ≤ max(2 · element(r), g · c · u,  2 · k · element(p))

where g = max(4, √(2 ln n)) is what the largest of n normally spread errors reaches, in units of their root mean square (4 up to 2980
elements, 5.3 for a million), u is the unit roundoff of the output's dtype and (c, k) = (16, 4) for float32, (1, 0.5) for bfloat16 and
float16, (64, 4) for
float64. The first term is the reference's own error, the second a floor for references that happen to be exact, the third the
conditioning of the problem: no algorithm that rounds its inputs once can be held to less (Higham, Accuracy and Stability of Numerical
Algorithms, 2002, §1.5–1.6). For float32, 16u = 9.5e-7; TF32 operands err by about 5e-4, thousands of roundoffs, so no term lets them pass,
while three-way splits (3xTF32, bf16x6: 2e-7 to 1e-6) pass.

Beside these, elements are measured each for itself: see :mod:`evaluators.judge.oracle.local`.

NaN must be where the reference has NaN, infinities equal the reference's (where the oracle is finite and the reference overflows, either is
accepted). Integers and bools must equal the reference's or the oracle's. A declared tolerance replaces both gates by
``|y − e| ≤ atol + rtol · |e|``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any, Protocol

import torch

from evaluators.judge.oracle import patterns

FACTOR = 2.0
_ROUNDOFF = {torch.float32: 2.0**-24, torch.bfloat16: 2.0**-8, torch.float16: 2.0**-11, torch.float64: 2.0**-53}
_FLOOR = {torch.float32: 16.0, torch.bfloat16: 1.0, torch.float16: 1.0, torch.float64: 64.0}
_CONDITION = {torch.float32: 4.0, torch.bfloat16: 0.5, torch.float16: 0.5, torch.float64: 4.0}


def chunk(device: Any) -> int:
    """Elements worked on at a time: on a CPU few enough for a core's cache, on a GPU many enough to fill it."""
    return 1 << 20 if device.type == "cpu" else 1 << 24


@dataclass(frozen=True)
class Errors:
    """Distance of one output from the oracle: relative Frobenius norm, largest scaled element error, largest absolute error;
    ``finite`` where no element of either is NaN or infinite; the oracle's root mean square."""

    norm: float
    element: float
    absolute: float
    finite: bool = True
    rms: float = 0.0


@dataclass(frozen=True)
class Gates:
    """What one output may reach, and the reference's own norm error."""

    norm: float
    element: float
    reference: float


class Bounds(Protocol):
    """Bounds of single elements, ``limit`` times a scale of each: :class:`evaluators.judge.oracle.local.Local`."""

    limit: float

    def beyond(self, value: Any, oracle: Any) -> int:
        """How many elements lie beyond theirs; 0 where these are as few as chance explains."""
        ...

    def wrong(self, y: Any, e: Any) -> Any:
        """The mask of these elements."""
        ...


@dataclass(frozen=True)
class Finding:
    """One output judged: whether it passes, its errors and gates, and one line of explanation."""

    ok: bool
    errors: Errors
    gates: Gates
    detail: str

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def roundoff(dtype: Any) -> float:
    """Unit roundoff of a floating dtype (half the spacing of numbers at 1)."""
    return _ROUNDOFF.get(dtype, 2.0**-24)


def errors(value: Any, oracle: Any) -> Errors:
    """Errors of ``value`` against float64 ``oracle`` over elements where both are finite; computed in float64, in chunks."""
    scale_square = sum(float(e.dot(e)) for _, e in chunks(oracle, oracle))
    finite = math.isfinite(scale_square)
    count = oracle.numel()
    if not finite:
        count = sum(int(torch.isfinite(e).sum()) for _, e in chunks(oracle, oracle))
        scale_square = sum(
            float(torch.where(torch.isfinite(e), e, 0.0).square().sum()) for _, e in chunks(oracle, oracle)
        )
    rms = math.sqrt(scale_square / max(count, 1))
    square = element = absolute = 0.0
    for y, e in chunks(value, oracle):
        gap = (y - e).abs_()
        part = float(gap.dot(gap))
        if not math.isfinite(part):
            finite = False
            gap = torch.where(torch.isfinite(gap), gap, 0.0)
            part = float(gap.dot(gap))
        square += part
        if gap.numel():
            absolute = max(absolute, float(gap.max()))
            scaled = gap.div_(e.abs().add_(rms)).max()
            element = max(
                element, float(scaled) if math.isfinite(float(scaled)) else float(gap.nan_to_num_(0.0, 0.0).max())
            )
    size, norm = math.sqrt(square), math.sqrt(scale_square)
    return Errors(size / norm if norm else (0.0 if size == 0 else math.inf), element, absolute, finite, rms)


def chunks(value: Any, oracle: Any) -> Iterator[tuple[Any, Any]]:
    """Both flat and in float64, :func:`chunk` elements at a time."""
    a, b = value.reshape(-1), oracle.reshape(-1)
    step = chunk(oracle.device)
    for begin in range(0, b.numel(), step):
        yield a[begin : begin + step].double(), b[begin : begin + step].double()


def gates(own: Errors, moved: Errors, dtype: Any, count: int = 1) -> Gates:
    """Gates of one floating output of ``dtype`` with ``count`` elements from the reference's own errors and those of the oracle on
    perturbed inputs."""
    u = roundoff(dtype)
    c, k = _FLOOR.get(dtype, 16.0), _CONDITION.get(dtype, 4.0)
    return Gates(
        norm=max(FACTOR * own.norm, c * u, k * _bounded(moved.norm)),
        element=max(FACTOR * own.element, extreme(count) * c * u, 2 * k * _bounded(moved.element)),
        reference=own.norm,
    )


def extreme(count: int) -> float:
    """The largest of ``count`` normally spread errors as a multiple of their root mean square; at least 4."""
    return max(4.0, math.sqrt(2.0 * math.log(max(count, 1))))


def _bounded(value: float) -> float:
    return value if math.isfinite(value) else 0.0


def judge_floating(
    value: Any,
    reference: Any,
    oracle: Any,
    limit: Gates,
    tolerance: tuple[float, float] | None,
    local: Bounds | None = None,
    explain: bool = True,
) -> Finding:
    """Judge one floating output (same shape and dtype as the reference's), with ``local`` each element for itself too. Without ``explain``
    it is not said where and how it is wrong, which takes longer than finding out that it is."""
    found = errors(value, oracle)
    # Where reference and oracle are one, the reference is known to be finite throughout.
    problem = "" if reference is oracle and found.finite else _nonfinite(value, reference, oracle)
    if problem:
        where = _pattern(value, oracle, _differs_in_kind) if explain else ""
        return Finding(False, found, limit, problem + where)
    if tolerance is not None:
        atol, rtol = tolerance
        worst = max(
            (float(((y - e).abs() - rtol * e.abs()).nan_to_num(0.0).max()) for y, e in chunks(value, oracle)),
            default=0.0,
        )
        detail = f"largest |y - e| - rtol*|e| is {worst:.3g}, declared atol {atol:g}, rtol {rtol:g}"
        if worst > atol and explain:
            detail += _where(value, oracle, lambda y, e: (y.double() - e).abs() > atol + rtol * e.abs())
        return Finding(worst <= atol, found, limit, detail)
    ok = found.norm <= limit.norm and found.element <= limit.element
    detail = (
        f"relative norm error {found.norm:.2e} (limit {limit.norm:.2e}, reference {limit.reference:.2e}), "
        f"element error {found.element:.2e} (limit {limit.element:.2e})"
    )
    if not ok and explain:
        # Where no single element is beyond its limit, all of them together are: then those that contribute.
        bound = limit.element if found.element > limit.element else limit.norm
        rms = found.rms
        detail += _where(value, oracle, lambda y, e: (y.double() - e).abs() > bound * (e.abs() + rms))
    elif ok and local is not None and (many := local.beyond(value, oracle)):
        ok = False
        detail += f"; but {many} elements err by more than {local.limit:.2g} of their own size and of what rounding the inputs does to them"
        detail += _pattern(value, oracle, local.wrong) if explain else ""
    return Finding(ok, found, limit, detail)


def judge_exact(value: Any, reference: Any, oracle: Any, explain: bool = True) -> Finding:
    """Judge one integer or bool output: every element equals the reference's or the oracle's."""
    same = (value == reference) | (value == oracle)
    wrong = int((~same).sum())
    found = Errors(wrong / max(value.numel(), 1), float(wrong > 0), float(wrong > 0))
    detail = "exact"
    if wrong:
        where = _where(value, reference, lambda y, r: y != r) if explain else ""
        detail = f"{wrong} of {value.numel()} elements differ{where}"
    return Finding(wrong == 0, found, Gates(0.0, 0.0, 0.0), detail)


def _nonfinite(value: Any, reference: Any, oracle: Any) -> str:
    flat_y, flat_r, flat_e = value.reshape(-1), reference.reshape(-1), oracle.reshape(-1)
    for begin in range(0, flat_r.numel(), chunk(oracle.device)):
        y, r, e = (t[begin : begin + chunk(oracle.device)] for t in (flat_y, flat_r, flat_e))
        overflow = torch.isfinite(e) & ~torch.isfinite(r)
        bad = (torch.isnan(y) != torch.isnan(r)) | (torch.isinf(y) & (y != r)) | (torch.isinf(r) & (y != r))
        bad &= ~(overflow & ((y == r) | torch.isfinite(y) | (torch.isnan(y) & torch.isnan(r))))
        if bool(bad.any()):
            at = int(bad.nonzero()[0, 0])
            return (
                f"{int(bad.sum())} elements are NaN or infinite where the reference is not, or the reverse; first at flat index "
                f"{begin + at}: got {float(y[at]):g}, expected {float(r[at]):g}"
            )
    return ""


def _differs_in_kind(value: Any, oracle: Any) -> Any:
    return torch.isfinite(value) != torch.isfinite(oracle)


def _pattern(value: Any, oracle: Any, wrong_of: Callable[[Any, Any], Any]) -> str:
    found = patterns.describe(value, oracle, wrong_of)
    return f"; {found}" if found else ""


def _where(value: Any, oracle: Any, wrong_of: Callable[[Any, Any], Any]) -> str:
    """The worst element (index, what was found, what was expected), and what the wrong ones have in common."""
    wide = oracle.double()
    gap = (value.double() - wide).abs_().nan_to_num_(0.0)
    if not gap.numel():
        return ""
    rms = wide.nan_to_num(0.0, 0.0, 0.0).square().mean().sqrt()
    gap = gap.div_(wide.abs().add_(rms).clamp_min_(1e-300)).nan_to_num_(0.0).reshape(-1)
    at = int(gap.argmax())
    index: list[int] = []
    rest = at
    for size in reversed(oracle.shape):
        index.append(rest % size)
        rest //= size
    return (
        f"; worst at {list(reversed(index))}: got {float(value.reshape(-1)[at]):.6g}, expected {float(oracle.reshape(-1)[at]):.6g}"
        + _pattern(value, oracle, wrong_of)
    )
