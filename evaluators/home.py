"""Where this installation keeps its data. The one module that reads :data:`VARIABLE`."""

from __future__ import annotations

import os
from pathlib import Path

from evaluators.errors import DataFolderError

VARIABLE = "KERNELEVOLVE_HOME"
DEFAULT = "~/.kernelevolve"


def home(chosen: str | Path | None = None) -> Path:
    """The data folder as an absolute path: ``chosen``, else ``$KERNELEVOLVE_HOME``, else ``~/.kernelevolve``. Not created here.

    Empty text counts as not given, and ``~`` is expanded in all three. Raises :class:`DataFolderError` where ``~`` stands for nobody.
    """
    given = chosen or os.environ.get(VARIABLE) or DEFAULT
    try:
        return Path(given).expanduser().absolute()
    except RuntimeError:
        raise DataFolderError(
            f"data folder {given}: no home folder is known for its ~; set {VARIABLE} to an absolute path"
        ) from None
