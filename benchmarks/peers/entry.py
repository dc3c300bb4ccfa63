"""The corpus for other evaluators: one file per candidate, whose first comment lines say which problem it is for.

    # problem: softmax          a file in problems/
    # dtype: bfloat16           of the problem's tensors, if not float32
    # needs: gpu                where the candidate means nothing on a CPU
    # about: what it does

Comments, because one of the evaluators searches everything else of the text for words.
"""

from __future__ import annotations

import contextlib
import fcntl
import importlib
import importlib.util
import json
import os
import re
import sys
import types
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Entry:
    """A candidate. ``kind`` is ``cheat`` or ``honest``."""

    name: str
    kind: str
    path: Path
    problem: Path
    dtype: str
    needs: str
    about: str


def read(path: Path) -> Entry:
    """The candidate in a file; raises ValueError where its header is incomplete."""
    header = re.match(r"(?:#.*\n)*", path.read_text())
    lines = header[0].replace("\n# ", " ").split(" ") if header else []
    fields: dict[str, str] = {}
    key = ""
    for word in " ".join(lines).replace("#", " ").split():
        if word in ("problem:", "dtype:", "needs:", "about:") and key != "about":
            key = word[:-1]
        elif key:
            fields[key] = f"{fields[key]} {word}" if key in fields else word
    if "problem" not in fields or "about" not in fields:
        raise ValueError(f"{path}: the first lines must say '# problem: NAME' and '# about: …'")
    problem = HERE / "problems" / f"{fields['problem']}.py"
    if not problem.exists():
        raise ValueError(f"{path}: there is no problem {fields['problem']!r} in {problem.parent}")
    kind = {"cheats": "cheat", "honest": "honest"}[path.parent.name]
    return Entry(
        path.stem, kind, path, problem, fields.get("dtype", "float32"), fields.get("needs", ""), fields["about"]
    )


def corpus() -> list[Entry]:
    """All candidates, cheats first."""
    return [read(path) for folder in ("cheats", "honest") for path in sorted((HERE / folder).glob("*.py"))]


def module(path: Path, name: str) -> types.ModuleType:
    """A problem or candidate, imported from its file, as the evaluators that take Triton do it."""
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    sys.modules[name] = made
    spec.loader.exec_module(made)
    return made


def stand_in(name: str, **attributes: Any) -> bool:
    """Satisfy the import of a package that is not installed and that nothing on the way to a verdict uses; True where that was needed."""
    with contextlib.suppress(ImportError, ValueError):
        if importlib.util.find_spec(name) is not None:
            return False
    made = types.ModuleType(name)
    for key, value in attributes.items():
        setattr(made, key, value)
    sys.modules[name] = made
    parent, _, child = name.rpartition(".")
    if parent:
        setattr(importlib.import_module(parent), child, made)
    return True


def device() -> bool:
    """Give this process its context on the GPU; False where there is none."""
    import torch

    if not torch.cuda.is_available():
        return False
    torch.zeros(1, device="cuda")
    return True


@contextlib.contextmanager
def alone(lock: str) -> Iterator[None]:
    """Take turns with the other processes that were started beside this one."""
    with Path(lock).open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def finish(result: str, **row: Any) -> None:
    """Write what came out and end at once, whatever the candidate left running or replaced."""
    partial = Path(f"{result}.part")
    partial.write_text(json.dumps(row, default=str))
    partial.replace(result)
    sys.stdout.flush()
    os._exit(0)


def brief(error: object, length: int = 160) -> str:
    """One line of an error."""
    return " ".join(str(error).split())[:length]
