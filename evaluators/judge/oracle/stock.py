"""Inputs of timed batches: a set for every call of a batch, changed before every turn, so that no call can be answered from another.

What a spec describes as independent random numbers is a window into a longer pool of such numbers, another window for each set and each
turn; of other floating inputs, and of all where copying would take long, a few elements take other elements' values at places that
nobody can guess. Before a turn the judge names a few sets, unknown to the candidate, whose results it will look at: their inputs are
put aside, and the reference is run on them when it does.
"""

from __future__ import annotations

import copy
import functools
import random
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from evaluators.judge.memory import wire
from evaluators.judge.memory.arena import Layout, arguments
from evaluators.judge.oracle import altered, cases
from evaluators.judge.oracle.local import DRAWS
from evaluators.judge.oracle.local import MOST as LOCAL
from evaluators.spec.calls import described, make_arguments
from evaluators.spec.kernel_spec import InputSpec, KernelSpec

MOST = 4096
"""Sets, at most."""
FASTER = 8
"""Sets are made for a candidate that is so many times faster than eager PyTorch; a faster one has shorter batches."""
_REWRITTEN = {"cpu": 64 << 20, "cuda": 16 << 30}
"""Bytes of inputs that are rewritten before a turn; of what is beyond, single elements change."""
_DRAWS = 64
_SINGLE = 4
_EXTREMES = 8
"""Of floating numbers, half of the elements that change get one of so many of the largest or of the smallest known, in turn: these change a
maximum as well as a sum."""
_REDRAWN, _TRIES, _IMPLAUSIBLE = 16, 4, 0.06
"""How many results of a random reference say where an element may lie, how often that is tried, and the share of elements that may lie
elsewhere: of those that are 1 once in seventeen times and else 0, the worst, 2% do."""
_LOOSER = 2.0
"""The reference's result in its own type stands for the oracle's, with so many times the limits; what is beyond is judged by the rule."""
_NEAREST = 0.8
_INDEPENDENT = frozenset({"normal", "uniform", "randint", "bool", "class_indices"})


@dataclass
class _Tensor:
    """One input tensor over all sets: a matrix with a row per set, what rows are cut from, and how it changes."""

    rows: Any
    base: list[Any]
    """A row per case: the values that it has there."""
    pool: Any
    """Independent numbers of the same kind, more than a row; ``None`` where nothing says that they are independent."""
    anchor: float | None
    """The number towards which the numbers of a window are drawn, each set's by another factor; ``None``: they are left as they are."""
    singles: int
    """Elements of a row that change in each turn."""
    extremes: Any
    """The largest and the smallest numbers; ``None`` where there are none to speak of."""


