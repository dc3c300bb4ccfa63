"""The examples in docs/specs.md: every file loads, builds and runs at tiny sizes, every snippet runs, every error reads as printed."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

import agent.report
import agent.run
from evaluators import spec as specs
from evaluators.errors import SpecError
from evaluators.spec.from_yaml import Profile
from evaluators.spec.inputs import DISTS, make_inputs
from evaluators.spec.kernel_spec import KernelSpec
from evaluators.spec.model import build_model
from evaluators.spec.schema import SpecForm

PAGE = (Path(__file__).parents[2] / "docs" / "specs.md").read_text(encoding="utf-8")


@dataclass(frozen=True)
class Block:
    """A fenced block with the line it starts on."""

    form: str
    line: int
    text: str


def _blocks() -> list[Block]:
    found = re.finditer(r"^```(\w+)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    return [Block(m[1], PAGE.count("\n", 0, m.start()) + 1, m[2]) for m in found]


BLOCKS = _blocks()
ERRORS = [(a, b) for a, b in pairwise(BLOCKS) if (a.form, b.form) == ("yaml", "text")]
SPECS = [b for b in BLOCKS if b.form == "yaml" and b not in [a for a, _ in ERRORS]]
FILES = [b for b in BLOCKS if b.form == "python" and b.text.startswith("# file:")]
SNIPPETS = [b for b in BLOCKS if b.form == "python" and b not in FILES]


def _name(value: Any) -> str:
    return f"line{value.line}" if isinstance(value, Block) else ""


def _tiny(spec: KernelSpec) -> dict[str, int]:
    return {name: max(dim.low, min(dim.value, 5)) for name, dim in spec.dims.items()}


def _runs(spec: KernelSpec) -> None:
    dims = _tiny(spec)
    inputs = make_inputs(spec, 3, "cpu", dims)
    with torch.no_grad():
        found = build_model(spec, "cpu", dims=dims)(*inputs)
    assert isinstance(found, torch.Tensor)
    assert found.numel() > 0


def test_blocks_of_every_kind_are_found() -> None:
    """The page's structure is what this module takes it for."""
    assert len(ERRORS) >= 4
    assert len(SPECS) >= 6
    assert len(FILES) == 1
    assert len(SNIPPETS) == 3


@pytest.mark.parametrize("profile", ["cpu", "gpu"])
@pytest.mark.parametrize("block", SPECS, ids=_name)
def test_yaml_example_loads_and_runs(block: Block, profile: Profile, tmp_path: Path) -> None:
    """Loads for both profiles, and its reference runs on generated inputs."""
    file = tmp_path / "example.yaml"
    file.write_text(block.text)
    _runs(specs.load(str(file), profile=profile))


@pytest.mark.parametrize("block", FILES, ids=_name)
def test_problem_file_loads_and_runs(block: Block, tmp_path: Path) -> None:
    """The KernelBench example is accepted and runs."""
    file = tmp_path / block.text.partition("\n")[0].removeprefix("# file:").strip()
    file.write_text(block.text)
    _runs(specs.load(str(file)))


@pytest.mark.parametrize(("block", "message"), ERRORS, ids=_name)
def test_error_reads_as_printed(block: Block, message: Block, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The message is exactly the line on the page."""
    monkeypatch.chdir(tmp_path)
    Path("my_kernel.yaml").write_text(block.text)
    with pytest.raises(SpecError) as caught:
        specs.load("my_kernel.yaml")
    assert str(caught.value) == message.text.strip()


@pytest.mark.parametrize("block", SNIPPETS, ids=_name)
def test_snippet_runs(block: Block, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The snippet runs as it stands, up to the search itself: settings are accepted and the spec's reference runs."""
    monkeypatch.setenv("KERNELEVOLVE_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    given: list[KernelSpec] = []

    def search(spec: KernelSpec, *_: Any, **__: Any) -> Any:
        given.append(spec)
        return SimpleNamespace(message="", run_id="", folder=tmp_path, report=tmp_path / "report.html")

    monkeypatch.setattr(agent.run, "optimize", search)
    monkeypatch.setattr(agent.report, "write", lambda *_: tmp_path / "report.html")
    exec(compile(block.text, "docs/specs.md", "exec"), {})
    assert len(given) == block.text.count("kernelevolve.optimize(")
    for spec in given:
        _runs(spec)


@pytest.mark.parametrize("operator", re.findall(r"`(aten::[\w.]+\w)`", PAGE))
def test_named_operator_loads(operator: str) -> None:
    """Every complete overload that the page names can be used as it is (patterns such as ``aten::name`` aside)."""
    if not operator.startswith("aten::name"):
        assert specs.load(operator).source == "aten"


def test_tables_are_complete() -> None:
    """Every field of a spec and every distribution, with its arguments, is in its table."""
    fields = set(re.findall(r"^\| `(\w+)` \|", PAGE.partition("### reference")[0], re.MULTILINE))
    assert fields == set(SpecForm.model_fields)
    table = PAGE.partition("<!-- dists -->")[2].partition("\n\n")[0]
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in table.strip().splitlines()[2:]]
    documented = {
        name: {a: bool(b) for b, a in re.findall(r"(\*\*)?`(\w+)`", row[1])}
        for row in rows
        for name in re.findall(r"`(\w+)`", row[0])
    }
    assert documented == {name: dict(dist.args) for name, dist in DISTS.items()}
