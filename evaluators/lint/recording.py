"""One run of the reference, operator by operator, as PyTorch's dispatcher sees it; and the same run with one result replaced.

The dispatcher is asked rather than an exported graph, because it also sees references that cannot be exported, and sees what really runs.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch

from evaluators.dispatch_mode import DispatchMode
from evaluators.lint.subject import Subject

_PLUMBING = (
    "clone", "_to_copy", "copy_", "detach", "detach_", "empty", "empty_like", "new_empty", "empty_strided", "new_empty_strided", "zeros",
    "zeros_like", "new_zeros", "ones", "ones_like", "new_ones", "full", "full_like", "new_full", "arange", "scalar_tensor", "lift_fresh",
    "lift_fresh_copy", "fill_", "zero_", "contiguous", "resize_", "set_", "_local_scalar_dense", "repeat", "cat", "stack", "index_put_",
    "_unsafe_view", "constant_pad_nd", "triu", "tril", "eye", "linspace",
)  # fmt: skip


@dataclass
class Step:
    """One operator that computed something: its name, its line in the reference (0 unknown), the steps whose results it read, and
    what can be seen on its result alone."""

    name: str
    line: int
    reads: list[int]
    dtype: Any = None
    copies: int | None = None
    """Place of the tensor argument that the result equals, where it does."""
    constant: float | None = None
    """The one number the whole result holds, where the arguments hold more than one."""
    guard: bool = False
    """A clamp by a tiny bound, such as the one that keeps a division from zero."""
    returned: bool = False
    value: Any = None
    """The result itself, as it was then."""

    @property
    def where(self) -> str:
        return f"line {self.line}, {self.name}" if self.line else self.name


@dataclass
class Recording:
    """What one run did: its steps in order, and its random operators."""

    steps: list[Step] = field(default_factory=list)
    random: list[Step] = field(default_factory=list)


def _line() -> int:
    frame: Any = sys._getframe(2)
    while frame is not None:
        if frame.f_code.co_filename.startswith("<reference "):
            return int(frame.f_lineno)
        frame = frame.f_back
    return 0


def _name(func: Any) -> str:
    return str(func._schema.name).removeprefix("aten::")


def _tensors(value: Any) -> list[Any]:
    return [t for t in torch.utils._pytree.tree_leaves(value) if isinstance(t, torch.Tensor)]


def _computes(func: Any, result: Any, arguments: list[Any]) -> bool:
    """Whether an operator computes a new tensor: not a view, a copy, or a factory."""
    if _name(func) in _PLUMBING or not isinstance(result, torch.Tensor | tuple | list):
        return False
    outs = _tensors(result)
    if not outs or not arguments:
        return False
    if func._schema.is_mutable:
        return True
    held = {t.untyped_storage().data_ptr() for t in arguments if t.numel()}
    return outs[0].numel() == 0 or outs[0].untyped_storage().data_ptr() not in held


class _Watch(DispatchMode):
    """Counts computing operators; the subclasses' ``seen`` looks at each result and may replace it."""

    def __init__(self, seen: Callable[..., Any], before: Callable[..., Any] | None = None) -> None:
        super().__init__()
        self.seen, self.before, self.count = seen, before, 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        arguments = _tensors((args, kwargs))
        first = arguments[0].clone() if self.before and func._schema.is_mutable and arguments else None
        result = func(*args, **kwargs)
        if _computes(func, result, arguments):
            index, self.count = self.count, self.count + 1
            result = self.seen(index, func, (args, kwargs), result, first)
        elif self.before:
            self.before(func, result, arguments)
        return result


def record(subject: Subject, number: int) -> Recording:
    """Run case ``number`` and look at every operator's result."""
    made = Recording()
    producer: dict[int, list[int]] = {}
    kept: list[Any] = []  # so that no id is given twice

    def sources(tensors: list[Any]) -> list[int]:
        return sorted({step for t in tensors for step in producer.get(id(t), [])})

    def plumbing(func: Any, result: Any, arguments: list[Any]) -> None:
        if torch.Tag.nondeterministic_seeded in func.tags:
            made.random.append(Step(_name(func), _line(), []))
        from_steps = sources(arguments)
        for t in _tensors(result):
            producer[id(t)] = from_steps
            kept.append(t)

    def seen(index: int, func: Any, given: Any, result: Any, first: Any) -> Any:
        arguments = _tensors(given)
        step = Step(_name(func), _line(), sources(arguments))
        made.steps.append(step)
        if torch.Tag.nondeterministic_seeded in func.tags:
            made.random.append(step)
        outs = _tensors(result)
        out = outs[0]
        step.dtype = out.dtype
        step.value = out.detach().clone()
        inputs = [first if first is not None and t is out else t for t in arguments]
        step.copies = next((i for i, t in enumerate(inputs) if _equal(t, out)), None)
        if out.numel() > 1 and _one(out) and any(t.numel() > 1 and not _one(t) for t in inputs):
            step.constant = float(out.reshape(-1)[0])
        bound = [a for a in given[0][1:] if isinstance(a, float | int)]
        step.guard = "clamp" in step.name and bool(bound) and all(abs(b) <= 1e-4 for b in bound) and bound != [0]
        for t in outs:
            producer[id(t)] = [index]
            kept.append(t)
        return result

    with _Watch(seen, plumbing):
        outputs = subject.run(number)
    for index in sources(outputs):
        made.steps[index].returned = True
    return made


def _equal(a: Any, b: Any) -> bool:
    return bool(a.shape == b.shape and a.dtype == b.dtype and a.numel() > 0 and torch.equal(a, b))


def _one(t: Any) -> bool:
    return t.numel() <= 1 or bool((t == t.reshape(-1)[0]).all())


def run_replacing(subject: Subject, number: int, index: int, replace: Callable[[Any], Any]) -> list[Any] | None:
    """Outputs of case ``number`` where ``replace`` changed the result of step ``index``; None where it had nothing to change."""
    done = False

    def seen(at: int, func: Any, given: Any, result: Any, first: Any) -> Any:
        nonlocal done
        if at != index:
            return result
        outs = _tensors(result)
        fresh = replace(outs[0])
        if fresh is None:
            return result
        done = True
        if func._schema.is_mutable or isinstance(result, tuple | list):
            outs[0].copy_(fresh)
            return result
        return fresh

    with _Watch(seen):
        outputs = subject.run(number)
    return outputs if done else None
