"""Candidates from a person or another program: the prompt is written to a file, the answer awaited in another (ask and tell)."""

from __future__ import annotations

import threading
import time
from pathlib import Path

from agent.errors import ProposerError, RunInterrupted
from agent.events import AnswerAwaited
from agent.prompts.synthesize import render
from agent.proposers.base import Context
from agent.proposers.reply import candidate_of
from agent.settings import RunSettings
from evaluators.candidate import Candidate

REMIND = 600.0
"""Seconds after which an ask that is still open is told again."""
POLL = 0.5
"""Seconds between two looks. An answer counts once it is the same in two, so that a file being written is not read half."""


class ManualProposer:
    """Implements ``agent.proposers.base.Proposer``: ``ask/ID.md`` in the run's folder holds the prompt, ``tell/ID.py`` takes the kernel.

    The answer may be the bare module, or a chat reply with the module in a fence. Files stay, so a resumed run reads them again.
    """

    name = "manual"
    reads_prompt = True
    independent = False

    def __init__(self, settings: RunSettings) -> None:
        self.seconds = settings.answer_seconds

    def propose(self, context: Context, n: int) -> list[Candidate]:
        """The answers to all ``n`` asks, or those there are when the time is up.

        Raises :class:`agent.errors.ProposerError` where there is none, and :class:`agent.errors.RunInterrupted` on Ctrl-C.
        """
        folder = context.options.get("folder")
        if not isinstance(folder, Path) or not context.prompt:
            raise ProposerError("the manual proposer needs a prompt and option folder (the run's folder)")
        tells = {i: folder / "tell" / f"{i}.py" for i in context.ids[:n]}
        for candidate_id, tell in tells.items():
            self._ask(context, candidate_id, folder / "ask" / f"{candidate_id}.md", tell, several=len(tells) > 1)
        answers = self._await(context, tells)
        if not answers:
            raise ProposerError(
                f"no answer within {self.seconds:g} s: write a kernel to {next(iter(tells.values()))}, or raise answer_seconds"
            )
        return [candidate_of(answers[i], context, i, self.name, "by hand") for i in tells if i in answers]

    def _ask(self, context: Context, candidate_id: str, ask: Path, tell: Path, *, several: bool) -> None:
        how = (
            f"<!-- Write the answer to {tell}: the module itself, or a reply with the module in a fenced block. "
            f"The run waits for it; Ctrl-C stops the run, and resuming it asks again. -->"
        )
        for path in (ask, tell):
            path.parent.mkdir(parents=True, exist_ok=True)
        # Answers to one and the same question tend to be one and the same kernel.
        number = int(candidate_id.rpartition(".")[2]) + 1
        parts = [how, context.prompt, *([render("draw", number=number)] if several else [])]
        ask.write_text("\n\n".join(parts) + "\n", encoding="utf-8")
        if not tell.exists():
            self._tell(context, candidate_id, tell)

    def _tell(self, context: Context, candidate_id: str, tell: Path, *, again: bool = False) -> None:
        on_event = context.options.get("on_event")
        if callable(on_event):
            ask = tell.parent.parent / "ask" / f"{candidate_id}.md"
            run_id = str(context.options.get("run_id", ""))
            on_event(AnswerAwaited(run_id, candidate_id, str(ask), str(tell), self.seconds, again))

    def _await(self, context: Context, tells: dict[str, Path]) -> dict[str, str]:
        stop = context.options.get("stop")
        flag = stop if isinstance(stop, threading.Event) else threading.Event()
        end = None if self.seconds is None else time.monotonic() + self.seconds
        remind = time.monotonic() + REMIND
        before: dict[str, str] = {}
        answers: dict[str, str] = {}
        while True:
            for candidate_id, tell in tells.items():
                text = _text(tell)
                if text.strip() and before.get(candidate_id) == text:
                    answers.setdefault(candidate_id, text)
                before[candidate_id] = text
            if len(answers) == len(tells) or (end is not None and time.monotonic() >= end):
                return answers
            if time.monotonic() >= remind:
                remind = time.monotonic() + REMIND
                for candidate_id in [i for i in tells if i not in answers]:
                    self._tell(context, candidate_id, tells[candidate_id], again=True)
            if flag.wait(POLL):
                raise RunInterrupted(str(context.options.get("run_id", "")))


def _text(path: Path) -> str:
    """The file's text; empty while it is not there."""
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return ""
