"""Facts about spec, target and verdicts in the words a prompt uses: one short line each."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from agent.prompts.quoting import one_line
from evaluators.roofline import roofline
from evaluators.spec import shapes
from evaluators.spec.inputs import resolve_dims
from evaluators.spec.kernel_spec import InputSpec, KernelSpec
from evaluators.target import Target
from evaluators.verdict import Evaluation

if TYPE_CHECKING:
    from evaluators.ir.facts import Work

_GRADIENTS = (
    "gradients are asked for, of every floating input and parameter: compute forward's result in a torch.autograd.Function whose "
    "backward has kernels of its own; a call that is timed is forward and backward"
)
RESOURCES = 12
"""Figures of a compiled kernel shown at most."""


def target_facts(target: Target) -> Iterator[str]:
    """What a schedule needs to know of the hardware."""
    yield f"{target.vendor} {target.architecture}, {target.kind}; {target.compute_units} compute units"
    yield f"memory bandwidth {target.memory_bandwidth_gbs:g} GB/s"
    rates = ", ".join(f"{name} {rate:.4g}" for name, rate in target.peak_tflops.items())
    yield f"peak TFLOP/s: {rates}"
    if target.kind == "gpu":
        yield f"warp of {target.warp_size} threads; {target.shared_memory_bytes} bytes of shared memory per block"
    caches = target.caches or {"l2": target.l2_bytes}
    yield "caches in bytes: " + ", ".join(f"{name} {size}" for name, size in caches.items())
    cpu = target.toolchain.get("cpu")
    if isinstance(cpu, dict):
        features = " ".join(map(str, cpu.get("features", ())))
        yield f"{cpu.get('model', 'processor')}: vectors of {cpu.get('vector_bits', '?')} bits; {features}"


def tensor_facts(spec: KernelSpec) -> list[str] | None:
    """Inputs and parameters with shapes at the sizes being optimized; None where the reference makes its own inputs."""
    if spec.inputs is None:
        return None
    sizes = resolve_dims(spec)
    return [
        *(f"input {_tensor(i, spec, sizes)}" for i in spec.inputs),
        *(f"parameter {_tensor(p, spec, sizes)}" for p in spec.parameters),
        *([_GRADIENTS] if spec.direction != "forward" else []),
    ]


def _tensor(item: InputSpec, spec: KernelSpec, sizes: dict[str, int]) -> str:
    dtype = spec.dtype if item.dtype == "float" else item.dtype
    if dtype == "python":
        return f"`{item.name}`: a Python value"
    extents = list(shapes.shape(item.shape, sizes))
    declared = f" ({', '.join(map(str, item.shape))})" if any(isinstance(i, str) for i in item.shape) else ""
    return f"`{item.name}`: {dtype} {extents}{declared}, values {item.dist}"


def dim_facts(spec: KernelSpec) -> list[str]:
    """The sizes a kernel is timed at, and those it should also be right at."""
    return [f"dim {n} = {d.value}, declared range {d.low} to {d.high}" for n, d in spec.dims.items()]


def accuracy_rule(spec: KernelSpec) -> str:
    """How exact a result must be."""
    if spec.tolerance is not None:
        return f"absolute tolerance {spec.tolerance.atol:g}, relative {spec.tolerance.rtol:g}"
    return (
        "error against float64 at most twice the reference's own; accumulate in float32 or better, "
        "no operands of lower precision than the spec's"
    )


def bound(work: Work | None, target: Target) -> str:
    """The roofline in words; empty where the work could not be counted."""
    if work is None:
        return ""
    r = roofline(work, target)
    return (
        f"at least {r.bytes} bytes to move and {r.operations} operations, so no kernel takes less than {r.bound_ms:.4g} ms "
        f"({r.limit} bound)"
    )


def verdict_facts(evaluation: Evaluation) -> Iterator[str]:
    """What the judge measured."""
    t, r = evaluation.timing, evaluation.roofline
    yield f"verdict: {evaluation.status.replace('_', ' ')}"
    if evaluation.diagnosis != "unknown":
        because = evaluation.resources.get("because") or ()
        yield one_line(
            f"diagnosis: {evaluation.diagnosis.replace('_', ' ')}" + "".join(f"; {fact}" for fact in because)
        )
    if t is not None:
        times = ", ".join(f"{name} {ms:.4g} ms" for name, ms in t.baselines.items())
        yield f"{t.candidate_ms:.4g} ms per call; baselines: {times}"
        yield f"speedup {t.ratio:.3f} (95% interval {t.low:.3f} to {t.high:.3f}) over {t.baseline}"
    if r is not None and r.fraction is not None:
        yield f"{r.fraction:.0%} of the roofline ({r.bound_ms:.4g} ms, {r.limit} bound)"
    a = evaluation.accuracy
    if a is not None:
        yield f"error {a.error:.3g} against float64, the reference's own {a.reference_error:.3g}"
    calls = evaluation.resources.get("library_calls")
    if calls:
        yield one_line(f"calls PyTorch for the work, which is no kernel: {', '.join(map(str, calls))}")
    figures = [
        f"{name} {value:g}" if isinstance(value, float) else f"{name} {value}"
        for name, value in evaluation.resources.items()
        if isinstance(value, int | float | str) and not isinstance(value, bool)
    ]
    if figures:
        yield one_line("compiled: " + ", ".join(figures[:RESOURCES]))


def speed(evaluation: Evaluation) -> str:
    """A verdict in a few words."""
    if evaluation.timing is not None and evaluation.status == "correct":
        return f"{evaluation.timing.ratio:.2f}x, {evaluation.diagnosis.replace('_', ' ')}"
    if evaluation.status == "checked":
        return "right, not timed"
    return one_line(f"{evaluation.status.replace('_', ' ')}: {evaluation.message}", 160)
