"""The public Python API: light to import, complete, and clear about wrong calls."""

from __future__ import annotations

import subprocess
import sys

import pytest

import kernelevolve
from evaluators.errors import SpecError


def test_import_is_light() -> None:
    code = "import sys, kernelevolve; print([m for m in ('torch', 'langgraph', 'chromadb') if m in sys.modules])"
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "[]"
    )


def test_every_name_resolves() -> None:
    for name in kernelevolve.__all__:
        assert getattr(kernelevolve, name) is not None
    with pytest.raises(AttributeError, match="has no attribute 'optimise'; it has"):
        _ = kernelevolve.optimise


def test_example_inputs_belong_to_modules_only() -> None:
    with pytest.raises(SpecError, match="example_inputs: are missing; pass the arguments of one call"):
        kernelevolve.optimize(lambda x: x)
    with pytest.raises(SpecError, match="a spec describes its own inputs"):
        kernelevolve.optimize("softmax", (1,))
