"""From a spec to a running reference: the module, its float64 copy, its forward signature."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from evaluators.errors import SpecError
from evaluators.spec.inputs import make_inputs, make_tensor, resolve_dims, stream_seed
from evaluators.spec.kernel_spec import KernelSpec
from evaluators.spec.running import call_for_list, call_reference, one_line, reference_namespace, seeded

if TYPE_CHECKING:
    import torch
    from torch import nn


def constructor_arguments(spec: KernelSpec, dims: Mapping[str, int] | None = None) -> tuple[list[Any], dict[str, Any]]:
    """Positional and keyword arguments of ``Model`` (and ``ModelNew``): ``get_init_inputs()`` where the reference defines it,
    else the symbolic dims that the constructor names."""
    space = reference_namespace(spec)
    if "get_init_inputs" in space:
        made = call_for_list(spec, "get_init_inputs")
        # KernelBench writes [args…] or, in some files, [[args…], {kwargs}].
        if len(made) == 2 and isinstance(made[0], list) and isinstance(made[1], dict):
            return list(made[0]), dict(made[1])
        return made, {}
    accepted = inspect.signature(space["Model"].__init__).parameters
    return [], {k: v for k, v in resolve_dims(spec, dims).items() if k in accepted}


def build_model(
    spec: KernelSpec, device: str | torch.device, seed: int = 0, dims: Mapping[str, int] | None = None
) -> nn.Module:
    """The reference on ``device``: floating parameters and buffers in ``spec.dtype``, train or eval mode as the spec says.

    Parameters listed in the spec are drawn from their own distributions, saved ones are loaded from ``spec.state``, others keep what
    the constructor draws under ``seed``. Raises SpecError where the reference does not build.
    """
    import torch

    place = torch.device(device)
    origin = spec.origin or spec.name
    args, kwargs = constructor_arguments(spec, dims)
    with seeded(stream_seed(seed, "model"), place):
        model: nn.Module = _construct(spec, place, args, kwargs)
    floating = {t.dtype for t in [*model.parameters(), *model.buffers()] if t.is_floating_point()}
    # A live module that mixes precisions on purpose keeps them.
    mixed = spec.source == "live" and len(floating) > 1
    model = model.to(place) if mixed else model.to(device=place, dtype=getattr(torch, spec.dtype))
    if spec.state is not None and place.type != "meta":
        _load_state(model, spec, place)
    values = resolve_dims(spec, dims)
    own = dict(model.named_parameters())
    with torch.no_grad():
        for item in spec.parameters:
            if item.name not in own:
                raise SpecError(f"{origin}: parameters.{item.name}: Model has no parameter of that name")
            if place.type == "meta":
                continue
            value = make_tensor(item, spec, seed, place, values, role="parameter")
            if value.shape != own[item.name].shape:
                have, want = list(own[item.name].shape), list(value.shape)
                raise SpecError(f"{origin}: parameters.{item.name}: shape {want}, but Model has {have}")
            own[item.name].copy_(value)
            del value
    for parameter in model.parameters():
        parameter.requires_grad_(False)
    return model.train(spec.mode == "train")


def _construct(spec: KernelSpec, place: torch.device, args: list[Any], kwargs: dict[str, Any]) -> nn.Module:
    import torch

    try:
        with place:
            made: nn.Module = call_reference(spec, "Model", *args, **kwargs)
    except SpecError:
        if place.type != "meta":
            raise
        # Some constructors read values (drop-path rates, masks), which the meta device has not.
        with torch.device("cpu"):
            made = call_reference(spec, "Model", *args, **kwargs)
    if not isinstance(made, torch.nn.Module):
        raise SpecError(
            f"{spec.origin or spec.name}: reference: Model is no torch.nn.Module; write 'class Model(nn.Module)', and call "
            "super().__init__() first in its __init__"
        )
    return made


def check(spec: KernelSpec) -> None:
    """Run the reference on shapes and dtypes alone (the meta device): no memory, no kernels.

    Raises SpecError with the line of the reference where it fails. What needs values to run cannot be seen this way and passes.
    """
    model = build_model(spec, "meta")
    inputs = make_inputs(spec, 0, "meta")
    try:
        model(*inputs)
    except NotImplementedError:
        return
    except Exception as e:
        if "meta" in str(e).lower():
            return
        line = next((f.lineno for f in inspect.trace()[::-1] if f.filename.startswith("<reference ")), "?")
        raise SpecError(f"{spec.origin or spec.name}: reference: line {line}: {type(e).__name__}: {one_line(e)}") from e


def _load_state(model: nn.Module, spec: KernelSpec, device: torch.device) -> None:
    import torch

    try:
        state = torch.load(str(spec.state), map_location=device, weights_only=True)
    except OSError as e:
        raise SpecError(f"{spec.name}: state: {spec.state} cannot be read ({e.strerror}); build the spec again") from e
    model.load_state_dict(state)


def to_float64(model: nn.Module, inputs: Sequence[Any]) -> tuple[nn.Module, list[Any]]:
    """A float64 copy of the reference and of its inputs: the oracle. Integers, bools and plain values stay what they are.

    References cast for themselves (``x.float()``, ``softmax(dtype=torch.float32)``); in the copy such casts widen to float64 too, or
    the oracle would be no better than what it judges.
    """
    import torch

    from evaluators.spec.widen import Wide

    def widen(value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            # Copied even where it is float64 already: the copy is perturbed, and references may change their inputs.
            return value.to(torch.float64, copy=True) if value.is_floating_point() else value.clone()
        if isinstance(value, (list, tuple)):
            return type(value)(widen(v) for v in value)
        return value

    return Wide(copy.deepcopy(model).double()), [widen(v) for v in inputs]


def signature(spec: KernelSpec) -> tuple[str, ...]:
    """Names of the arguments that forward is called with, without self, in order; optional ones left out at the end are not among them."""
    if spec.inputs is not None:
        return tuple(i.name for i in spec.inputs)
    accepted = list(inspect.signature(reference_namespace(spec)["Model"].forward).parameters.values())[1:]
    if all(p.default is p.empty for p in accepted):
        return tuple(p.name for p in accepted)
    return tuple(p.name for p in accepted)[: len(make_inputs(spec, 0, "meta"))]
