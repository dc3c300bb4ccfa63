"""Cases: inputs of one seed with what is expected of them. They live in the reference's process only."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from evaluators.errors import JudgeError
from evaluators.judge.memory import wire
from evaluators.judge.oracle import accuracy
from evaluators.judge.oracle.local import MOST, Local, local
from evaluators.judge.oracle.selections import Selections, Ties, ties
from evaluators.spec.calls import build_call, make_arguments
from evaluators.spec.kernel_spec import KernelSpec
from evaluators.spec.model import to_float64

BEYOND = 4.0
"""Times the limits on harder inputs, at other sizes and with other parameters. A sum in order of a thousand numbers of different sizes,
or few results of long sums, are beyond those of the spec's own inputs by chance."""


@dataclass
class Expected:
    """One output tensor: the reference's (kept where the oracle alone does not decide), the oracle's, and the gates."""

    reference: Any
    oracle: Any
    gates: accuracy.Gates | None
    ties: Ties | None = None
    """What else is right, where the output holds positions that PyTorch leaves open among equal values."""
    unordered: int | None = None
    """The dim along which the output's values have no promised order; reference and oracle are then sorted."""
    local: Local | None = None
    """The bound of each element, where the oracle was perturbed often enough to know it."""

    def judge(self, value: Any, tolerance: tuple[float, float] | None, explain: bool = True) -> accuracy.Finding:
        """Judge a candidate's output of the expected shape and dtype."""
        if self.unordered is not None:
            value = value.sort(self.unordered).values
        if self.ties is not None:
            return self.ties.judge(value, self.reference, self.oracle, explain)
        if self.gates is None:
            return accuracy.judge_exact(value, self.reference, self.oracle, explain)
        shadow = self.oracle if self.reference is None else self.reference
        return accuracy.judge_floating(value, shadow, self.oracle, self.gates, tolerance, self.local, explain)


@dataclass
class Case:
    """One seed: its input tensors untouched, the forms of arguments and result, and what is expected. ``outputs`` are
    meta tensors like the reference's results."""

    seed: int
    inputs: list[Any]
    argument_tree: Any
    result_tree: Any
    expected: list[Expected]
    outputs: list[Any]
    after: dict[int, Expected]
    """What the input tensors that the reference changes hold after its call, by their places."""
    overlapping: list[bool]
    """Whether elements of an output share memory in the reference's own result."""
    aliases: list[bool]
    """Whether an output is memory of an input in the reference's own result."""
    moved: list[accuracy.Errors]
    """The oracle's own change, per output, when inputs move by a unit roundoff: the conditioning of the problem."""
    fingerprints: list[tuple[int, int]] | None = None
    """Of large inputs, which exist once only, in their shared blocks; ``inputs`` are then views of these."""
    words: str = ""
    """Of hard inputs, how they differ from what the spec describes."""
    passed: list[Any] | None = None
    """Candidate outputs already found correct: equal ones need no second comparison."""
    verdict: dict[str, Any] | None = None

    def relax(self) -> None:
        """Widen the limits: this case asks for mistakes, on inputs or at sizes that the spec did not choose, and not for precision."""
        for want in (*self.expected, *self.after.values()):
            if want.gates is not None:
                g = want.gates
                want.gates = accuracy.Gates(g.norm * BEYOND, g.element * BEYOND, g.reference)

    @property
    def inputs_may_change(self) -> bool:
        """Whether the reference changes its inputs."""
        return bool(self.after)


