"""Candidates written by a language model behind any OpenAI-compatible endpoint."""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import replace

from agent.errors import ProposerError, RunInterrupted
from agent.prompts.synthesize import render
from agent.proposers.base import Context
from agent.proposers.endpoint import Answer, ask, configured, only_model, prices
from agent.proposers.reply import candidate_of
from agent.settings import RunSettings
from evaluators.candidate import Candidate
from knowledge.runs.records import Cost, Reply
from knowledge.runs.store import RunStore

log = logging.getLogger(__name__)

ASKS = 2
"""Asks for one candidate: the second, after a reply that ran into the length limit, wants it shorter."""


class LLMProposer:
    """Implements ``agent.proposers.base.Proposer``: one call per candidate, each recorded with its cost before its reply is read.

    A draw whose reply is already recorded is not asked for again. A reply without usable code still becomes a candidate, which the judge
    refuses with its reason: that is what the next prompt learns from.
    """

    name = "llm"
    reads_prompt = True
    independent = True
    """Draws do not know of each other, so they may be asked for at the same time."""

    def __init__(self, settings: RunSettings) -> None:
        """Raises :class:`agent.errors.EndpointMissing` or :class:`agent.errors.SettingsError`; contacts nobody."""
        self.endpoint = configured(settings)
        self.prices = prices(settings)
        self.settings = settings
        self._lock = threading.Lock()

    def propose(self, context: Context, n: int) -> list[Candidate]:
        """At most ``n`` candidates: a failure ends the share early, and where there is none yet, is raised as
        :class:`agent.errors.ProposerError`."""
        if not context.prompt:
            raise ProposerError(
                "the llm proposer was given no prompt: let the run synthesize one (agent.assemble.synthesizer)"
            )
        made: list[Candidate] = []
        for candidate_id in context.ids[:n]:
            try:
                made.append(self._candidate(context, candidate_id))
            except ProposerError as error:
                if not made:
                    raise
                log.warning("%s: %s", candidate_id, error)
                break
        return made

    def _candidate(self, context: Context, candidate_id: str) -> Candidate:
        store, run_id = _journal(context)
        draw = int(candidate_id.rpartition(".")[2])
        recorded = {r.attempt: r for r in store.replies(run_id, context.step) if r.draw == draw}
        for attempt in range(ASKS):
            reply = recorded.get(attempt) or self._ask(context, store, run_id, draw, attempt)
            if reply.finish_reason == "stop":
                text = store.objects.get_text(reply.reply_ref)
                return candidate_of(
                    text, context, candidate_id, self.name, f"by {reply.model}", reply.prompt_ref, reply.reply_ref
                )
            if reply.finish_reason != "length":
                raise ProposerError(
                    f"{reply.model} did not finish its reply (finish_reason {reply.finish_reason or 'missing'!r}): "
                    "only one that ends with 'stop' is used"
                )
        raise ProposerError(
            f"{reply.model} ran into the limit of {self.settings.reply_tokens} tokens {ASKS} times: "
            "raise reply_tokens, or use a model that thinks less"
        )

    def _ask(self, context: Context, store: RunStore, run_id: str, draw: int, attempt: int) -> Reply:
        """Ask once and put reply and cost on record."""
        parts = [context.prompt]
        if draw or context.phase == "draft":
            parts.append(render("draw", number=draw + 1))
        if attempt:
            parts.append(render("shorter", tokens=self.settings.reply_tokens))
        prompt = "\n\n".join(parts)
        answer = self._answer(context, run_id, prompt)
        reply = Reply(
            run_id=run_id,
            step=context.step,
            draw=draw,
            attempt=attempt,
            model=answer.model,
            finish_reason=answer.finish_reason,
            counted=answer.counted,
            prompt_ref=store.objects.put_text(prompt),
            reply_ref=store.objects.put_text(answer.text),
        )
        store.add_reply(reply, self._cost(context, run_id, answer))
        return reply

    def _answer(self, context: Context, run_id: str, prompt: str) -> Answer:
        with self._lock:
            if self.endpoint.model is None:
                self.endpoint = replace(self.endpoint, model=only_model(self.endpoint))
        stop = context.options.get("stop")

        def wait(seconds: float) -> None:
            if isinstance(stop, threading.Event):
                if stop.wait(seconds):
                    raise RunInterrupted(run_id)
            else:
                time.sleep(seconds)

        return ask(self.endpoint, prompt, self.settings.reply_tokens, self.settings.request_seconds, wait)

    def _cost(self, context: Context, run_id: str, answer: Answer) -> Cost:
        """Unknown prices, or tokens that were only estimated, make unknown dollars; never 0."""
        dollars = None
        if self.prices is not None and answer.counted == "server":
            dollars = (answer.prompt_tokens * self.prices[0] + answer.completion_tokens * self.prices[1]) / 1e6
        return Cost(
            run_id=run_id,
            step=context.step,
            proposer=self.name,
            model=answer.model,
            prompt_tokens=answer.prompt_tokens,
            completion_tokens=answer.completion_tokens,
            dollars=dollars,
            seconds=answer.seconds,
        )


def _journal(context: Context) -> tuple[RunStore, str]:
    store, run_id = context.options.get("store"), context.options.get("run_id")
    if not isinstance(store, RunStore) or not isinstance(run_id, str):
        raise ProposerError(
            "the llm proposer records every reply before it reads it: give options store (a RunStore) and run_id"
        )
    return store, run_id
