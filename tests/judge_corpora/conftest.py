"""A data folder of the tests' own, so that no result or library of a person's is used or changed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture(scope="module", autouse=True)
def harmless(trials_here: None) -> None:
    """The references here are."""


@pytest.fixture(scope="session", autouse=True)
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Its path."""
    folder = tmp_path_factory.mktemp("home")
    patch = pytest.MonkeyPatch()
    patch.setenv("KERNELEVOLVE_HOME", str(folder))
    yield folder
    patch.undo()
