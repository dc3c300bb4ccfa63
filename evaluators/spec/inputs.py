"""Input generators. The same spec, seed and device give the same values; big tensors are made on the device itself."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from evaluators.errors import SpecError
from evaluators.spec import shapes
from evaluators.spec.kernel_spec import InputSpec, KernelSpec
from evaluators.spec.running import call_for_list, one_line, seeded

if TYPE_CHECKING:
    import torch

Shape = tuple[int, ...]
Make = Callable[["Draw", Mapping[str, Any]], "torch.Tensor"]


@dataclass(frozen=True)
class Draw:
    """What a generator is asked for: shape, dtype, device, and the random stream it draws from."""

    shape: Shape
    dtype: torch.dtype
    device: torch.device
    generator: torch.Generator

    def empty(self) -> torch.Tensor:
        """An uninitialised tensor of the asked shape, dtype and device."""
        import torch

        return torch.empty(self.shape, dtype=self.dtype, device=self.device)

    def integers(self, low: int, high: int, shape: Shape | None = None) -> torch.Tensor:
        """int64 uniform in [low, high)."""
        import torch

        return torch.randint(
            low,
            high,
            self.shape if shape is None else shape,
            dtype=torch.int64,
            device=self.device,
            generator=self.generator,
        )

    def uniform(self, shape: Shape | None = None) -> torch.Tensor:
        """float32 uniform in [0, 1)."""
        import torch

        return torch.rand(self.shape if shape is None else shape, device=self.device, generator=self.generator)


def _normal(d: Draw, args: Mapping[str, Any]) -> torch.Tensor:
    return d.empty().normal_(args.get("mean", 0.0), args.get("std", 1.0), generator=d.generator)


def _uniform(d: Draw, args: Mapping[str, Any]) -> torch.Tensor:
    return d.empty().uniform_(args.get("low", 0.0), args.get("high", 1.0), generator=d.generator)


def _constant(value: float | None) -> Make:
    def make(d: Draw, args: Mapping[str, Any]) -> torch.Tensor:
        return d.empty().fill_(args["value"] if value is None else value)

    return make


def _randint(d: Draw, args: Mapping[str, Any]) -> torch.Tensor:
    return d.integers(int(args.get("low", 0)), int(args["high"])).to(d.dtype)


def _permutation(d: Draw, args: Mapping[str, Any]) -> torch.Tensor:
    import torch

    count = 1
    for extent in d.shape:
        count *= extent
    return torch.randperm(count, generator=d.generator, device=d.device).reshape(d.shape).to(d.dtype)


def _bool(d: Draw, args: Mapping[str, Any]) -> torch.Tensor:
    return (d.uniform() < args.get("p", 0.5)).to(d.dtype)


def _offsets(d: Draw, args: Mapping[str, Any]) -> torch.Tensor:
    """Segment boundaries: ``shape`` is (segments + 1,), first 0, last exactly ``total``, ``empty`` of the segments without
    an element, the others of uneven length (uniform between 1 and about twice their mean)."""
    import torch

    segments, total, empty = d.shape[0] - 1, int(args["total"]), float(args.get("empty", 0.0))
    filled = min(max(round(segments * (1 - empty)), 1 if total else 0), segments, total)
    # Integer arithmetic keeps the total exact and the values the same on every run; floating cumsum on a GPU would not.
    weights = d.integers(1, 256, (filled,))
    ends = torch.cumsum(weights, 0)
    spare = total - filled
    lengths = torch.ones(filled, dtype=torch.int64, device=d.device)
    if filled:
        scaled = ends * spare // ends[-1].clone()
        lengths += torch.diff(scaled, prepend=scaled.new_zeros(1))
    all_lengths = torch.zeros(segments, dtype=torch.int64, device=d.device)
    places = torch.randperm(segments, generator=d.generator, device=d.device)[:filled]
    all_lengths[places] = lengths
    return torch.cat([all_lengths.new_zeros(1), torch.cumsum(all_lengths, 0)]).to(d.dtype)


def _class_indices(d: Draw, args: Mapping[str, Any]) -> torch.Tensor:
    classes = d.integers(0, int(args["classes"]))
    fraction = float(args.get("ignore_fraction", 0.0))
    if fraction:
        classes.masked_fill_(d.uniform() < fraction, int(args.get("ignore_index", -100)))
    return classes.to(d.dtype)


def _sorted_uniform(d: Draw, args: Mapping[str, Any]) -> torch.Tensor:
    low, high = args.get("low", 0.0), args.get("high", 1.0)
    if d.dtype.is_floating_point:
        return (d.uniform() * (high - low) + low).sort().values.to(d.dtype)
    return d.integers(int(low), int(high)).sort().values.to(d.dtype)


@dataclass(frozen=True)
class Dist:
    """A named distribution: its generator, its arguments (``True`` where one must be given), and the dtypes it makes
    (``f`` floating, ``i`` integer, ``b`` bool)."""

    make: Make
    args: Mapping[str, bool]
    kinds: str


DISTS: Mapping[str, Dist] = {
    "normal": Dist(_normal, {"mean": False, "std": False}, "f"),
    "uniform": Dist(_uniform, {"low": False, "high": False}, "f"),
    "zeros": Dist(_constant(0), {}, "fib"),
    "ones": Dist(_constant(1), {}, "fib"),
    "constant": Dist(_constant(None), {"value": True}, "fib"),
    "randint": Dist(_randint, {"low": False, "high": True}, "fi"),
    "permutation": Dist(_permutation, {}, "i"),
    "bool": Dist(_bool, {"p": False}, "fib"),
    "offsets": Dist(_offsets, {"total": True, "empty": False}, "i"),
    "class_indices": Dist(_class_indices, {"classes": True, "ignore_index": False, "ignore_fraction": False}, "i"),
    "sorted_uniform": Dist(_sorted_uniform, {"low": False, "high": False}, "fi"),
    "literal": Dist(_constant(0), {"value": True}, "p"),
}
"""``literal`` passes ``value`` to forward as it is, a plain Python number, bool, string or None (dtype ``python``)."""


def resolve_dims(spec: KernelSpec, dims: Mapping[str, int] | None = None) -> dict[str, int]:
    """Value of every dim of ``spec``, with ``dims`` in place of its own. Raises SpecError for a dim it does not declare."""
    values = {name: d.value for name, d in spec.dims.items()}
    for name, value in (dims or {}).items():
        if name not in values:
            declared = ", ".join(values) or "none"
            raise SpecError(f"{spec.name}: dims: no dim {name!r}; declared are {declared}")
        values[name] = value
    return values


def resolve_args(item: InputSpec, dims: Mapping[str, int]) -> dict[str, Any]:
    """Arguments of the distribution with expressions of dims evaluated."""
    if item.dist == "literal":
        return dict(item.args)
    return {k: shapes.evaluate(v, dims) if isinstance(v, str) else v for k, v in item.args.items()}


def stream_seed(seed: int, *parts: str) -> int:
    """A 63-bit seed of its own for each tensor, so that adding an input changes no other."""
    digest = hashlib.sha256("/".join([str(seed), *parts]).encode()).digest()
    return int.from_bytes(digest[:8], "little") >> 1


def make_tensor(
    item: InputSpec, spec: KernelSpec, seed: int, device: torch.device, dims: Mapping[str, int], role: str = "input"
) -> Any:
    """One input (or parameter) of a spec; on the meta device shape and dtype only."""
    import torch

    if item.dist == "literal":
        return item.args["value"]
    try:
        extents = shapes.shape(item.shape, dims)
        args = resolve_args(item, dims)
    except ValueError as e:
        raise SpecError(f"{spec.origin or spec.name}: {role}s.{item.name}: {e}") from e
    dtype = getattr(torch, spec.dtype if item.dtype == "float" else item.dtype)
    if device.type == "meta":
        return torch.empty(extents, dtype=dtype, device=device)
    generator = torch.Generator(device).manual_seed(stream_seed(seed, role, item.name))
    try:
        return DISTS[item.dist].make(Draw(extents, dtype, device, generator), args)
    except (RuntimeError, ValueError, TypeError, OverflowError, MemoryError) as e:
        made = f"{item.dist} of shape {list(extents)} in {str(dtype).removeprefix('torch.')}"
        raise SpecError(
            f"{spec.origin or spec.name}: {role}s.{item.name}: {made} cannot be made: {type(e).__name__}: {one_line(e)}"
        ) from e


def make_inputs(
    spec: KernelSpec, seed: int, device: str | torch.device, dims: Mapping[str, int] | None = None
) -> list[Any]:
    """Positional arguments of ``Model.forward``: tensors on ``device``, floating ones in ``spec.dtype``.

    ``dims`` replaces the values of symbolic dims. Raises SpecError for dims the spec does not declare.
    """
    import torch

    place = torch.device(device)
    values = resolve_dims(spec, dims)
    if spec.inputs is not None:
        return [make_tensor(item, spec, seed, place, values) for item in spec.inputs]
    with seeded(stream_seed(seed, "input"), place), place:
        made = call_for_list(spec, "get_inputs")
    return [_placed(value, place, getattr(torch, spec.dtype)) for value in made]


def _placed(value: Any, device: torch.device, dtype: torch.dtype) -> Any:
    """KernelBench writes its inputs in float32: move them, and bring floating ones to the spec's dtype."""
    import torch

    if isinstance(value, torch.Tensor):
        return value.to(device, dtype) if value.is_floating_point() else value.to(device)
    if isinstance(value, (list, tuple)):
        return type(value)(_placed(v, device, dtype) for v in value)
    return value
