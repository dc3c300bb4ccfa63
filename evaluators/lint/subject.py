"""The spec under examination: its model, its cases as the judge makes them, and the judge's rule applied to any answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from evaluators.judge.memory import wire
from evaluators.judge.oracle import accuracy, cases
from evaluators.spec.kernel_spec import KernelSpec
from evaluators.spec.model import build_model, signature

SEEDS = (11, 23, 47)
MODEL_SEED = 5


@dataclass
class Subject:
    """A built reference with its cases. Every run starts from the same buffers and random state."""

    spec: KernelSpec
    model: Any
    cases: list[cases.Case]
    names: tuple[str, ...]
    buffers: dict[str, Any]

    @property
    def tolerance(self) -> tuple[float, float] | None:
        return (self.spec.tolerance.atol, self.spec.tolerance.rtol) if self.spec.tolerance else None

    def restore(self) -> None:
        """Give the model's buffers the values they had at first."""
        with torch.no_grad():
            for name, held in self.model.named_buffers():
                held.copy_(self.buffers[name])

    def run(self, number: int, inputs: list[Any] | None = None, seed: int | None = None) -> list[Any]:
        """Output tensors of the reference for case ``number``, on its inputs or on ``inputs`` in their place."""
        case = self.cases[number]
        given = [t.clone(memory_format=torch.preserve_format) for t in (case.inputs if inputs is None else inputs)]
        torch.manual_seed(case.seed if seed is None else seed)
        with torch.no_grad():
            try:
                result = self.model(*wire.rebuild(case.argument_tree, given))
            finally:
                self.restore()
        flat: list[Any] = []
        wire.flatten(result, flat)
        return flat

    def judge_one(self, number: int, output: int, value: Any) -> accuracy.Finding:
        """The accuracy rule on one output of a case; another shape or type is wrong."""
        like, want = self.cases[number].outputs[output], self.cases[number].expected[output]
        if value.shape != like.shape or value.dtype != like.dtype:
            far = float("inf")
            return accuracy.Finding(False, accuracy.Errors(far, far, far), accuracy.Gates(0, 0, 0), "another form")
        return want.judge(value, self.tolerance, explain=False)

    def passes(self, number: int, values: list[Any]) -> bool:
        """Whether every output passes."""
        return len(values) == len(self.cases[number].outputs) and all(
            self.judge_one(number, i, v).ok for i, v in enumerate(values)
        )

    def expected(self, number: int) -> list[Any]:
        """The right answers in the outputs' own types."""
        case = self.cases[number]
        return [
            (e.oracle if e.gates is not None else e.reference).to(like.dtype)
            for e, like in zip(case.expected, case.outputs, strict=True)
        ]

    def label(self, leaf: int) -> str:
        """Name of an input tensor by its place among all input tensors."""
        seen = 0
        trees = self.cases[0].argument_tree["list"]
        for position, tree in enumerate(trees):
            held = _count(tree)
            if leaf < seen + held:
                name = self.names[position] if position < len(self.names) else f"argument {position}"
                return name if held == 1 else f"{name}[{leaf - seen}]"
            seen += held
        return f"tensor {leaf}"


def _count(tree: Any) -> int:
    ((kind, body),) = tree.items()
    if kind == "tensor":
        return 1
    if kind == "dict":
        return sum(_count(v) for _, v in body)
    return sum(map(_count, body)) if kind in ("list", "tuple") else 0


def examine(spec: KernelSpec, seeds: tuple[int, ...] = SEEDS) -> Subject:
    """Build the reference on the CPU with cases of several seeds. Raises JudgeError or SpecError where it fails."""
    device = torch.device("cpu")
    model = build_model(spec, device, seed=MODEL_SEED)
    buffers = {n: b.clone() for n, b in model.named_buffers()}
    made: list[cases.Case] = []
    for seed in seeds:
        moved = made[0].moved if made else None
        made.append(cases.build_case(spec, model, device, seed, None, moved))
    return Subject(spec, model, made, signature(spec), buffers)