def build_case(
    spec: KernelSpec,
    model: Any,
    device: torch.device,
    seed: int,
    dims: Mapping[str, int] | None,
    moved: list[accuracy.Errors] | None = None,
    inputs: list[Any] | None = None,
    draws: int = 0,
) -> Case:
    """Inputs of ``seed`` (or ``inputs`` in their place), the reference's result on them, and the float64 oracle's with its gates.

    ``moved`` is the conditioning found with another seed of the same spec, which saves finding it again. With ``draws`` the oracle is
    perturbed so many times, and each element has a bound of its own.

    Raises :class:`JudgeError` where the reference itself fails.
    """
    inputs = inputs or list(make_arguments(spec, seed, device, dims))
    tensors: list[Any] = []
    tree = wire.flatten(inputs, tensors)
    pristine = [t.clone(memory_format=torch.preserve_format) for t in tensors]
    with torch.no_grad():
        with Selections() as theirs:
            result = _run(copy.deepcopy(model), inputs, seed, spec, "the reference")
        changed = {i: a for i, (a, b) in enumerate(zip(tensors, pristine, strict=True)) if not same(a, b)}
        if changed:
            inputs = wire.rebuild(tree, [t.clone(memory_format=torch.preserve_format) for t in pristine])
        memory = {t.untyped_storage().data_ptr() for t in tensors if t.numel()}
        count = sum(t.numel() for t in tensors)
        del tensors, pristine
        wide_model, wide_inputs = to_float64(model, inputs)
        with Selections() as exact:
            oracle = _run(wide_model, wide_inputs, seed, spec, "the float64 oracle")
        flat: list[list[Any]] = [[], []]
        trees = [wire.flatten(value, into) for value, into in zip((result, oracle), flat, strict=True)]
        far: list[Any] = [None] * len(flat[1])
        if count + sum(t.numel() for t in flat[1]) > MOST[device.type]:
            draws = 0
        if moved is None or draws:
            found, far = _conditioning(spec, model, inputs, flat[1], seed, draws)
            moved = moved or found
        expected = [_expect(r, o, m, theirs, exact, f) for r, o, m, f in zip(*flat, moved, far, strict=True)]
        after = _after(changed, wide_inputs, moved)
    aliases = [t.untyped_storage().data_ptr() in memory for t in flat[0]]
    overlapping = [wire.overlaps(t.shape, t.stride()) for t in flat[0]]
    outputs = [torch.empty(t.shape, dtype=t.dtype, device="meta") for t in flat[0]]
    kept: list[Any] = []
    wire.flatten(inputs, kept)
    return Case(seed, kept, tree, trees[0], expected, outputs, after, overlapping, aliases, moved)


def elements(spec: KernelSpec, dims: Mapping[str, int] | None) -> int:
    """Elements of all inputs and parameters together at ``dims``. Raises SpecError where the spec does not work at these."""
    given = [t for t in make_arguments(spec, 0, "meta", dims) if isinstance(t, torch.Tensor)]
    held = build_call(spec, "meta", dims=dims).parameters()
    return sum(t.numel() for t in (*given, *held))


def _run(model: Any, inputs: Any, seed: int, spec: KernelSpec, who: str) -> Any:
    torch.manual_seed(seed % 2**63)
    try:
        return model(*inputs)
    except Exception as error:
        raise JudgeError(
            f"{spec.name}: {who} fails on its own inputs: {type(error).__name__}: {str(error)[:400]}"
        ) from error


def _conditioning(
    spec: KernelSpec, model: Any, inputs: list[Any], oracle: list[Any], seed: int, draws: int
) -> tuple[list[accuracy.Errors], list[Any]]:
    """The oracle's change, per output, under one perturbation, and with ``draws`` the largest change of each element under so many."""
    found: list[accuracy.Errors] = []
    far: list[Any] = [None] * len(oracle)
    for number in range(max(draws, 1)):
        moved_model, moved_inputs = to_float64(model, inputs)
        perturb(moved_model, moved_inputs, model, inputs, seed + number)
        tensors: list[Any] = []
        wire.flatten(_run(moved_model, moved_inputs, seed, spec, "the perturbed oracle"), tensors)
        comparable = [e.is_floating_point() and m.shape == e.shape for m, e in zip(tensors, oracle, strict=True)]
        if not found:
            nothing = accuracy.Errors(0.0, 0.0, 0.0)
            found = [
                accuracy.errors(m, e.double()) if same_form else nothing
                for m, e, same_form in zip(tensors, oracle, comparable, strict=True)
            ]
        for index in [i for i, same_form in enumerate(comparable) if same_form and draws]:
            gap = (tensors[index].double() - oracle[index].double()).abs_()
            far[index] = gap if number == 0 else torch.maximum(far[index], gap) if far[index] is not None else None
    return found, far


def _expect(
    reference: Any,
    oracle: Any,
    moved: accuracy.Errors,
    theirs: Selections | None = None,
    exact: Selections | None = None,
    far: Any = None,
) -> Expected:
    open_positions = unordered = None
    if theirs is not None and exact is not None and theirs.made:
        open_positions = ties(reference, oracle, theirs, exact)
        unordered = theirs.unordered(reference)
        if unordered is not None:
            reference, oracle = reference.sort(unordered).values, oracle.sort(unordered).values
    if not reference.is_floating_point():
        return Expected(reference.clone(), oracle, None, open_positions, unordered)
    wide = oracle.double()
    own = accuracy.errors(reference, wide)
    kept = None if own.finite else reference.clone()
    bounds = local(reference, wide, far, own.rms) if far is not None and unordered is None else None
    return Expected(kept, wide, accuracy.gates(own, moved, reference.dtype, reference.numel()), None, unordered, bounds)


