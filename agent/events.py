"""What a run tells while it works. The runner hands each event to ``on_event``; nothing depends on anyone listening."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from evaluators.candidate import Candidate
from evaluators.verdict import Evaluation


@dataclass(frozen=True)
class Preparing:
    """Something slow that is no work on a candidate: tracing the reference, taking in the packaged documents (``done`` of ``total``), or
    waiting for another judge."""

    what: str
    done: int = 0
    total: int = 0


@dataclass(frozen=True)
class RunStarted:
    """A run begins, or goes on (``resumed``)."""

    run_id: str
    spec: str
    target: str
    evaluations: int
    """The budget."""
    resumed: bool
    folder: str


@dataclass(frozen=True)
class JudgeReady:
    """The baselines were measured (milliseconds); none where the target is absent. ``seconds`` include the first candidate.

    ``note`` says why one was left out, if one was."""

    run_id: str
    baselines: dict[str, float]
    seconds: float
    note: str = ""


@dataclass(frozen=True)
class StepStarted:
    """A step's passages are there and its candidates are about to be made."""

    run_id: str
    step: int
    phase: str
    parents: tuple[str, ...]
    diagnosis: str
    why: str
    passages: tuple[str, ...]


@dataclass(frozen=True)
class CandidateProposed:
    """A candidate exists and waits to be judged."""

    run_id: str
    candidate: Candidate


@dataclass(frozen=True)
class ProposerFailed:
    """A proposer raised; the run goes on without its share of the step."""

    run_id: str
    step: int
    proposer: str
    message: str


@dataclass(frozen=True)
class FewerProposed:
    """A proposer made fewer candidates than it was asked for: it has no more to try here, or ``repeats`` of them had the text of a kernel
    that the run already has, which is not judged again."""

    run_id: str
    step: int
    phase: str
    proposer: str
    asked: int
    made: int
    repeats: int


@dataclass(frozen=True)
class AnswerAwaited:
    """A person (or another program) is asked for a kernel: the prompt lies at ``question``, the answer is expected at ``answer``. Told
    again (``again``) from time to time while nobody answers."""

    run_id: str
    candidate_id: str
    question: str
    answer: str
    seconds: float | None
    again: bool = False


@dataclass(frozen=True)
class Judging:
    """A candidate is about to be judged. With the ``first`` one the judge starts: its processes, the expected results and, where the
    target is here, the baselines. That is often the longest wait of a run."""

    run_id: str
    candidate: Candidate
    first: bool
    timed: bool


@dataclass(frozen=True)
class CandidateJudged:
    """A verdict was recorded. ``number`` counts the run's verdicts from 1."""

    run_id: str
    candidate: Candidate
    evaluation: Evaluation
    number: int
    budget: int


@dataclass(frozen=True)
class BestChanged:
    """A candidate is the best so far."""

    run_id: str
    candidate_id: str
    fitness: float
    previous: float


@dataclass(frozen=True)
class Reflected:
    """A step is done."""

    run_id: str
    step: int
    reflection: str
    overhead_seconds: float


@dataclass(frozen=True)
class Confirming:
    """A winner is being timed again in fresh processes."""

    run_id: str
    candidate_id: str


@dataclass(frozen=True)
class Confirmed:
    """The fresh-process verdict."""

    run_id: str
    candidate_id: str
    evaluation: Evaluation


@dataclass(frozen=True)
class Stopping:
    """The user asked to stop; the run ends after the candidate being judged. A second signal ends it at once."""

    run_id: str


@dataclass(frozen=True)
class RunFinished:
    """The run is over. ``message`` says in one line what it recommends and why."""

    run_id: str
    recommendation: str
    best: str | None
    reason: str
    message: str


Event = (
    Preparing
    | RunStarted
    | JudgeReady
    | StepStarted
    | CandidateProposed
    | ProposerFailed
    | FewerProposed
    | AnswerAwaited
    | Judging
    | CandidateJudged
    | BestChanged
    | Reflected
    | Confirming
    | Confirmed
    | Stopping
    | RunFinished
)

OnEvent = Callable[[Event], None]


def silent(_event: Event) -> None:
    """Listen to nothing."""
