"""Which outputs are positions that PyTorch leaves open among equal values: those of ``topk``, ``sort``, ``kthvalue``, ``mode``, ``median``.

``argmax``, ``max(dim)`` and stable sorts promise which of equal elements they take; their positions stay exact. What a reference's run
calls is recorded, so that a position is known by the operator that made it and not by what its output looks like.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch

from evaluators.dispatch_mode import DispatchMode
from evaluators.judge.oracle import accuracy

_SEVERAL = frozenset({"topk", "sort"})
"""Operators that take several elements along their dim, each at most once."""
_OPEN = _SEVERAL | {"kthvalue", "mode", "median", "nanmedian"}
_COPIES = frozenset({"_to_copy", "clone"})


@dataclass
class Selection:
    """One call of such an operator: what it chose from and along which dim, and the tensors that hold its values and its positions."""

    source: Any
    version: int
    dim: int
    keeps_dim: bool
    distinct: bool
    ordered: bool
    values: list[Any]
    positions: list[Any] = field(default_factory=list)

    @property
    def intact(self) -> bool:
        """Whether the source still holds what was chosen from."""
        return bool(self.source._version == self.version)


class Selections(DispatchMode):
    """Records the calls of these operators while it is active."""

    def __init__(self) -> None:
        super().__init__()
        self.made: list[Selection] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = func(*args, **(kwargs or {}))
        name = func.overloadpacket.__name__
        if name in _OPEN and isinstance(made, (tuple, list)) and len(made) == 2:
            given = {a.name: v for a, v in zip(func._schema.arguments, args, strict=False)} | (kwargs or {})
            default = {a.name: a.default_value for a in func._schema.arguments if a.has_default_value()}
            source = given["self"]
            if source.dim() and not given.get("stable"):
                self.made.append(
                    Selection(
                        source, source._version, given.get("dim", default.get("dim", -1)),
                        name in _SEVERAL or bool(given.get("keepdim", False)), name in _SEVERAL, bool(given.get("sorted", True)),
                        [made[0]], [made[1]],
                    )
                )  # fmt: skip
        elif name in _COPIES and args:
            for known in self.made:
                for held in (known.values, known.positions):
                    if any(_alike(args[0], t) for t in held):
                        held.append(made)
        return made

    def of(self, output: Any) -> Selection | None:
        """The call whose positions an output holds, in any shape and integer type."""
        return next((s for s in self.made if s.intact and any(_alike(output, t) for t in s.positions)), None)

    def unordered(self, output: Any) -> int | None:
        """The dim along which an output holds chosen values in no promised order."""
        for s in self.made:
            if not s.ordered and any(output.shape == t.shape and _alike(output, t) for t in s.values):
                return s.dim
        return None


def _alike(a: Any, b: Any) -> bool:
    """Whether two tensors are the same elements in the same order."""
    if a.data_ptr() != b.data_ptr() or a.numel() != b.numel():
        return False
    return bool((a.is_contiguous() and b.is_contiguous()) or (a.shape == b.shape and a.stride() == b.stride()))


@dataclass(frozen=True)
class Ties:
    """What positions may point at: the oracle's source, the values chosen from it, and how far those that are pointed at may lie from
    them (0 where the source has no rounding of its own)."""

    source: Any
    wanted: Any
    limit: float
    dim: int
    keeps_dim: bool
    distinct: bool
    ordered: bool

    def judge(self, value: Any, reference: Any, oracle: Any, explain: bool = True) -> accuracy.Finding:
        """Judge positions: the reference's, or others that point at equal values."""
        found = accuracy.judge_exact(value, reference, oracle, explain)
        if found.ok:
            return found
        at = _placed(value, self.wanted.shape, self.dim, self.keeps_dim)
        if bool(((at < 0) | (at >= self.source.shape[self.dim])).any()):
            return _worse(found, "some point outside of what is chosen from")
        if self.distinct and bool((at.sort(self.dim).values.diff(dim=self.dim) == 0).any()):
            return _worse(found, "some elements are chosen twice")
        pointed, wanted = self.source.gather(self.dim, at), self.wanted
        if not self.ordered:
            pointed, wanted = pointed.sort(self.dim).values, wanted.sort(self.dim).values
        right = (pointed == wanted) | (torch.isnan(pointed) & torch.isnan(wanted))
        if self.limit:
            scale = wanted.nan_to_num(0.0, 0.0, 0.0)
            right |= (pointed - wanted).abs() <= self.limit * (scale.abs() + scale.square().mean().sqrt())
        wrong = int((~right).sum())
        if wrong:
            return _worse(found, f"{wrong} of them point at other values than the reference's do")
        return accuracy.Finding(
            True,
            accuracy.Errors(0.0, 0.0, 0.0),
            found.gates,
            "other positions than the reference's, which point at equal values",
        )


def _worse(found: accuracy.Finding, why: str) -> accuracy.Finding:
    return accuracy.Finding(False, found.errors, found.gates, f"{found.detail}; {why}")


def _placed(value: Any, shape: Any, dim: int, keeps_dim: bool) -> Any:
    at = value.long()
    return at.reshape(shape) if keeps_dim else at.reshape([n for i, n in enumerate(shape) if i != dim]).unsqueeze(dim)


def ties(output: Any, oracle_output: Any, theirs: Selections, exact: Selections) -> Ties | None:
    """What the positions in ``output`` may be; ``None`` where they are no such positions, or the oracle's run chose in another way."""
    if output.is_floating_point() or output.dtype == torch.bool:
        return None
    chosen, wide = theirs.of(output), exact.of(oracle_output)
    if chosen is None or wide is None or chosen.source.shape != wide.source.shape or chosen.dim != wide.dim:
        return None
    dim = wide.dim % wide.source.dim()
    source = wide.source.double()
    positions = wide.positions[0] if wide.keeps_dim else wide.positions[0].unsqueeze(dim)
    own = accuracy.errors(chosen.source, source)
    limit = accuracy.gates(own, accuracy.Errors(0.0, 0.0, 0.0), chosen.source.dtype).element if own.absolute else 0.0
    return Ties(source, source.gather(dim, positions), limit, dim, wide.keeps_dim, wide.distinct, wide.ordered)
