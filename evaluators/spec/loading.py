"""One entry to every kind of spec reference a person can type, and to whole suites."""

from __future__ import annotations

import typing
from pathlib import Path

from evaluators.errors import SpecError
from evaluators.spec import suites
from evaluators.spec.from_yaml import Profile, load_yaml
from evaluators.spec.kernel_spec import FloatType, KernelSpec
from evaluators.suggest import suggest


def load(ref: str, *, dtype: str | None = None, profile: Profile = "cpu") -> KernelSpec:
    """Spec in normal form.

    ``ref`` is the path of a YAML spec or of a KernelBench file, a shipped spec (``layernorm``, ``starter/layernorm``), or an ATen overload
    (``aten::softmax.int``). ``dtype`` replaces the spec's floating type; ``profile`` chooses among the sizes of a YAML spec.
    Raises SpecError, one line long.
    """
    floating = typing.get_args(FloatType)
    if dtype is not None and dtype not in floating:
        raise SpecError(f"{ref}: dtype: unknown floating type {dtype!r}; {suggest(dtype, floating)}")
    if profile not in typing.get_args(Profile):
        raise SpecError(f"{ref}: profile: unknown profile {profile!r}; known are cpu, gpu")
    chosen: FloatType | None = dtype  # type: ignore[assignment]  # checked above
    if ref.startswith("aten::"):
        from evaluators.spec.from_aten import load_aten

        return load_aten(ref, chosen)
    path = Path(ref)
    if path.suffix in (".yaml", ".yml", ".py"):
        if not path.is_file():
            raise SpecError(f"{ref}: no such file; give the path of a YAML spec or KernelBench file")
        return _load_file(path, chosen, profile)
    try:
        found = suites.find(ref)
    except SpecError:
        if path.is_dir():
            raise SpecError(f"{ref}: is a folder; `kernelevolve batch {ref}` takes all specs in it") from None
        if path.is_file():
            raise SpecError(
                f"{ref}: is no spec by its name; a YAML spec ends in .yaml, a KernelBench file in .py"
            ) from None
        raise
    return _load_file(found, chosen, profile)


def load_suite(name: str, profile: Profile = "cpu", dtype: str | None = None) -> list[KernelSpec]:
    """Every spec of a suite in normal form. Raises SpecError at the first malformed one."""
    return [load(str(path), dtype=dtype, profile=profile) for path in suites.members(name)]


def _load_file(path: Path, dtype: FloatType | None, profile: Profile) -> KernelSpec:
    if path.suffix == ".py":
        from evaluators.spec.from_kernelbench import load_kernelbench

        return load_kernelbench(path, dtype)
    return load_yaml(path, dtype, profile)
