"""The base of everything here that looks at, or changes, PyTorch's operators while they are called."""

from __future__ import annotations

from torch.utils._python_dispatch import TorchDispatchMode


class DispatchMode(TorchDispatchMode):  # type: ignore[misc]  # PyTorch's classes are untyped here
    """A dispatch mode that does not import PyTorch's compiler on its first use, which takes seconds in every process."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # nothing is compiled inside of these, and it is asking for it that imports the compiler
