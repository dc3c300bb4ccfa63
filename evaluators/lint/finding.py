"""What the lint says: findings, and the report that holds them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from evaluators.spec.kernel_spec import KernelSpec

Severity = Literal["error", "warning", "info"]
RepairState = Literal["not needed", "repaired", "unrepairable", "not tried"]

WEAK = ("zeros_pass", "constant_pass", "identity_pass", "other_seed_passes", "input_ignored")
"""Kinds that make a verdict on the spec worthless: something that computes nothing passes."""

HELPED_BY_INPUTS = (*WEAK, "output_weak", "faint_output", "dead_operator", "constant_parameter", "input_partly_ignored")
"""Kinds that other inputs or parameters may remove."""

KINDS: Mapping[str, str] = {
    "zeros_pass": "an output of zeros passes the accuracy rule",
    "constant_pass": "one constant passes as the whole output, on every seed",
    "identity_pass": "an input or parameter returned as it is passes",
    "other_seed_passes": "the output for other inputs passes",
    "input_ignored": "an input can be replaced by another seed's without changing a verdict, though other data would change it",
    "output_weak": "one output of several can be answered trivially, or would pass unwritten at atol = rtol = 1e-4 or less",
    "faint_output": "a trivial answer fails the rule, but passes at a tolerance common elsewhere (1e-4, or 1e-2)",
    "input_unused": "an input that matters under no distribution tried",
    "input_partly_ignored": "half of an input can be replaced without changing a verdict",
    "parameter_ignored": "a parameter can be replaced without changing a verdict",
    "constant_parameter": "every element of a parameter is the same number, so that leaving it out may pass",
    "dead_operator": "an operator that does nothing, always gives one constant, or whose result never matters",
    "too_large": "inputs, parameters and outputs do not fit the device, or leave the judge too little of it",
    "wide_indices": "a tensor of 2^31 elements or more",
    "precision": "the reference computes, or returns, in another precision than the spec declares",
    "tolerance_loose": "the declared tolerance, or the problem's conditioning, admits answers computed in a narrower type",
    "tolerance_tight": "the reference itself misses, or nearly misses, the declared tolerance",
    "random": "a random operator, and no policy says how its numbers are judged",
    "mutates": "the reference changes its inputs or buffers",
    "nonfinite": "outputs that are NaN or infinite in float64 too",
    "nondeterministic": "the same call gives different results",
    "reference_fails": "the reference does not run, or not within the limits",
    "unfinished": "a check that ran out of time or failed, so that its silence means nothing",
    "sizes": "the checks ran at other sizes than the spec's",
}  # fmt: skip


@dataclass(frozen=True)
class Finding:
    """One thing found: its kind (a key of ``KINDS``), where (an output, an argument, a line of the reference), the sentence a person
    reads, the numbers it rests on, and what to do."""

    kind: str
    severity: Severity
    where: str
    message: str
    advice: str
    evidence: Mapping[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class LintReport:
    """Everything found about one spec.

    ``repaired`` is the spec with other inputs and parameters under which trivial answers fail; None where none is needed or none was found
    (``repair`` says which). ``changes`` says in words what was changed, ``remaining`` what is still found on the repaired spec.
    """

    name: str
    digest: str
    findings: tuple[Finding, ...]
    repair: RepairState
    repaired: KernelSpec | None = None
    changes: tuple[str, ...] = ()
    remaining: tuple[Finding, ...] = ()
    sizes: Mapping[str, Any] = field(default_factory=dict)
    seconds: float = 0.0

    @property
    def errors(self) -> tuple[Finding, ...]:
        """Findings of severity error."""
        return tuple(f for f in self.findings if f.severity == "error")

    @property
    def weak(self) -> bool:
        """Whether something that computes nothing passes: a speed-up on such a spec is no win."""
        return any(f.kind in WEAK and f.severity == "error" for f in self.findings)

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON; ``repaired`` as the spec's own JSON text's content."""
        plain = asdict(self)
        plain["repaired_digest"] = self.repaired.digest if self.repaired else None
        plain["weak"] = self.weak
        return plain