def _after(changed: Mapping[int, Any], wide_inputs: list[Any], moved: list[accuracy.Errors]) -> dict[int, Expected]:
    """What changed inputs must hold afterwards, as the reference left them and as the oracle did."""
    tensors: list[Any] = []
    wire.flatten(wide_inputs, tensors)
    most = accuracy.Errors(max((m.norm for m in moved), default=0.0), max((m.element for m in moved), default=0.0), 0.0)
    return {i: _expect(t, tensors[i], most) for i, t in changed.items()}


def perturb(model64: Any, inputs64: Any, model: Any, inputs: Any, seed: int) -> None:
    """Move every floating input and parameter of the float64 copies by at most one unit roundoff of its original dtype, in place."""
    wide: list[Any] = []
    narrow: list[Any] = []
    wire.flatten(list(inputs64), wide)
    wire.flatten(list(inputs), narrow)
    pairs = list(zip(wide, narrow, strict=True))
    pairs += list(zip(model64.parameters(), model.parameters(), strict=True))
    for number, (a, b) in enumerate(pairs):
        if b.is_floating_point() and a.numel():
            # Tensors of one size must not move alike: their difference would not show it.
            generator = torch.Generator(a.device).manual_seed((seed * 31 + a.numel() + number * 7919) % 2**63)
            flat = a.view(-1) if a.is_contiguous() else a
            for part in flat.split(accuracy.chunk(flat.device)):
                noise = torch.rand(part.shape, device=a.device, generator=generator).sub_(0.5).double()
                part.addcmul_(part, noise, value=2.0 * accuracy.roundoff(b.dtype))


def fingerprint(tensor: Any) -> tuple[int, int]:
    """Two sums over a tensor's bits, one weighted by position: what tells whether a large input was changed."""
    whole = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
    flat = tensor.as_strided((wire.extent(tensor),), (1,)).view(whole[tensor.element_size()])
    plain = weighted = 0
    for number, part in enumerate(flat.split(accuracy.chunk(flat.device))):
        bits = part.long()
        plain += int(bits.sum())
        weights = torch.arange(1, bits.numel() + 1, device=bits.device) % 65521
        weighted += (number + 1) * int((bits * weights).sum())
    return plain, weighted


def same(a: Any, b: Any) -> bool:
    """Equality of values, NaN equal to NaN."""
    if torch.equal(a, b):
        return True
    if a.is_floating_point() and a.shape == b.shape:
        return bool(((a == b) | (torch.isnan(a) & torch.isnan(b))).all())
    return False


def compare(case: Case, values: list[Any], spec: KernelSpec) -> dict[str, Any]:
    """Judge candidate outputs (already of the expected shapes and dtypes) against a case; see :func:`summary` for the result."""
    if case.passed is not None and case.verdict is not None and all(map(torch.equal, values, case.passed)):
        return case.verdict
    tolerance = (spec.tolerance.atol, spec.tolerance.rtol) if spec.tolerance else None
    findings = [want.judge(value, tolerance) for value, want in zip(values, case.expected, strict=True)]
    verdict = summary(findings)
    if verdict["ok"]:
        case.passed, case.verdict = [v.clone() for v in values], verdict
    return verdict


def summary(findings: list[accuracy.Finding]) -> dict[str, Any]:
    """The worst of several findings as plain data."""
    bad = [f for f in findings if not f.ok]
    worst = bad[0] if bad else max(findings, key=lambda f: f.errors.norm, default=None)
    if worst is None:
        return {"ok": True, "error": 0.0, "reference_error": 0.0, "max_abs_error": 0.0, "detail": "no outputs"}
    index = findings.index(worst)
    where = f"output {index}: " if len(findings) > 1 else ""
    return {
        "ok": not bad,
        "error": worst.errors.norm if math.isfinite(worst.errors.norm) else 1e308,
        "reference_error": worst.gates.reference,
        "max_abs_error": worst.errors.absolute,
        "detail": where + worst.detail,
    }
