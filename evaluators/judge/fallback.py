"""Work that a candidate leaves to PyTorch: which operators ran, and which of them may.

An eager fallback is no generated kernel, however it is spelled, so what counts is not the source but the operators that reach
PyTorch's dispatcher during a call. Making, moving and reshaping tensors is plumbing and always allowed; beyond it a candidate may
call only what the loop IR itself leaves to PyTorch for this reference (a convolution between generated kernels, say).
"""

from __future__ import annotations

from typing import Any

from torch.utils._python_dispatch import TorchDispatchMode

from evaluators.ir.kernel import LibraryCall, Program

PLUMBING = frozenset(
    """empty empty_strided empty_like new_empty new_empty_strided new_zeros new_full zeros zeros_like zero_ ones ones_like full full_like
    fill fill_ scalar_tensor arange clone copy_ _to_copy to lift_fresh lift_fresh_copy detach alias view _unsafe_view reshape
    _reshape_alias as_strided t transpose permute unsqueeze squeeze slice select expand unbind split split_with_sizes unfold view_as
    resize_ set_ _local_scalar_dense is_pinned pin_memory record_stream contiguous movedim narrow flatten diagonal""".split()
)


class Recorder(TorchDispatchMode):  # type: ignore[misc]  # PyTorch's classes are untyped here
    """Collects the names of the operators (without overload) that are called while it is active."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: set[str] = set()

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return (
            False  # nothing is compiled in here, and asking for it imports the whole compiler: seconds in every worker
        )

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.seen.add(func.overloadpacket._qualified_op_name)
        return func(*args, **(kwargs or {}))

    def computing(self) -> list[str]:
        """What was called beyond plumbing, sorted."""
        return sorted(n for n in self.seen if n.rpartition("::")[2] not in PLUMBING)


def allowed(program: Program | None) -> frozenset[str]:
    """Operators the reference's program leaves to PyTorch; none where it could not be traced."""
    if program is None:
        return frozenset()
    return frozenset(s.target.partition(".")[0] for s in program.steps if isinstance(s, LibraryCall))
