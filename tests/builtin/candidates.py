"""Load a candidate module's text and run it with a reference model's parameters."""

from __future__ import annotations

import importlib.util
import sys
import tempfile
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

_FOLDER = tempfile.TemporaryDirectory(prefix="candidates-")


def load_candidate(source: str) -> ModuleType:
    """The module; Triton reads kernel sources back from the file, so there is one."""
    path = Path(_FOLDER.name) / f"candidate_{len(list(Path(_FOLDER.name).iterdir()))}.py"
    path.write_text(source)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def run_candidate(source: str, model: torch.nn.Module, inputs: list[Any]) -> Any:
    """Outputs of ``ModelNew`` on these inputs."""
    net = load_candidate(source).ModelNew()
    net.load_state_dict(model.state_dict(), strict=True)
    return net(*inputs)