class Stock:
    """``count`` sets of inputs in ``block``, made from ``known`` cases of the same reference ``model``."""

    def __init__(
        self, spec: KernelSpec, model: Any, device: torch.device, dims: Mapping[str, int] | None, known: Sequence[cases.Case],
        count: int, block: Any, layout: Layout,
    ) -> None:  # fmt: skip
        self.spec, self.device, self.dims, self.known, self.count = spec, device, dims, known, count
        self.model = copy.deepcopy(model) if spec.mode == "train" else model
        self.block, self.layout = block, layout
        self.arguments = arguments(known[0].argument_tree, layout, block, count)
        self.outputs: Layout | None = None
        """How results of all sets lie in their shared block, where there is one."""
        self.aside: dict[int, list[Any]] = {}
        """Inputs of the sets whose results will be looked at."""
        self.draw = random.SystemRandom()
        self.generator = torch.Generator(block.device).manual_seed(self.draw.getrandbits(62))
        self.rewrites = known[0].inputs_may_change
        """Whether every turn needs all inputs written anew, because the reference's calls change them."""
        self.random = self._is_random()
        held = sum(t.numel() for t in (*known[0].inputs, *known[0].outputs))
        self.small = held <= LOCAL[device.type]
        """Whether single elements are measured by their own size too."""
        items = _descriptions(spec, known[0])
        self.tensors = [self._tensor(i, item) for i, item in enumerate(items)]
        everything = range(count)
        for tensor in self.tensors:
            _spread(tensor, everything)
        self._change(everything, everything)

    def refresh(self, begin: int, calls: int, watch: Sequence[int]) -> None:
        """Change the inputs of ``calls`` sets from set ``begin`` on, and put those of the sets in ``watch`` aside."""
        numbers = [(begin + k) % self.count for k in range(calls)]
        bytes_each = sum(t.rows.shape[1] * t.rows.element_size() for t in self.tensors)
        most = calls if self.rewrites else min(calls, _REWRITTEN[self.device.type] // max(bytes_each, 1))
        first = self.draw.randrange(calls)
        self._change(numbers, [numbers[(first + k) % calls] for k in range(most)])
        self.aside = {k: [t.clone() for t in self.layout.views(self.block, k)] for k in watch}

    def judge(self, number: int, values: list[Any], thorough: bool = False) -> dict[str, Any]:
        """The verdict on a candidate's outputs for a set that was put aside, and on its inputs: ``ok``, ``status``, ``detail``.

        ``thorough``: by the rule, and each element by its own size, where the set is small enough for that.
        """
        kept = self.aside[number]
        tree = self.known[0].argument_tree
        if not self.rewrites:
            for index, (tensor, own) in enumerate(zip(self.layout.views(self.block, number), kept, strict=True)):
                if not cases.same(tensor, own):
                    return _wrong(f"input tensor {index} was modified; the reference does not")
            if self.random:
                return self._plausible(values, kept)
            if not (thorough and self.small) and self._near(values, kept):
                return {"ok": True, "status": "correct", "detail": "near the reference's own result"}
        case = self._case(wire.rebuild(tree, [t.clone() for t in kept]))
        found = cases.compare(case, values, self.spec)
        if not found["ok"]:
            return _wrong(found["detail"])
        for index, want in case.after.items():
            tensor = self.layout.views(self.block, number)[index]
            after = want.judge(tensor, None)
            if not (after.ok or cases.same(tensor, kept[index])):
                return _wrong(f"input tensor {index} is not as the reference leaves it: {after.detail}")
        return {"ok": True, "status": "correct", "detail": found["detail"]}

    def _plausible(self, values: list[Any], inputs: list[Any]) -> dict[str, Any]:
        """Whether values of a random reference lie about where its own results on the same inputs do with other seeds; tried again where
        they do not, for one random number may move all values."""
        problem = ""
        for _ in range(_TRIES):
            drawn = [self._results(inputs, self.draw.getrandbits(60)) for _ in range(_REDRAWN)]
            problem = next(filter(None, (_apart(v, [d[i] for d in drawn], i) for i, v in enumerate(values))), "")
            if not problem:
                return {"ok": True, "status": "correct", "detail": "random: about where the reference's results lie"}
        return _wrong(problem)

    def _case(self, inputs: list[Any]) -> cases.Case:
        first = self.known[0]
        draws = DRAWS if self.small else 0
        return cases.build_case(self.spec, self.model, self.device, first.seed, self.dims, first.moved, inputs, draws)

    def _near(self, values: list[Any], inputs: list[Any]) -> bool:
        """Whether values are about what the reference gives in its own type, on inputs of the first case's kind."""
        flat = self._results(inputs, self.known[0].seed)
        declared = self.spec.tolerance
        for value, own, want in zip(values, flat, self.known[0].expected, strict=True):
            if declared is not None and own.is_floating_point():
                if not torch.allclose(value, own, declared.rtol, declared.atol, equal_nan=True):
                    return False
                continue
            if want.gates is None or want.unordered is not None or want.reference is not None:
                if not torch.equal(value, own):
                    return False
                continue
            if not _close(value, own, _LOOSER * want.gates.norm, _LOOSER * want.gates.element):
                return False
        return True

    def _results(self, inputs: list[Any], seed: int) -> list[Any]:
        torch.manual_seed(seed % 2**63)
        flat: list[Any] = []
        with torch.no_grad():
            given = [t.clone() for t in inputs] if self.rewrites else inputs
            wire.flatten(self.model(*wire.rebuild(self.known[0].argument_tree, given)), flat)
        return flat

    def _is_random(self) -> bool:
        """Whether the reference draws random numbers: another seed gives another result."""
        first = self.known[0]
        one, other = (self._results(first.inputs, first.seed + k) for k in (0, 1))
        return not all(map(cases.same, one, other)) and not self.rewrites

    @functools.cached_property
    def _share(self) -> float:
        """The share of a tensor's elements to change so that a result moves visibly; found by trying, where nothing is known of it."""
        first = self.known[0]
        found = None
        if not first.inputs_may_change and first.fingerprints is None:
            found = altered.alter(first, self.spec, self.model, self.device, self.dims)
        return altered.SHARES[found.level if found else -1]

    def _tensor(self, index: int, item: InputSpec | None) -> _Tensor:
        extent = wire.extent(self.known[0].inputs[index])
        base = [c.inputs[index].as_strided((extent,), (1,)).to(self.block.device) for c in self.known]
        rows = self.layout.rows(self.block, index, self.count, extent)
        independent = item is not None and item.dist in _INDEPENDENT
        share = 0.0 if independent else self._share
        moves = extent > 1 and (rows.is_floating_point() or independent)
        singles = max(_SINGLE, int(share * extent)) if moves else 0
        pool = None
        small = extent * rows.element_size() <= _REWRITTEN[self.device.type]
        if independent and extent and small:
            pool = self._pool(index, base[:2], extent)
        anchor = _anchor(item) if item is not None and rows.is_floating_point() else None
        return _Tensor(
            rows, base, pool, anchor, min(singles, extent), _extremes(base[0]) if moves and independent else None
        )

    def _pool(self, index: int, flat: list[Any], extent: int) -> Any:
        """More numbers like those of an input: the cases' own, and where a row is short, further draws."""
        parts = list(flat)
        while sum(p.numel() for p in parts) < 2 * extent + self.count and len(parts) < _DRAWS:
            tensors: list[Any] = []
            wire.flatten(list(make_arguments(self.spec, self.draw.getrandbits(60), self.device, self.dims)), tensors)
            parts.append(tensors[index].as_strided((extent,), (1,)).to(self.block.device))
        return torch.cat(parts)

    def _change(self, numbers: Sequence[int], rewritten: Sequence[int]) -> None:
        """Rewrite some sets, and change single elements of all of them."""
        for tensor in self.tensors:
            if not tensor.rows.numel():
                continue
            if tensor.pool is not None:
                for run in _runs(rewritten):
                    rows = tensor.rows[run]
                    rows.copy_(self._windows(tensor.pool, *rows.shape))
                    if tensor.anchor is not None:
                        self._draw_nearer(rows, tensor.anchor)
            elif self.rewrites:
                _spread(tensor, rewritten)
            if tensor.singles:
                for run in _runs(numbers):
                    self._single_elements(tensor, tensor.rows[run])

    def _windows(self, pool: Any, count: int, extent: int) -> Any:
        """``count`` overlapping windows of ``extent`` numbers of the pool, each a random step after the one before; of a pool too small for
        that, random numbers."""
        room = pool.numel() - extent
        if room < count:
            return pool[torch.randint(pool.numel(), (count, extent), generator=self.generator, device=pool.device)]
        step = self.draw.randint(1, max(1, room // count))
        begin = self.draw.randint(0, max(0, room - step * (count - 1)))
        return pool.as_strided((count, extent), (step, 1), begin)

    def _draw_nearer(self, rows: Any, anchor: float) -> None:
        """Draw each row's numbers towards ``anchor`` by a factor of its own: windows overlap, and numbers come again in later turns, but no
        value does."""
        factors = torch.rand((len(rows), 1), generator=self.generator, device=rows.device)
        factors = factors.mul_(1.0 - _NEAREST).add_(_NEAREST).to(rows.dtype)
        if anchor:
            rows.sub_(anchor).mul_(factors).add_(anchor)
        else:
            rows.mul_(factors)

    def _single_elements(self, tensor: _Tensor, rows: Any) -> None:
        count, extent = rows.shape
        shape = (count, tensor.singles)
        at, source = (torch.randint(extent, shape, generator=self.generator, device=rows.device) for _ in range(2))
        values = self.draw.choice(tensor.base)[source]
        if tensor.extremes is not None:
            half = values[:, shape[1] // 2 :]
            drawn = torch.randint(tensor.extremes.shape[1], half.shape, generator=self.generator, device=rows.device)
            half.copy_(tensor.extremes[torch.arange(half.shape[1], device=rows.device) % 2, drawn])
        rows.scatter_(1, at, values)


def _apart(value: Any, drawn: list[Any], index: int) -> str:
    """How an output lies apart from results of a random reference; empty where it does not."""
    if not value.numel():
        return ""
    own = torch.stack(drawn).float()
    low, high = own.amin(0), own.amax(0)
    margin = 0.25 * (high - low) + 0.01 * high.abs() + 0.001 * own.abs().mean()
    inside = (value.float() >= low - margin) & (value.float() <= high + margin) | own.isnan().any(0)
    outside = 1.0 - float(inside.float().mean())
    if outside > _IMPLAUSIBLE:
        return (
            f"output {index}: {outside:.0%} of its elements lie where they lie in none of {len(drawn)} results of the reference, "
            "which is random"
        )
    sizes = own.nan_to_num().abs().reshape(len(drawn), -1).mean(1)
    size, spread = float(value.float().nan_to_num().abs().mean()), float(sizes.amax() - sizes.amin())
    if abs(size - float(sizes.mean())) > 3.0 * spread:
        return f"output {index} is {size:.3g} large on average, and {float(sizes.mean()):.3g} in results of the reference, which is random"
    return ""


def _extremes(numbers: Any) -> Any:
    """The largest and the smallest of a floating tensor's numbers, a row each."""
    if not numbers.is_floating_point():
        return None
    most = min(_EXTREMES, numbers.numel())
    return torch.stack([torch.topk(numbers, most, largest=largest).values for largest in (True, False)])


def worth(eager_ms: float, batch_ms: float, bytes_each: int, room: int) -> int:
    """Sets to make: calls of ``eager_ms`` that fill a batch of a candidate :data:`FASTER` times as fast, as far as ``room`` bytes go."""
    wanted = FASTER * batch_ms / max(eager_ms, 1e-4)
    return max(1, min(int(wanted), MOST, room // max(bytes_each, 1)))


def eager_ms(call: Any, settle: Any) -> float:
    """Milliseconds of the shortest of a few calls."""
    taken: list[float] = []
    while len(taken) < 2 or (sum(taken) < 20.0 and len(taken) < 8):
        begin = time.perf_counter()
        call()
        settle()
        taken.append((time.perf_counter() - begin) * 1e3)
    return min(taken[1:])


def _descriptions(spec: KernelSpec, case: cases.Case) -> list[InputSpec | None]:
    """How the spec describes each input tensor of a case; ``None`` where it does not."""
    plain = sum(_plain(item) for item in spec.inputs or ())
    items = [item for item in described(spec, len(case.inputs) + plain) or () if not _plain(item)]
    return [*items] if len(items) == len(case.inputs) else [None] * len(case.inputs)


def _plain(item: InputSpec) -> bool:
    """Whether an argument is no tensor."""
    return item.dtype == "python" or item.dist == "literal"


def _anchor(item: InputSpec) -> float | None:
    """The mean of normal numbers, the lower border of uniform ones: towards it all stay numbers that the spec describes."""
    names = {"normal": "mean", "uniform": "low"}
    if item.dist not in names:
        return None
    found = item.args.get(names[item.dist], 0.0)
    return float(found) if isinstance(found, (int, float)) else None


def _spread(tensor: _Tensor, numbers: Sequence[int]) -> None:
    """Give sets the inputs of the cases, in turn."""
    for k in numbers:
        tensor.rows[k].copy_(tensor.base[k % len(tensor.base)])


def _runs(numbers: Sequence[int]) -> list[slice]:
    """Numbers that go up by one, but for a wrap or two, as slices."""
    found: list[slice] = []
    for k in numbers:
        if found and found[-1].stop == k:
            found[-1] = slice(found[-1].start, k + 1)
        else:
            found.append(slice(k, k + 1))
    return found


def _close(value: Any, own: Any, norm: float, element: float) -> bool:
    """Whether two results differ by no more than these relative errors, of the whole and of each element; computed in their own type,
    float32 at least."""
    wide = torch.promote_types(own.dtype, torch.float32)
    own = own.to(wide)
    gap = (value.to(wide) - own).abs_()
    size = float(own.norm())
    rms = size / max(own.numel(), 1) ** 0.5
    if not gap.numel():
        return True
    if not float(gap.norm()) <= norm * size:
        return False
    most = element * rms
    return bool(gap.max() <= most) or bool(gap.sub_(own.abs(), alpha=element).max() <= most)


def _wrong(detail: str) -> dict[str, Any]:
    return {"ok": False, "status": "mismatch", "detail": detail}
