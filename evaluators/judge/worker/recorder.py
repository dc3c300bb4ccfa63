"""Records which PyTorch operators a candidate's call uses, in its worker; :mod:`evaluators.judge.worker.fallback` says which may."""

from __future__ import annotations

from typing import Any

from evaluators.dispatch_mode import DispatchMode
from evaluators.judge.worker.fallback import PLUMBING
from evaluators.judge.worker.guard import Guard, released


class Recorder(DispatchMode):
    """Collects the names of the operators (without overload) that are called while it is active; with a guard, what they allocate is
    guarded."""

    def __init__(self, guard: Guard | None = None) -> None:
        super().__init__()
        self.seen: set[str] = set()
        self.guard = guard
        self.plumbing = 0
        """Calls of operators that only make, move or reshape tensors."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        full = func.overloadpacket._qualified_op_name
        self.seen.add(full)
        self.plumbing += full.rpartition("::")[2] in PLUMBING
        if self.guard is None:
            return func(*args, **(kwargs or {}))
        operator = full.rpartition("::")[2]
        if operator == "resize_":
            released(args[0])
        return self.guard.around(operator, func(*args, **(kwargs or {})))

    def computing(self) -> list[str]:
        """What was called beyond plumbing, sorted."""
        return sorted(n for n in self.seen if n.rpartition("::")[2] not in PLUMBING)
