"""The YAML form of a spec: what may be written, and one-line errors for what may not."""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StrictBool, StrictFloat, StrictInt, StrictStr, ValidationError

from evaluators.errors import SpecError

DTYPES = (
    "float", "float64", "float32", "bfloat16", "float16", "int64", "int32", "int16", "int8", "uint8", "bool", "python",
)  # fmt: skip


def _shape_list(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


Shape = Annotated[tuple[StrictInt | StrictStr, ...], BeforeValidator(_shape_list)]
Literals = StrictInt | StrictFloat | StrictBool | StrictStr | None


class _Strict(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)


class TensorForm(_Strict):
    """An input or parameter."""

    shape: Shape = ()
    dtype: str = "float"
    dist: str | None = None
    args: dict[str, Literals] = Field(default_factory=dict)


class DimForm(_Strict):
    """A symbolic dim: a value for every profile, or one each for cpu and gpu, and the range it may take."""

    value: StrictInt | None = None
    cpu: StrictInt | None = None
    gpu: StrictInt | None = None
    range: Annotated[tuple[StrictInt, StrictInt], BeforeValidator(_shape_list)] | None = None


class ToleranceForm(_Strict):
    """A declared tolerance."""

    atol: Annotated[float, Field(ge=0)]
    rtol: Annotated[float, Field(ge=0)]


class SpecForm(_Strict):
    """A whole spec file."""

    name: str | None = None
    description: str = ""
    reference: str | None = None
    aten: str | None = None
    inputs: dict[str, TensorForm] = Field(default_factory=dict)
    parameters: dict[str, TensorForm] = Field(default_factory=dict)
    args: dict[str, Any] = Field(default_factory=dict)
    dims: dict[str, DimForm] = Field(default_factory=dict)
    dtype: Literal["float32", "bfloat16", "float16", "float64"] = "float32"
    mode: Literal["train", "eval"] = "eval"
    direction: Literal["forward"] = "forward"
    precision: Literal["default", "ieee"] = "default"
    tolerance: ToleranceForm | None = None


def suggest(word: str, known: Iterable[str]) -> str:
    """``did you mean 'x'?`` where something close is known, else the list of what is."""
    options = list(known)
    close = difflib.get_close_matches(word, options, n=1)
    return f"did you mean {close[0]!r}?" if close else f"known are {', '.join(options)}"


def parse(data: Any, file: str) -> SpecForm:
    """Validated form of a spec file's content. Raises SpecError with one line: file, field, what is wrong, what to do."""
    if not isinstance(data, dict):
        raise SpecError(f"{file}: the file holds {_kind(data)}; write a mapping with 'reference' and 'inputs'")
    for part in ("inputs", "parameters"):
        # ``x: [M, N]`` is short for ``x: {shape: [M, N]}``.
        if isinstance(data.get(part), dict):
            data[part] = {k: {"shape": v} if isinstance(v, list) else v for k, v in data[part].items()}
    if isinstance(data.get("dims"), dict):
        data["dims"] = {k: {"value": v} if type(v) is int else v for k, v in data["dims"].items()}
    try:
        return SpecForm.model_validate(data)
    except ValidationError as e:
        raise SpecError(f"{file}: {_explain(e, SpecForm)}") from e


def _explain(error: ValidationError, form: type[BaseModel]) -> str:
    """The first problem in one line. Unknown keys come first: the rest is often their consequence."""
    problems = sorted(error.errors(), key=lambda p: p["type"] != "extra_forbidden")
    first = problems[0]
    # Branches of unions appear in pydantic's path as type names: they are not fields of the file.
    path = [str(p) for p in first["loc"] if str(p) not in ("int", "float", "str", "bool", "none", "[key]")]
    where = ".".join(path)
    if first["type"] == "extra_forbidden":
        known = _fields(form, path[:-1])
        return f"{where}: unknown key; {suggest(path[-1], known)}"
    given = first["input"]
    if isinstance(given, float) and not math.isfinite(given):
        return f"{where}: {given} is not a finite number; write a finite one"
    if first["type"] == "literal_error":
        options = first["ctx"]["expected"].replace(" or ", ", ").replace("'", "").split(", ")
        return f"{where}: {given!r} is not accepted; {suggest(str(given), options)}"
    if first["type"] == "missing":
        return f"{where}: is missing; add it"
    if first["type"] == "greater_than_equal":
        return f"{where}: is {given}; it must be at least {first['ctx']['ge']:g}"
    if isinstance(first["loc"][-1], str) and first["loc"][-1] == "[key]":
        return f"{where}: key {given!r} is {_kind(given)}; put it in quotes"
    return f"{where}: is {_kind(given)}; {_wanted(path, first['type'])}"


def _wanted(path: list[str], kind: str) -> str:
    leaf = path[-1] if not path[-1].isdigit() else path[-2]
    known = {
        "shape": "write a list of sizes such as [M, 1024]",
        "range": "write two integers, [low, high]",
        "reference": "write Python source as text ('reference: |') or module:attr",
        "inputs": "write a mapping from input names to {shape, dtype, dist, args}",
        "parameters": "write a mapping from parameter names to {shape, dtype, dist, args}",
        "dims": "write a mapping from dim names to {value} or {cpu, gpu, range}",
        "args": "write a mapping from argument names to values",
        "tolerance": "write {atol: …, rtol: …}",
    }
    if leaf in known:
        return known[leaf]
    if len(path) == 2 and path[0] in ("inputs", "parameters"):
        return "write {shape: […], dtype: …, dist: …}"
    if len(path) == 2 and path[0] == "dims":
        return "write an integer, or {cpu: …, gpu: …, range: [low, high]}"
    return {"int_type": "write an integer", "string_type": "write text", "float_type": "write a number"}.get(
        kind, "write a plain number or text"
    )


def _fields(form: type[BaseModel], path: list[str]) -> list[str]:
    inner: dict[str, type[BaseModel]] = {"inputs": TensorForm, "parameters": TensorForm, "dims": DimForm, "tolerance": ToleranceForm}
    return list((inner[path[0]] if path and path[0] in inner else form).model_fields)


def _kind(value: Any) -> str:
    if value is None:
        return "empty"
    names = {bool: "true/false", int: "an integer", float: "a number", str: "text", list: "a list", tuple: "a list", dict: "a mapping"}
    name = names.get(type(value), type(value).__name__)
    return f"{name} ({value!r})" if isinstance(value, (bool, int, float, str)) else name
