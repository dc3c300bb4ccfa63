"""What a report shows, gathered from the run store into one plain value; charts, page, tables and JSON all read this."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from agent.figures import interval, times
from agent.search.fitness import steady, undecided, weak_spec, wins
from evaluators.candidate import Candidate
from evaluators.spec.kernel_spec import KernelSpec
from evaluators.verdict import Evaluation

Recommendation = Literal["kernel", "baseline", "inconclusive", "untimed", "none"]


@dataclass(frozen=True)
class Citation:
    """A passage a candidate was given."""

    chunk_id: str
    title: str = ""
    document: str = ""
    locator: str = ""
    kind: str = ""
    score: float | None = None


@dataclass(frozen=True)
class Node:
    """A candidate of the search graph with its verdict (None while it is being judged) and what it was given."""

    candidate: Candidate
    evaluation: Evaluation | None
    citations: tuple[Citation, ...] = ()

    @property
    def ratio(self) -> float | None:
        """Speed-up over the stronger baseline where the candidate is correct and was timed."""
        e = self.evaluation
        return e.timing.ratio if e and e.status == "correct" and e.timing else None


@dataclass(frozen=True)
class RunReport:
    """One run. ``phases`` are seconds of wall clock by activity; ``confirmation`` is the winner's fresh-process
    re-run, ``recorded`` the recommendation the finished run wrote down."""

    run_id: str
    spec: KernelSpec
    target: str
    status: str
    nodes: tuple[Node, ...]
    best_id: str | None
    confirmation: Evaluation | None
    recorded: str | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    target_present: bool = True
    started: str = ""
    seconds: float = 0.0
    stop_reason: str = ""
    phases: Mapping[str, float] = field(default_factory=dict)
    tokens: int = 0
    dollars: float = 0.0

    @property
    def best(self) -> Node | None:
        """The candidate the run settled on."""
        return next((n for n in self.nodes if n.candidate.id == self.best_id), None)

    @property
    def verdict(self) -> Evaluation | None:
        """What is reported of the best candidate: its fresh-process re-run, else (run not finished) what the search measured."""
        return self.confirmation or (self.best.evaluation if self.best else None)

    @property
    def recommendation(self) -> Recommendation:
        """``kernel`` only where the whole interval of the fresh re-run lies above 1 and is narrow enough to tell."""
        best, verdict = self.best, self.verdict
        if best is None or verdict is None:
            return "none"
        if verdict.status == "checked":
            return "untimed"
        if self.confirmation is not None and undecided(self.confirmation):
            return "inconclusive"
        gain = self.confirmation is not None and wins(self.confirmation)
        return "kernel" if gain and self.recorded != "baseline" else "baseline"

    @property
    def of_origin(self) -> str:
        """Words that follow ``kernel`` where the best one is the user's own; empty otherwise."""
        return " that was given to start from" if self.best and self.best.candidate.proposer == "given" else ""

    @property
    def weak_spec(self) -> tuple[str, ...]:
        """What passes on the spec though it computes nothing: no speed-up counts then. Empty where the spec is sound."""
        verdicts = [n.evaluation for n in self.nodes if n.evaluation]
        return next(filter(None, map(weak_spec, verdicts)), ())

    @property
    def sentence(self) -> str:
        """The outcome in one sentence; a second one where the spec is weak and the first does not say so."""
        said = self._outcome
        weak = f" No credit: weak spec ({'; '.join(self.weak_spec)})."
        return said if not self.weak_spec or "no credit" in said else said + weak

    @property
    def _outcome(self) -> str:
        verdict = self.verdict
        kind = self.recommendation
        if kind == "none":
            if self.status in ("running", "interrupted") and not any(n.evaluation for n in self.nodes):
                return f"No verdict yet: nothing was judged so far, and the run is {self.status}."
            if self.stop_reason and not any(n.evaluation for n in self.nodes):
                return f"Keep PyTorch: {self.stop_reason}."
            count = len(self.nodes)
            return f"No correct kernel in {count} candidate{'s' * (count != 1)}; keep PyTorch.{self._last_failure}"
        if kind == "untimed":
            what = "was checked numerically and compiles" if verdict and verdict.accuracy else "compiles, unchecked,"
            if (
                verdict and verdict.accuracy and "the same schedule" in verdict.message
            ):  # its twin was interpreted, not its own text
                what = "whose schedule was checked numerically at smaller sizes compiles"
            return f"A kernel {what} for {self.target}; nothing was timed, because that device is not here."
        if verdict is None or verdict.timing is None:
            return "The best candidate was not confirmed; keep PyTorch."
        t = verdict.timing
        gain = f"{times(t.ratio)} over {t.baseline} (95% interval {interval(t.low, t.high)})"
        if kind == "kernel":
            return f"Use the kernel{self.of_origin}: {gain}."
        if kind == "inconclusive":
            return f"Keep PyTorch: the machine was too noisy to tell ({gain}); run again when it is idle."
        if not self.confirmation:
            return f"Best so far {gain}, not yet confirmed in a fresh process."
        if t.low > 1.0:
            why = verdict.message.partition(";")[0] or verdict.status.replace("_", " ")
            return f"Keep PyTorch: the best candidate reached {gain}, but {why}."
        if t.high < 1.0:
            return f"Keep PyTorch: the best correct kernel reached {gain}: it is slower.{self._disturbed}"
        return f"Keep PyTorch: the best correct kernel reached {gain}, which is not a gain: the interval reaches 1."

    @property
    def _disturbed(self) -> str:
        """A sentence to follow another where the samples behind it scatter too widely to be the program's own; else empty."""
        t = self.verdict.timing if self.verdict else None
        if t is None or steady(t):
            return ""
        return " The samples scatter widely: other work disturbed the machine. Repeat it when the machine is idle."

    @property
    def _last_failure(self) -> str:
        """What was wrong with the last judged candidate, to follow a sentence; empty where none was judged."""
        verdict = next((n.evaluation for n in reversed(self.nodes) if n.evaluation), None)
        if verdict is None:
            return " None was judged."
        what = verdict.status.replace("_", " ")
        first = verdict.message.strip().partition("\n")[0][:200]
        return f" The last one: {what}{': ' * bool(first)}{first}"

    def to_dict(self) -> dict[str, Any]:
        """Nested plain values, ready for JSON: the raw record of the run."""
        out = asdict(self)
        out["recommendation"] = self.recommendation
        out["summary"] = self.sentence
        out["weak_spec"] = list(self.weak_spec)
        return out


def lineage(report: RunReport) -> tuple[Node, ...]:
    """The best candidate's ancestors, oldest first, itself last, following each candidate's first parent."""
    by_id = {n.candidate.id: n for n in report.nodes}
    chain: list[Node] = []
    current = by_id.get(report.best_id or "")
    while current is not None and current not in chain:
        chain.append(current)
        parents = [by_id[p] for p in current.candidate.parents if p in by_id]
        current = parents[0] if parents else None
    return tuple(reversed(chain))


def compiled(evaluation: Evaluation) -> str:
    """What the compiler reported of each device kernel, in one line; empty where it reported none."""
    kernels = evaluation.resources.get("kernels")
    if not isinstance(kernels, (list, tuple)):
        return ""
    units = {"registers": "registers", "spills": "spills", "shared_bytes": "B shared", "num_warps": "warps"}
    lines = []
    for kernel in kernels:
        if isinstance(kernel, Mapping):
            figures = ", ".join(f"{kernel[key]} {unit}" for key, unit in units.items() if key in kernel)
            lines.append(f"{kernel.get('name', 'kernel')} {figures}".strip())
    return "; ".join(lines)
