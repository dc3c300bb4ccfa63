"""KernelSpec: what to compute, in one normal form that every layer shares.

Whatever the source (YAML, KernelBench file, ATen overload, live module), a spec is reduced to plain data: the text of a
self-contained Python module that defines ``Model(nn.Module)``, plus a description of its inputs. Plain data can be hashed,
stored, shown to a language model, and rebuilt inside another process.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import PurePath
from typing import Any, Literal

Source = Literal["yaml", "kernelbench", "aten", "live"]
Mode = Literal["train", "eval"]
Direction = Literal["forward", "forward+backward"]
PrecisionPolicy = Literal["default", "ieee"]
FloatType = Literal["float32", "bfloat16", "float16", "float64"]


@dataclass(frozen=True)
class Dim:
    """A symbolic dimension: the value a run uses and the inclusive range the spec declares for it."""

    value: int
    low: int
    high: int


@dataclass(frozen=True)
class InputSpec:
    """One tensor or scalar argument of ``Model.forward`` (or one parameter, where listed under parameters).

    ``shape`` holds integers, names of symbolic dims, or expressions of them such as ``"B+1"``, as numbers in ``args`` may be too.
    ``dtype`` is a torch dtype name, ``"float"`` for the spec's own floating type, or ``"python"`` for a plain value. ``dist`` names
    a generator in ``evaluators.spec.inputs`` and ``args`` its arguments.
    """

    name: str
    shape: tuple[int | str, ...]
    dtype: str = "float"
    dist: str = "normal"
    args: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Tolerance:
    """A declared tolerance, which replaces the float64-oracle rule where a spec states one."""

    atol: float
    rtol: float


@dataclass(frozen=True)
class KernelSpec:
    """A kernel specification in normal form.

    ``reference`` is Python source that defines ``Model``. Where ``inputs`` is ``None`` the source also defines KernelBench's
    ``get_inputs()`` and ``get_init_inputs()``. ``state`` names a file of saved parameters (live modules only).
    """

    name: str
    source: Source
    reference: str
    inputs: tuple[InputSpec, ...] | None = None
    parameters: tuple[InputSpec, ...] = ()
    dims: Mapping[str, Dim] = field(default_factory=dict)
    dtype: FloatType = "float32"
    mode: Mode = "eval"
    direction: Direction = "forward"
    precision: PrecisionPolicy = "default"
    tolerance: Tolerance | None = None
    description: str = ""
    origin: str = ""
    state: str | None = None
    repaired_from: str | None = None
    """Digest of the spec whose inputs or parameters this one replaces, because trivial answers passed on them."""

    def to_json(self) -> str:
        """Canonical JSON text; equal specs give equal text."""
        return json.dumps(asdict(self), sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> KernelSpec:
        """Rebuild a spec from :meth:`to_json`'s text."""
        data = json.loads(text)

        def inputs(items: list[dict[str, Any]] | None) -> tuple[InputSpec, ...] | None:
            return None if items is None else tuple(InputSpec(**{**i, "shape": tuple(i["shape"])}) for i in items)

        data["inputs"] = inputs(data["inputs"])
        data["parameters"] = inputs(data["parameters"]) or ()
        data["dims"] = {k: Dim(**v) for k, v in data["dims"].items()}
        data["tolerance"] = Tolerance(**data["tolerance"]) if data["tolerance"] else None
        return cls(**data)

    @property
    def digest(self) -> str:
        """Content hash (hex, 16 digits): what is computed, on which shapes and dtype; where files are does not enter."""
        state = None if self.state is None else PurePath(self.state).name  # saved parameters are named by their content
        content = asdict(replace(self, origin="", description="", state=state))
        del content["repaired_from"]  # the repair itself is in the inputs and parameters
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]

    def with_dtype(self, dtype: FloatType) -> KernelSpec:
        """The same spec in another floating type."""
        return replace(self, dtype=dtype)
