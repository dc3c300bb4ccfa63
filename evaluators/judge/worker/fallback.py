"""Work that a candidate leaves to PyTorch: which operators ran, and which of them may.

An eager fallback is no generated kernel, however it is spelled, so what counts is not the source but the operators that reach
PyTorch's dispatcher during a call. Making, moving and reshaping tensors is plumbing and always allowed; beyond it a candidate may
call only what the loop IR itself leaves to PyTorch for this reference (a convolution between generated kernels, say).
"""

from __future__ import annotations

from evaluators.ir.kernel import LibraryCall, Program

PLUMBING = frozenset(
    """empty empty_strided empty_like new_empty new_empty_strided new_zeros new_full zeros zeros_like zero_ ones ones_like full full_like
    fill fill_ scalar_tensor arange clone copy_ _to_copy to lift_fresh lift_fresh_copy detach alias view _unsafe_view reshape
    _reshape_alias as_strided t transpose permute unsqueeze squeeze slice select expand unbind split split_with_sizes unfold view_as
    resize_ set_ _local_scalar_dense is_pinned pin_memory record_stream contiguous movedim narrow flatten diagonal""".split()
)


def allowed(program: Program | None) -> frozenset[str]:
    """Operators the reference's program leaves to PyTorch; none where it could not be traced."""
    if program is None:
        return frozenset()
    return frozenset(s.target.partition(".")[0] for s in program.steps if isinstance(s, LibraryCall))
