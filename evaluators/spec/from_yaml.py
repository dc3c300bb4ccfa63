"""A YAML spec file to the normal form."""

from __future__ import annotations

import keyword
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from evaluators.errors import SpecError
from evaluators.reading import read_yaml
from evaluators.spec import shapes
from evaluators.spec.inputs import DISTS, resolve_args
from evaluators.spec.kernel_spec import Dim, FloatType, InputSpec, KernelSpec, Tolerance
from evaluators.spec.reference import check_arguments, model_source, read_reference
from evaluators.spec.schema import DTYPES, DimForm, TensorForm, parse
from evaluators.suggest import suggest

Profile = Literal["cpu", "gpu"]


def load_yaml(path: Path, dtype: FloatType | None = None, profile: Profile = "cpu") -> KernelSpec:
    """Normal form of a YAML spec at a profile's sizes and, where given, another floating type.

    Raises SpecError with one line naming the file, the field, what is wrong and what to do.
    """
    file = str(path)
    form = parse(read_yaml(path), file)
    dims = {name: _dim(name, d, profile, file) for name, d in form.dims.items()}
    sizes = {name: d.value for name, d in dims.items()}
    inputs = tuple(_tensor("inputs", name, t, sizes, file) for name, t in form.inputs.items())
    parameters = tuple(_tensor("parameters", name, t, sizes, file) for name, t in form.parameters.items())
    common: dict[str, Any] = {
        "name": form.name or path.stem,
        "dims": dims,
        "dtype": dtype or form.dtype,
        "mode": form.mode,
        "direction": form.direction,
        "precision": form.precision,
        "tolerance": Tolerance(form.tolerance.atol, form.tolerance.rtol) if form.tolerance else None,
        "description": " ".join(form.description.split()),
        "origin": file,
    }
    if form.reference is not None and form.aten is not None:
        raise SpecError(f"{file}: aten: the file has a reference too; keep one")
    if form.aten is not None:
        if form.parameters:
            raise SpecError(f"{file}: parameters: an ATen operator has none; describe its tensors under inputs")
        from evaluators.spec.from_aten import describe

        source, tensors = describe(form.aten, file, {t.name: t for t in inputs}, form.args, sizes)
        return KernelSpec(source="aten", reference=source, inputs=tensors, **common)
    if form.args:
        raise SpecError(f"{file}: args: only an 'aten' spec has them; write values into the reference")
    if form.reference is None or not form.reference.strip():
        raise SpecError(f"{file}: reference: is missing; add Python code ('reference: |'), module:attr, or 'aten'")
    ref = read_reference(form.reference, file, path.parent)
    check_arguments(ref, [i.name for i in inputs], [p.name for p in parameters], file)
    order = {a.name: i for i, a in enumerate(ref.arguments)}
    inputs = tuple(sorted(inputs, key=lambda i: order[i.name]))
    source = model_source(ref, inputs, parameters, sizes)
    return KernelSpec(source="yaml", reference=source, inputs=inputs, parameters=parameters, **common)


def _dim(name: str, form: DimForm, profile: Profile, file: str) -> Dim:
    where = f"{file}: dims.{name}"
    if not name.isidentifier() or keyword.iskeyword(name):
        raise SpecError(f"{where}: {name!r} is no identifier; use letters, digits and _")
    if form.value is not None and (form.cpu is not None or form.gpu is not None):
        raise SpecError(f"{where}: has a value and profile values; keep one form")
    value = form.value if form.value is not None else getattr(form, profile)
    if value is None:
        raise SpecError(f"{where}: has no value for profile {profile!r}; add '{profile}: …' or 'value: …'")
    low, high = form.range or (value, value)
    if low > high:
        raise SpecError(f"{where}.range: [{low}, {high}] is empty; write [low, high] with low ≤ high")
    if low < 0 or value < 0:
        raise SpecError(f"{where}: {min(low, value)} is negative; sizes are at least 0")
    if not low <= value <= high:
        raise SpecError(f"{where}: {value} lies outside its range [{low}, {high}]; widen the range or change the value")
    return Dim(value, low, high)


