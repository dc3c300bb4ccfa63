"""The data folder is worked out in one place, the same for every layer."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from evaluators.errors import DataFolderError
from evaluators.home import DEFAULT, VARIABLE, home

ROOT = Path(__file__).parents[2]
PACKAGES = ("kernelevolve", "agent", "retrieval", "knowledge", "evaluators", "corpora", "benchmarks")
OWNER = ROOT / "evaluators" / "home.py"


@pytest.fixture(autouse=True)
def person(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A person's home folder, and the variable not set."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv(VARIABLE, raising=False)
    return tmp_path


@pytest.mark.parametrize("given", [None, ""])
def test_an_empty_variable_is_the_same_as_none(
    given: str | None, person: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if given is not None:
        monkeypatch.setenv(VARIABLE, given)
    assert home() == home(given) == person / ".kernelevolve"


def test_a_tilde_stands_for_the_persons_home(person: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "~/data")
    assert home() == person / "data"
    assert home("~/mine") == person / "mine"


def test_the_folder_is_absolute_so_that_every_process_means_the_same(
    person: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(person)
    monkeypatch.setenv(VARIABLE, "data")
    assert home() == person / "data"
    assert home(Path("mine")) == person / "mine"


def test_a_tilde_of_nobody_is_a_named_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "~nobody-of-this-name/data")
    with pytest.raises(DataFolderError, match=f"~nobody-of-this-name/data.*{VARIABLE}"):
        home()


def test_every_layer_writes_below_it(person: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from agent.result import folder_of
    from evaluators.languages.cpp import cache_folder
    from knowledge.runs.places import objects_url, store_url

    for name in ("KERNELEVOLVE_STORE", "KERNELEVOLVE_OBJECTS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv(VARIABLE, "~/data")
    data = person / "data"
    assert cache_folder() == data / "cache" / "native"
    assert store_url() == f"sqlite:///{data / 'store.db'}"
    assert objects_url() == str(data / "objects")
    assert folder_of("run-1") == data / "runs" / "run-1"
    assert folder_of("run-1", "~/mine") == person / "mine" / "runs" / "run-1"


def _texts(file: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def test_no_other_module_reads_the_variable_or_knows_the_default() -> None:
    """Neither name may stand as a text of its own (a key, a path) in any other module; prose that mentions them may."""
    found = {OWNER}
    for package in PACKAGES:
        for file in (ROOT / package).rglob("*.py"):
            if any(text in (VARIABLE, DEFAULT, ".kernelevolve") for text in _texts(file)):
                found.add(file)
    assert found == {OWNER}
    assert {VARIABLE, DEFAULT} <= set(_texts(OWNER))


def test_only_the_start_of_the_reference_names_the_variable() -> None:
    """The name is handed on for setting it in a child's environment, or for telling it to a person; nobody else reads it."""
    users = set()
    for package in PACKAGES:
        for file in (ROOT / package).rglob("*.py"):
            for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
                if isinstance(node, ast.ImportFrom) and node.module == "evaluators.home":
                    users |= {file.relative_to(ROOT).as_posix() for name in node.names if name.name == "VARIABLE"}
    assert users == {"evaluators/judge/reference.py", "agent/doctor.py", "agent/cli/world.py"}
