"""Kernel specifications: every source a person may write, one normal form."""

from evaluators.spec.kernel_spec import Dim, InputSpec, KernelSpec, Tolerance
from evaluators.spec.loading import load, load_suite

__all__ = ["Dim", "InputSpec", "KernelSpec", "Tolerance", "load", "load_suite"]
