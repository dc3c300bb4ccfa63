"""What one call of a spec computes: the reference's forward pass or, where the spec asks for gradients, the backward pass after it too.

With gradients a call is written as one function: given the inputs and, for each differentiable output, a gradient that arrives
from above, the outputs and the gradients of every floating input and parameter. Reference and candidate are wrapped alike, so that all
that is done with a call (float64, comparison, timing) is done with both passes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from evaluators.errors import SpecError
from evaluators.spec.inputs import make_inputs, make_tensor, resolve_dims
from evaluators.spec.kernel_spec import InputSpec, KernelSpec
from evaluators.spec.model import build_model


class WithGradients(torch.nn.Module):  # type: ignore[misc]
    """``inner`` with its gradients: the last ``upstream`` arguments are gradients of its differentiable outputs, in their order.

    Gives a tuple: the outputs of ``inner``, then the gradients of its floating input tensors, then those of its floating parameters by
    name. What an output does not depend on has a gradient of zeros.
    """

    def __init__(self, inner: torch.nn.Module, upstream: int) -> None:
        super().__init__()
        self.inner, self.upstream = inner, upstream

    def forward(self, *arguments: Any) -> tuple[Any, ...]:
        given = arguments[: len(arguments) - self.upstream]
        with torch.enable_grad():
            leaves, inputs = _as_leaves(given)
            parameters = [p for _, p in sorted(self.inner.named_parameters()) if p.is_floating_point()]
            for parameter in parameters:
                parameter.requires_grad_(True)
            results = torch.utils._pytree.tree_leaves(self.inner(*inputs))
            differentiable = [r for r in results if isinstance(r, torch.Tensor) and r.is_floating_point()]
            if not all(r.requires_grad for r in differentiable):
                raise RuntimeError(
                    "the spec asks for gradients and forward's result has none: compute it in a torch.autograd.Function whose "
                    "backward gives them"
                )
            wanted = [*leaves, *parameters]
            found = torch.autograd.grad(
                differentiable, wanted, arguments[len(given) :], allow_unused=True, materialize_grads=True
            )
        return (*(r.detach() if isinstance(r, torch.Tensor) else r for r in results), *found)


def _as_leaves(given: tuple[Any, ...]) -> tuple[list[Any], Any]:
    """Floating tensors among the arguments as leaves of a graph of their own, and the arguments with these in place."""
    flat, form = torch.utils._pytree.tree_flatten(given)
    placed = [t.detach().requires_grad_() if _floating(t) else t for t in flat]
    return [t for t in placed if _floating(t)], torch.utils._pytree.tree_unflatten(placed, form)


def _floating(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.is_floating_point()


def build_call(
    spec: KernelSpec, device: str | torch.device, seed: int = 0, dims: Mapping[str, int] | None = None
) -> Any:
    """The model that a call runs: the reference, with its gradients where the spec asks for them. Raises SpecError as
    :func:`evaluators.spec.model.build_model` and :func:`upstream` do."""
    model = build_model(spec, device, seed, dims)
    return model if spec.direction == "forward" else WithGradients(model, len(upstream(spec, dims)))


def forward_of(model: Any) -> Any:
    """The reference itself, without what adds gradients."""
    return model.inner if isinstance(model, WithGradients) else model


def make_arguments(
    spec: KernelSpec, seed: int, device: str | torch.device, dims: Mapping[str, int] | None = None
) -> list[Any]:
    """Arguments of the model that :func:`build_call` gives: the inputs and, with gradients, those that arrive from above."""
    inputs = make_inputs(spec, seed, device, dims)
    if spec.direction == "forward":
        return inputs
    values = resolve_dims(spec, dims)
    return [*inputs, *(make_tensor(item, spec, seed, torch.device(device), values) for item in upstream(spec, dims))]


def described(spec: KernelSpec, count: int) -> list[InputSpec] | None:
    """Descriptions of ``count`` arguments as :func:`make_arguments` gives them; None where the reference makes its own inputs."""
    if spec.inputs is None:
        return None
    more = [InputSpec(f"gradient_{i}", ()) for i in range(count - len(spec.inputs))]
    return [*spec.inputs, *more]


def upstream(spec: KernelSpec, dims: Mapping[str, int] | None) -> list[InputSpec]:
    """Descriptions of the gradients that arrive from above: one normal tensor for each floating output of the reference.

    Raises SpecError where the reference does not run on shapes alone, or has no floating output.
    """
    origin = spec.origin or spec.name
    try:
        with torch.no_grad():
            made = build_model(spec, "meta", dims=dims)(*make_inputs(spec, 0, "meta", dims))
    except SpecError:
        raise
    except Exception as error:
        raise SpecError(
            f"{origin}: direction: gradients need the shapes of the outputs, and the reference does not run on shapes alone "
            f"({type(error).__name__}: {str(error).splitlines()[0][:200]})"
        ) from error
    outputs = [t for t in torch.utils._pytree.tree_leaves(made) if _floating(t)]
    if not outputs:
        raise SpecError(f"{origin}: direction: the reference has no floating output to take gradients of")
    return [
        InputSpec(f"gradient_{i}", tuple(t.shape), str(t.dtype).removeprefix("torch."), "normal")
        for i, t in enumerate(outputs)
    ]
