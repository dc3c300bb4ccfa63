"""Kernel specifications: every source a person may write, one normal form."""

from evaluators.spec.kernel_spec import Dim, InputSpec, KernelSpec, Tolerance
from evaluators.spec.loading import load
from evaluators.spec.suites import load_suite

__all__ = ["Dim", "InputSpec", "KernelSpec", "Tolerance", "load", "load_suite"]
