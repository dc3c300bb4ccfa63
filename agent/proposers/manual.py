"""Candidates from a person or another program: the prompt is written to a file, the answer awaited in another (ask and tell)."""

from __future__ import annotations

import threading
import time
from pathlib import Path

from agent.errors import ProposerError, RunInterrupted
from agent.events import AnswerAwaited
from agent.proposers.base import Context
from agent.proposers.reply import candidate_of
from agent.settings import RunSettings
from evaluators.candidate import Candidate

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
            self._ask(context, candidate_id, folder / "ask" / f"{candidate_id}.md", tell)
        answers = self._await(context, tells)
        if not answers:
            raise ProposerError(
                f"no answer within {self.seconds:g} s: write a kernel to {next(iter(tells.values()))}, or raise answer_seconds"
            )
        return [candidate_of(answers[i], context, i, self.name, "by hand") for i in tells if i in answers]

    def _ask(self, context: Context, candidate_id: str, ask: Path, tell: Path) -> None:
        how = (
            f"<!-- Write the answer to {tell}: the module itself, or a reply with the module in a fenced block. "
            f"The run waits for it; Ctrl-C stops the run, and resuming it asks again. -->"
        )
        for path in (ask, tell):
            path.parent.mkdir(parents=True, exist_ok=True)
        ask.write_text(f"{how}\n\n{context.prompt}\n", encoding="utf-8")
        on_event = context.options.get("on_event")
        if callable(on_event) and not tell.exists():
            on_event(
                AnswerAwaited(str(context.options.get("run_id", "")), candidate_id, str(ask), str(tell), self.seconds)
            )

    def _await(self, context: Context, tells: dict[str, Path]) -> dict[str, str]:
        stop = context.options.get("stop")
        flag = stop if isinstance(stop, threading.Event) else threading.Event()
        end = None if self.seconds is None else time.monotonic() + self.seconds
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
            if flag.wait(POLL):
                raise RunInterrupted(str(context.options.get("run_id", "")))


def _text(path: Path) -> str:
    """The file's text; empty while it is not there."""
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return ""
