"""Let one proposer fill one share of a step's draws, without repeating a kernel the run already has."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from agent.proposers.base import Context, Judged, Proposer
from evaluators.candidate import Candidate
from evaluators.verdict import Evaluation

ROUNDS = 8
"""Times a proposer is asked again for draws that came back as repeats. One that reads prompts is asked once: asking costs."""


@dataclass
class Filled:
    """What came back: new candidates, and how many others had the source of one the run already has."""

    fresh: list[Candidate] = field(default_factory=list)
    repeats: int = 0


def fill(proposer: Proposer, context: Context, aliases: list[Judged]) -> Filled:
    """New candidates for ``context.ids``.

    Two plans may come to the same source (a knob that changes nothing here). Such a candidate joins ``aliases`` with the verdict of the
    kernel it repeats, and the proposer, shown both as seen, is asked again.
    """
    verdicts = {n.candidate.source: n.evaluation for n in context.seen}
    out = Filled()
    ids = context.ids
    for _ in range(1 if reads_prompt(proposer) else ROUNDS):
        waiting = [Judged(c, _waiting(c, context)) for c in out.fresh]
        made = proposer.propose(replace(context, ids=ids, seen=(*context.seen, *aliases, *waiting)), len(ids))
        before = out.repeats
        for candidate in made:
            if candidate.source in verdicts:
                out.repeats += 1
                aliases.append(Judged(candidate, replace(verdicts[candidate.source], candidate_id=candidate.id)))
            else:
                verdicts[candidate.source] = _waiting(candidate, context)
                out.fresh.append(_filed(candidate, context))
        taken = {c.id for c in out.fresh}
        ids = tuple(i for i in context.ids if i not in taken)
        if not ids or out.repeats == before:
            break
    return out


def reads_prompt(proposer: Proposer) -> bool:
    """Whether a proposer works from the synthesized prompt: its ``reads_prompt``, where it has one; all but the built-in one do."""
    return bool(getattr(proposer, "reads_prompt", proposer.name != "builtin"))


def _waiting(candidate: Candidate, context: Context) -> Evaluation:
    return Evaluation(candidate.id, context.target.name, "infrastructure", 0.0, message="not judged yet")


def _filed(candidate: Candidate, context: Context) -> Candidate:
    """The candidate as recorded. Phase and parents are its proposer's word: what was asked as an improvement may come back a draft."""
    visible = {j.candidate.id for j in (*context.parents, *context.siblings, *context.seen)}
    return replace(candidate, step=context.step, parents=tuple(p for p in candidate.parents if p in visible))
