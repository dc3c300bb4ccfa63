"""Settings of every test: no test asserts a duration, hypothesis' deadline included, and none waits for other judges on the machine."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import settings

from evaluators.judge.processes import device_lock

settings.register_profile("no_deadline", deadline=None)
settings.load_profile("no_deadline")


@pytest.fixture(scope="session", autouse=True)
def own_device_locks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Device locks of this process alone."""
    own = tmp_path_factory.mktemp("locks")
    patch = pytest.MonkeyPatch()
    patch.setattr(device_lock, "folder", lambda: own)
    yield
    patch.undo()
