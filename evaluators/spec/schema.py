"""The YAML form of a spec: what may be written, and one-line errors for what may not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StrictBool,
    StrictFloat,
    StrictInt,
    StrictStr,
    ValidationError,
)

from evaluators.errors import SpecError
from evaluators.forms import explain, kind

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
    direction: Literal["forward", "forward+backward"] = "forward"
    precision: Literal["default", "ieee"] = "default"
    tolerance: ToleranceForm | None = None


def parse(data: Any, file: str) -> SpecForm:
    """Validated form of a spec file's content. Raises SpecError with one line: file, field, what is wrong, what to do."""
    if not isinstance(data, dict):
        found = "is empty" if data is None else f"holds {kind(data)}"
        raise SpecError(f"{file}: the file {found}; write a mapping with 'reference' and 'inputs'")
    for part in ("inputs", "parameters"):
        # ``x: [M, N]`` is short for ``x: {shape: [M, N]}``.
        if isinstance(data.get(part), dict):
            data[part] = {k: {"shape": v} if isinstance(v, list) else v for k, v in data[part].items()}
    if isinstance(data.get("dims"), dict):
        data["dims"] = {k: {"value": v} if type(v) is int else v for k, v in data["dims"].items()}
    try:
        return SpecForm.model_validate(data)
    except ValidationError as e:
        raise SpecError(f"{file}: {explain(e, _fields, _wanted)}") from e


def _wanted(path: Sequence[str]) -> str | None:
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
    return None


def _fields(path: Sequence[str]) -> list[str]:
    inner: dict[str, type[BaseModel]] = {
        "inputs": TensorForm,
        "parameters": TensorForm,
        "dims": DimForm,
        "tolerance": ToleranceForm,
    }
    return list((inner[path[0]] if path and path[0] in inner else SpecForm).model_fields)