def _tensor(part: str, name: str, form: TensorForm, sizes: Mapping[str, int], file: str) -> InputSpec:
    where = f"{file}: {part}.{name}"
    if not name.isidentifier() or keyword.iskeyword(name):
        raise SpecError(f"{where}: {name!r} is no Python identifier; rename it")
    if form.dtype not in DTYPES:
        raise SpecError(f"{where}.dtype: unknown dtype {form.dtype!r}; {suggest(form.dtype, DTYPES)}")
    kind = "f" if form.dtype.startswith(("float", "bfloat")) else {"bool": "b", "python": "p"}.get(form.dtype, "i")
    dist = form.dist
    if dist is None:
        usual = {"f": "normal", "b": "bool", "p": "literal"}
        if kind not in usual:
            raise SpecError(
                f"{where}.dist: is missing; {form.dtype} has no usual distribution, say which (randint, offsets, …)"
            )
        dist = usual[kind]
    if dist not in DISTS:
        raise SpecError(f"{where}.dist: unknown distribution {dist!r}; {suggest(dist, DISTS)}")
    if kind not in DISTS[dist].kinds:
        able = ", ".join(n for n, d in DISTS.items() if kind in d.kinds)
        raise SpecError(f"{where}.dist: {dist!r} does not make {form.dtype}; these do: {able}")
    accepted = DISTS[dist].args
    for arg in form.args:
        if arg not in accepted:
            raise SpecError(
                f"{where}.args.{arg}: {dist!r} takes no {arg!r}; {suggest(arg, accepted) if accepted else 'remove it'}"
            )
    for arg, required in accepted.items():
        if required and arg not in form.args:
            raise SpecError(f"{where}.args.{arg}: {dist!r} needs it; add it")
    item = InputSpec(name, form.shape, form.dtype, dist, dict(form.args))
    try:
        extents = shapes.shape(form.shape, sizes)
    except ValueError as e:
        raise SpecError(f"{where}.shape: {e}; {_declared(sizes)}") from e
    try:
        args = resolve_args(item, sizes)
    except ValueError as e:
        raise SpecError(f"{where}.args: {e}; {_declared(sizes)}") from e
    problem = _range_problem(dist, args, extents)
    if problem:
        raise SpecError(f"{where}.args: {problem}")
    return item


def _declared(sizes: Mapping[str, int]) -> str:
    return f"declared dims are {', '.join(sizes)}" if sizes else "declare it under dims"


def _range_problem(dist: str, args: Mapping[str, Any], extents: tuple[int, ...]) -> str | None:
    """What is wrong with a distribution's arguments, or None."""
    for name, value in args.items():
        if dist != "literal" and (isinstance(value, bool) or not isinstance(value, int | float)):
            return f"{name} is {value!r}; write a number"
    low, high = args.get("low", 0), args.get("high", 1)
    if dist in ("uniform", "randint", "sorted_uniform") and not low < high:
        return f"low {low} is not below high {high}; widen the range"
    for name in ("p", "empty", "ignore_fraction"):
        if not 0 <= args.get(name, 0) <= 1:
            return f"{name} is {args[name]}; it is a fraction between 0 and 1"
    if args.get("std", 0) < 0:
        return f"std is {args['std']}; it must be at least 0"
    if dist == "class_indices" and args["classes"] < 1:
        return f"classes is {args['classes']}; it must be at least 1"
    if dist == "offsets":
        if len(extents) != 1 or extents[0] < 1:
            return f"offsets need a shape [segments + 1], not {list(extents)}; write one size"
        total = args["total"]
        if total < 0 or total != int(total) or (extents[0] == 1 and total > 0):
            return f"total is {total} for {extents[0] - 1} segments; it must be an integer that fits them"
    return None
