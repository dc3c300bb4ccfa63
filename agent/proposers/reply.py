"""From a reply, of a language model or a person, to the candidate it proposes."""

from __future__ import annotations

from agent.proposers.base import Context
from agent.proposers.extract import extract
from evaluators.candidate import Candidate


def candidate_of(
    text: str,
    context: Context,
    candidate_id: str,
    proposer: str,
    author: str,
    prompt_ref: str | None = None,
    reply_ref: str | None = None,
) -> Candidate:
    """The module in ``text`` as a candidate of the step. One without usable code still becomes a candidate, which the judge refuses.

    The note is what is wrong with the reply, else its own idea, else the phase and ``author`` ("by hand").
    """
    found = extract(text, context.languages)
    given = context.options.get("chunk_ids")
    return Candidate(
        id=candidate_id,
        language=found.language,
        source=found.source,
        proposer=proposer,
        parents=tuple(p.candidate.id for p in context.parents),
        step=context.step,
        phase=context.phase,
        chunk_ids=given if isinstance(given, tuple) else tuple(p.chunk_id for p in context.passages),
        prompt_ref=prompt_ref,
        reply_ref=reply_ref,
        note=found.problem or found.idea or f"{context.phase} {author}",
    )
