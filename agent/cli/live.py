"""Progress of a run: one line for every verdict and, on a terminal, a line below that says what is going on right now."""

from __future__ import annotations

import time
from contextlib import ExitStack
from types import TracebackType
from typing import TYPE_CHECKING

from rich.markup import escape

from agent import events
from agent.cli.console import MANY, milestone
from agent.figures import count, interval, times
from agent.report.data import compiled

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    from evaluators.candidate import Candidate
    from evaluators.verdict import Evaluation


class Live:
    """Listens to a run. Call it with events, inside ``with``. ``run_id`` is known from the first event on, for messages after Ctrl-C."""

    def __init__(self, console: Console, quiet: bool = False) -> None:
        self.console = console
        self.quiet = quiet
        self.run_id: str | None = None
        self.best = 0.0
        self._stack = ExitStack()
        self._doing = "starting"
        self._judges = False
        self._began = time.monotonic()

    def __enter__(self) -> Live:
        if self.console.is_terminal and not self.quiet:
            self._stack.enter_context(self.console.status(self))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def say(self, line: str) -> None:
        """A line of rich markup that stays."""
        if not self.quiet:
            if self.console.is_terminal:
                self.console.print(line, no_wrap=True, overflow="ellipsis")
            else:
                self.console.print(line, soft_wrap=True)

    def doing(self, what: str) -> None:
        """What is going on now; shown on a terminal only."""
        self._doing = what

    def __rich__(self) -> Text:
        """The line below: drawn anew at every refresh, so that its clock runs."""
        from rich.text import Text

        seconds = int(time.monotonic() - self._began)
        best = f" · best {self.best:.2f}×" if self.best else ""
        tail = f"{best} · {seconds // 60}:{seconds % 60:02d}"
        room = max(20, self.console.width - len(tail) - 4)
        shown = self._doing if len(self._doing) <= room else self._doing[: room - 1] + "…"
        return Text.assemble(shown, (tail, "dim"))

    def __call__(self, event: events.Event) -> None:
        match event:
            case events.Preparing():
                self._prepare(event)
            case events.AnswerAwaited():
                limit = f" within {event.seconds:g} s" if event.seconds else ""
                wanted = "still waiting" if event.again else "a kernel is wanted"
                self.say(f"[bold]{wanted}[/]: read {escape(event.question)}, write {escape(event.answer)}{limit}")
                self.doing(f"waiting for {event.answer}")
                self._judges = False
            case events.FewerProposed():
                self.say(f"[dim]{escape(_fewer(event))}[/]")
            case events.RunStarted():
                self.run_id = event.run_id
                verb = "resuming" if event.resumed else "run"
                budget = f"at most {count(event.evaluations, 'evaluation')}"
                self.say(f"{verb} [bold]{event.run_id}[/]: {escape(event.spec)} on {event.target}, {budget}")
                self.doing("looking up what is known")
            case events.JudgeReady():
                times = ", ".join(f"{name} {ms:.4g} ms" for name, ms in event.baselines.items())
                self.say(
                    f"baselines: {times}"
                    if times
                    else "[yellow]the target is not here: candidates are checked and compiled, nothing is timed[/]"
                )
                if event.note:
                    self.say(f"[dim]{escape(event.note)}[/]")
            case events.StepStarted():
                self.say(
                    f"[dim]step {event.step} {event.phase}: {escape(event.why)} ({count(len(event.passages), 'passage')})[/]"
                )
                self.doing(f"step {event.step}, {event.phase}: proposing")
            case events.ProposerFailed():
                self.say(f"[red]proposer {event.proposer}: {escape(_first_line(event.message))}[/]")
            case events.Judging():
                self._starting(event)
            case events.CandidateJudged():
                self._judged(event.candidate, event.evaluation, event.number, event.budget)
            case events.BestChanged():
                self.best = event.fitness
            case events.Reflected():
                self.doing("reflecting")
            case events.Confirming():
                self.doing("timing the best kernel again in fresh processes")
                self._judges = True
            case events.Confirmed():
                self.say(f"confirmed in fresh processes: {_figures(event.evaluation)}    {event.candidate_id}")
            case events.Stopping():
                when = " after this candidate; Ctrl-C again stops at once" if self._judges else ""
                self.say(f"[yellow]stopping{when}[/]")
            case events.RunFinished():
                self.doing("writing the report")

    def _prepare(self, event: events.Preparing) -> None:
        """A plain log has no line that changes, so there slow work says how far it is at every quarter."""
        if event.total > MANY and event.done == 1:
            self.say(f"loading the knowledge base: {event.total} documents, only the first time")
        elif milestone(event.done, event.total) and not self.console.is_terminal:
            self.say(f"[dim]{event.done} of {event.total} documents[/]")
        elif not event.total and not self.console.is_terminal:
            self.say(f"[dim]{event.what}[/]")
        self.doing(f"{event.done} of {event.total}: {event.what}" if event.total else event.what)

    def _starting(self, event: events.Judging) -> None:
        self._judges = True
        candidate = event.candidate
        if event.first:
            times = ", PyTorch's times (eager and torch.compile)" if event.timed else ""
            self.say(
                f"[dim]starting the judge: expected results{times}, the first candidate; often the longest wait[/]"
            )
        self.doing(f"step {candidate.step}, {candidate.phase}: judging {_tries(candidate)}")

    def _judged(self, candidate: Candidate, evaluation: Evaluation, number: int, budget: int) -> None:
        self._judges = False
        right = evaluation.status in ("correct", "checked")
        gain = evaluation.fitness > max(self.best, 1.0)
        colour = ("bold green" if gain else "green") if right else "red"
        status = evaluation.status.replace("_", " ")
        best = max(self.best, evaluation.fitness)
        parts = [
            f"{number:>3}/{budget}",
            f"{candidate.language:<7}",
            f"[{colour}]{status:<14}[/]",
            f"{_figures(evaluation):<34}",
        ]
        parts.append(f"best {best:.2f}×" if best else " " * 10)
        parts.append(escape(_tries(candidate) if right else f"{_tries(candidate)}: {_first_line(evaluation.message)}"))
        self.say("  ".join(parts))


def _figures(evaluation: Evaluation) -> str:
    t = evaluation.timing
    if t is None:
        return compiled(evaluation)[:60] if evaluation.status == "checked" else ""
    return f"{t.candidate_ms:>9.4g} ms {times(t.ratio):>7} ({interval(t.low, t.high, '–')})"


def _fewer(event: events.FewerProposed) -> str:
    """Why a step has fewer candidates than were asked for."""
    made = f"{event.made} of {event.asked}" if event.made else "nothing new"
    phase = "first drafts" if event.step == 0 else event.phase
    why = []
    if event.repeats:
        same = "the text of a kernel this run already has, so nothing to judge"
        why.append(f"{event.repeats} had {same}")
    if event.proposer == "builtin" and event.made + event.repeats < event.asked:
        why.append("no other retrieved schedule fits" if event.phase == "draft" else "no other move or knob is left")
    return f"{event.proposer}: {made} for {phase}{': ' * bool(why)}{'; '.join(why)}"


def _tries(candidate: Candidate) -> str:
    return candidate.note or candidate.exemplar or f"a {candidate.proposer} candidate"


def _first_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[0][:160] if lines else "no message"
