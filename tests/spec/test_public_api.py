"""The public Python API: light to import, complete, and clear about wrong calls."""

from __future__ import annotations

import subprocess
import sys

import pytest

import kernelevolve
from agent.errors import SettingsError
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


def test_example_inputs_are_a_tuple_that_fits_the_call() -> None:
    import torch

    x = torch.ones(4, 4)
    with pytest.raises(SpecError, match=r"example_inputs: is Tensor; pass a tuple .* such as \(x,\)"):
        kernelevolve.optimize(lambda x: x * 2, x)
    with pytest.raises(SpecError, match=r"do not fit f\(x, y\): missing a required argument: 'y'; .* 1 given"):
        kernelevolve.from_module(lambda x, y: x + y, (x,), "f")
    with pytest.raises(SpecError, match=r"do not fit linear\(input.*too many positional arguments"):
        kernelevolve.from_module(torch.nn.Linear(4, 4), (x, x))


def test_an_export_that_fails_is_one_line_and_nothing_else(capfd: pytest.CaptureFixture[str]) -> None:
    """PyTorch writes the graph it had got to on stderr, by print and by logging; the error alone says what to do."""
    import torch

    def by_value(x: torch.Tensor) -> torch.Tensor:
        return x * 2 if x.sum() > 0 else x

    with pytest.raises(SpecError, match=r"depends on the values of a tensor .* torch\.where") as caught:
        kernelevolve.from_module(by_value, (torch.ones(4, 4),))
    assert "\n" not in str(caught.value)
    shown = capfd.readouterr()
    assert shown.out + shown.err == ""


def test_what_a_computation_itself_says_while_exported_is_not_kept_back(capsys: pytest.CaptureFixture[str]) -> None:
    import torch

    def talks(x: torch.Tensor) -> torch.Tensor:
        print("exporting", file=sys.stderr)
        return x + 1

    kernelevolve.from_module(talks, (torch.ones(4, 4),))
    assert "exporting" in capsys.readouterr().err


def test_a_setting_that_there_is_not_names_the_one_that_was_meant() -> None:
    with pytest.raises(SettingsError, match=r"^unknown setting 'evals'; did you mean 'evaluations'\?$"):
        kernelevolve.optimize("layernorm", evals=3)
    with pytest.raises(SettingsError, match=r"^unknown setting 'colour'; known are evaluations, seconds, "):
        kernelevolve.optimize("layernorm", colour="red")
