"""Settings of every test: no test asserts a duration, hypothesis' deadline included, and none waits for other judges on the machine."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import settings

from evaluators import trial, trial_process
from evaluators.ir import plain
from evaluators.judge.processes import device_lock
from evaluators.spec.kernel_spec import KernelSpec
from evaluators.spec.model import signature

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


@pytest.fixture(scope="module")
def trials_here() -> Iterator[None]:
    """References are traced in this process, which has PyTorch loaded: one of its own for each, which takes seconds to load it, is for
    references that may do harm (``tests/spec/test_trial.py``)."""

    def here(spec: KernelSpec, _device: str) -> trial.Trial:
        found = trial_process._traced(spec)
        program = found["program"]
        return trial.Trial(signature(spec), program and plain.from_plain(program), found["untraced"])

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trial, "_apart", here)
        yield
