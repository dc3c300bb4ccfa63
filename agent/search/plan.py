"""The plan of the next step, from what was just judged: draft, debug, improve or crossover, on which candidates, by whom."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import takewhile
from random import Random

from agent.proposers.base import Judged
from agent.search.fitness import diagnosis_of, is_broken, is_correct
from agent.search.ids import seed_of
from agent.search.memory import MEMORIES, partner
from agent.search.policies import POLICIES
from agent.search.view import SearchGraph
from agent.settings import RunSettings
from knowledge.runs.records import Share, Step

EXHAUSTED = "no proposer has anything new to try"

Choice = tuple[str, tuple[str, ...], tuple[str, ...], str]
"""(phase, parents, siblings, why)."""


def plan(
    graph: SearchGraph, settings: RunSettings, run_id: str, step: int, independent: Collection[str] = ()
) -> Step | None:
    """The next step, or None where nobody has anything left to try (:data:`EXHAUSTED`).

    ``independent`` names the proposers whose draws do not need to know of each other: each of their drafts is a branch of its own.
    """
    remaining = settings.evaluations - len(graph.nodes)
    turn = step % len(settings.proposers)
    order = [p for p in (*settings.proposers[turn:], *settings.proposers[:turn]) if not graph.failed(p)]
    for proposer in order:
        choice = choose(graph, settings, step, proposer)
        if choice is None:
            continue
        phase, parents, siblings, why = choice
        if phase == "draft":
            given = int(
                step == 0 and settings.start_from is not None
            )  # draw 0 of step 0 is then the kernel to start from
            count = min(settings.drafts if step == 0 else settings.draws, remaining - given)
            shares = deal(order if step == 0 else [proposer], count, independent, first=given)
        else:
            shares = (Share(proposer, tuple(range(min(settings.draws, remaining)))),)
        diagnosis = diagnosis_of(graph.nodes[parents[0]].evaluation) if parents else "unknown"
        return Step(run_id, step, phase, parents, siblings, diagnosis, shares, why)
    return None


def choose(graph: SearchGraph, settings: RunSettings, step: int, proposer: str) -> Choice | None:
    """What this proposer should do next; None where everything it could do is spent."""
    fresh = ("draft", (), proposer) not in graph.spent
    if step == 0:
        return "draft", (), (), "first drafts"
    if settings.memory == "clean":
        return ("draft", (), (), "every candidate is an independent draft") if fresh else None
    broken = repairable(graph, settings, step, proposer)
    if broken is not None:
        return "debug", (broken.candidate.id,), (), f"{broken.evaluation.status} in {broken.candidate.id}"

    options = [improve(graph, settings, step, proposer)]
    late = graph.stale() - settings.patience
    if late >= 0:
        # A search that stalls leaves its hill: crossover, then its best again, then a fresh draft, and so on.
        others = [
            cross(graph, proposer),
            options[0],
            ("draft", (), (), "the search stalls: something else") if fresh else None,
            options[0],
        ]
        options = [*others[late % 4 :], *others[: late % 4]]
    elif fresh:
        options.append(("draft", (), (), "nothing left to improve"))
    return next((o for o in options if o is not None), None)


def repairable(graph: SearchGraph, settings: RunSettings, step: int, proposer: str) -> Judged | None:
    """A broken candidate worth a repair: the last step brought nothing correct, and not too many repairs came before it."""
    last = graph.of_step(step - 1)
    tried = len(list(takewhile(lambda s: s.phase == "debug", reversed(graph.steps))))
    if tried >= settings.debug_tries or any(is_correct(n.evaluation) for n in last):
        return None
    for node in last:
        if is_broken(node.evaluation) and ("debug", (node.candidate.id,), proposer) not in graph.spent:
            return node
    return None


def improve(graph: SearchGraph, settings: RunSettings, step: int, proposer: str) -> Choice | None:
    """Expand the candidate that π picks among those this proposer is not done with."""
    see = MEMORIES[settings.memory]
    open_nodes = [n for n in graph.ranked() if ("improve", see(graph, n)[0], proposer) not in graph.spent]
    if not open_nodes:
        return None
    random = Random(seed_of(settings.seed, step, 0))
    chosen = POLICIES[settings.policy](graph, open_nodes, settings.beam, random)
    parents, siblings = see(graph, chosen)
    return "improve", parents, siblings, f"{settings.policy} picks {chosen.candidate.id}"


def cross(graph: SearchGraph, proposer: str) -> Choice | None:
    """Combine the best candidate with the best one of another line."""
    best = graph.best()
    other = partner(graph, best) if best else None
    if best is None or other is None:
        return None
    parents = (best.candidate.id, other.candidate.id)
    if ("crossover", parents, proposer) in graph.spent:
        return None
    return "crossover", parents, (), f"the search stalls: {parents[0]} with parts of {parents[1]}"


def deal(proposers: Sequence[str], count: int, independent: Collection[str], first: int = 0) -> tuple[Share, ...]:
    """Draw numbers ``first`` to ``first + count - 1`` dealt round to the proposers; an independent proposer gets a share per draw."""
    shares: list[Share] = []
    for position, name in enumerate(proposers):
        draws = tuple(range(first + position, first + count, len(proposers)))
        if name in independent:
            shares += [Share(name, (d,)) for d in draws]
        elif draws:
            shares.append(Share(name, draws))
    return tuple(shares)
