"""How the reference behaves from call to call: random operators, changed inputs and buffers, results that differ."""

from __future__ import annotations

from typing import Any

import torch

from evaluators.judge.memory import wire
from evaluators.judge.oracle import cases
from evaluators.lint.finding import Finding
from evaluators.lint.recording import Recording
from evaluators.lint.subject import Subject


def find(subject: Subject, recording: Recording) -> list[Finding]:
    """Randomness, mutation, nondeterminism, and results that are not finite."""
    return [*_random(subject, recording), *_mutates(subject), *_repeats(subject), *_finite(subject)]


def _random(subject: Subject, recording: Recording) -> list[Finding]:
    if not recording.random:
        return []
    others = [subject.run(i, seed=case.seed + 1) for i, case in enumerate(subject.cases)]
    same = [subject.passes(i, outputs) for i, outputs in enumerate(others)]
    if all("attention" in s.name for s in recording.random) and _unmoved(subject, others):
        return []  # attention without dropout carries the mark of a random operator
    limits = [e.gates.norm for e in subject.cases[0].expected if e.gates is not None]
    first = recording.random[0]
    names = sorted({s.name for s in recording.random})
    effect = "another seed changes no verdict" if all(same) else "another seed gives another result"
    loose = max(limits, default=0.0)
    blind = f"; float64 draws other numbers, so that the limit is {loose:.2g} and says nothing" if loose > 0.1 else ""
    return [
        Finding(
            "random",
            "warning" if all(same) and not blind else "error",
            first.where,
            f"random operators ({', '.join(names)}) without a declared policy: {effect}{blind}",
            "use mode: eval, take them out, or pass the random numbers in as an input",
            {"operators": names, "calls": len(recording.random), "passes_with_another_seed": all(same), "limit": loose},
        )
    ]


def _unmoved(subject: Subject, others: list[list[Any]]) -> bool:
    return all(
        cases.same(a, b) for i, outputs in enumerate(others) for a, b in zip(subject.run(i), outputs, strict=True)
    )


def _mutates(subject: Subject) -> list[Finding]:
    found = []
    if subject.cases[0].inputs_may_change:
        found.append(
            Finding(
                "mutates",
                "warning",
                "inputs",
                "the reference changes its inputs in place",
                "work on a copy (x = x.clone()): kernels that are timed in turns must all see the same inputs",
                {"what": "inputs"},
            )
        )
    changed = _changed_buffers(subject)
    if changed:
        found.append(
            Finding(
                "mutates",
                "warning",
                f"buffer {changed[0]}",
                f"a call changes {len(changed)} buffers, which generated kernels do not",
                "use mode: eval, or momentum=0.0",
                {"what": "buffers", "names": changed[:8]},
            )
        )
    return found


def _changed_buffers(subject: Subject) -> list[str]:
    case = subject.cases[0]
    torch.manual_seed(case.seed)
    with torch.no_grad():
        subject.model(*_arguments(case))
    changed = [n for n, b in subject.model.named_buffers() if not cases.same(b, subject.buffers[n])]
    subject.restore()
    return changed


def _arguments(case: cases.Case) -> Any:
    return wire.rebuild(case.argument_tree, [t.clone(memory_format=torch.preserve_format) for t in case.inputs])


def _repeats(subject: Subject) -> list[Finding]:
    """Three calls with the same inputs and seed: from the same buffers twice, and once after another call."""
    first, second = subject.run(0), subject.run(0)
    found: list[Finding] = []
    if len(first) != len(second) or any(not cases.same(a, b) for a, b in zip(first, second, strict=True)):
        found.append(_differs(subject, first, second, "two calls with the same inputs and seed"))
    case = subject.cases[0]
    kept: list[list[Any]] = []
    with torch.no_grad():
        for _ in range(2):
            torch.manual_seed(case.seed)
            flat: list[Any] = []
            wire.flatten(subject.model(*_arguments(case)), flat)
            kept.append([t.clone() for t in flat])
    subject.restore()
    if not found and any(not cases.same(a, b) for a, b in zip(*kept, strict=False)):
        found.append(_differs(subject, kept[0], kept[1], "a second call on the same model, which keeps a state,"))
    return found


def _differs(subject: Subject, first: list[Any], second: list[Any], what: str) -> Finding:
    ok = subject.passes(0, second)
    pairs = [(a.double(), b.double()) for a, b in zip(first, second, strict=False) if a.shape == b.shape and a.numel()]
    gap = max((float((a - b).abs().nan_to_num(0.0).max()) for a, b in pairs), default=0.0)
    return Finding(
        "nondeterministic",
        "warning" if ok else "error",
        "outputs",
        f"{what} differ by up to {gap:.3g}{', within the accuracy rule' if ok else ', more than the accuracy rule allows'}",
        "make the reference a function of its inputs and parameters",
        {"largest_difference": gap, "passes": ok},
    )


def _finite(subject: Subject) -> list[Finding]:
    found = []
    for index, want in enumerate(subject.cases[0].expected):
        if want.gates is None or not want.oracle.numel():
            continue
        share = float((~torch.isfinite(want.oracle)).double().mean())
        if share:
            found.append(
                Finding(
                    "nonfinite",
                    "error" if share > 0.5 else "warning",
                    f"output {index}",
                    f"{share:.1%} of its elements are NaN or infinite even in float64",
                    "use inputs inside the reference's domain",
                    {"share": share},
                )
            )
    return found
