"""What each node of the state machine does. Idempotent: whatever the run store already has is not done again."""

from __future__ import annotations

import os
import time
from dataclasses import asdict, replace

from agent.errors import NothingToPropose, is_named, told
from agent.events import (
    BestChanged,
    CandidateJudged,
    CandidateProposed,
    FewerProposed,
    ProposerFailed,
    Reflected,
    StepStarted,
)
from agent.proposers.base import Context
from agent.proposing import Filled, fill, reads_prompt
from agent.runtime import Clock, Runtime
from agent.search import reflection
from agent.search.fitness import fitness, is_correct
from agent.search.ids import candidate_id, seed_of
from agent.search.plan import EXHAUSTED, plan
from agent.search.termination import ended
from agent.search.verdict import conclude
from agent.state import RunState, ShareState
from evaluators.candidate import Candidate
from knowledge.runs.records import Proposal, Share, Step
from retrieval.passage import Passage, Query
from retrieval.query import build_query


def retrieve(runtime: Runtime, number: int) -> RunState:
    """Ask the knowledge base what is known of this operator, on this target, in this situation."""
    runtime.check_stop()
    step = _step(runtime, number)
    done = runtime.store.retrieval(runtime.run.id, number)
    if done is None:
        begin = time.perf_counter()
        query = _query(runtime, step)
        passages = runtime.retriever.retrieve(query, runtime.settings.passages) if runtime.settings.passages else []
        seconds = time.perf_counter() - begin
        done = runtime.store.add_retrieval(
            runtime.run.id, number, asdict(query), [asdict(p) for p in passages], seconds
        )
    chunks = [str(p["chunk_id"]) for p in done.passages]
    runtime.on_event(
        StepStarted(runtime.run.id, number, step.phase, step.parents, step.diagnosis, step.why, tuple(chunks))
    )
    return {"passages": chunks, "phase": step.phase, "parents": list(step.parents), "diagnosis": step.diagnosis}


def synthesize_prompt(runtime: Runtime, number: int) -> RunState:
    """Render one prompt from what was retrieved and judged, where a proposer of this step reads prompts."""
    runtime.check_stop()
    step = _step(runtime, number)
    readers = [s for s in step.shares if reads_prompt(runtime.proposers[s.proposer])]
    if runtime.synthesize is None or not readers or step.prompt_ref:
        return {"prompt_ref": step.prompt_ref or ""}
    prompt = runtime.synthesize(context_of(runtime, step, readers[0]), runtime.settings.prompt_tokens)
    facts = {"tokens": prompt.tokens, "chunk_ids": list(prompt.chunk_ids), "cut": [str(c) for c in prompt.cut]}
    return {"prompt_ref": runtime.store.set_prompt(runtime.run.id, number, prompt.text, facts)}


def shares(runtime: Runtime, state: RunState) -> list[ShareState]:
    """The branches of the fan-out: one per share of the step's draws."""
    return [_branch(runtime, state["step"], share) for share in _step(runtime, state["step"]).shares]


def generate(runtime: Runtime, state: ShareState) -> None:
    """Let one proposer fill one share. A failure is recorded, not raised, so that other branches keep what they made.

    A share left out because the user stops is filled by :func:`evaluate`, should the state machine have moved on.
    """
    if runtime.stop.is_set():
        return
    step = _step(runtime, state["step"])
    share = Share(state["proposer"], tuple(state["draws"]))
    if any(p.draw == share.draws[0] for p in runtime.store.proposals(runtime.run.id, step.step)):
        return
    begin = time.perf_counter()
    error, final = "", False
    filled = Filled()
    try:
        filled = fill(runtime.proposers[share.proposer], context_of(runtime, step, share), runtime.aliases)
    except Exception as failure:  # a proposer's bug costs its share, never the run
        if os.environ.get("KERNELEVOLVE_DEBUG") and not is_named(failure):
            raise
        error, final = told(failure), isinstance(failure, NothingToPropose)
        runtime.on_event(ProposerFailed(runtime.run.id, step.step, share.proposer, error))
    end = time.perf_counter()
    runtime.clock.proposed(begin, end)
    proposal = Proposal(
        runtime.run.id, step.step, share.draws[0], share.proposer, len(share.draws), len(filled.fresh), filled.repeats,
        error, end - begin, final,
    )  # fmt: skip
    if runtime.store.add_proposal(proposal, filled.fresh):
        for candidate in filled.fresh:
            runtime.on_event(CandidateProposed(runtime.run.id, candidate))
        if not error and len(filled.fresh) < len(share.draws):
            counts = (len(share.draws), len(filled.fresh), filled.repeats)
            runtime.on_event(FewerProposed(runtime.run.id, step.step, step.phase, share.proposer, *counts))


def evaluate(runtime: Runtime, number: int) -> RunState:
    """Judge the step's candidates that have no verdict yet, one at a time, recording each verdict at once."""
    runtime.check_stop()
    settings = runtime.settings
    recorded = {p.draw for p in runtime.store.proposals(runtime.run.id, number)}
    for share in _step(runtime, number).shares:
        if share.draws[0] not in recorded:
            generate(runtime, _branch(runtime, number, share))
    runtime.check_stop()
    ids = runtime.store.candidate_ids(runtime.run.id, number)
    for i in ids:
        runtime.graph.refresh()
        over = settings.seconds is not None and _spent(runtime) + runtime.clock.seconds >= settings.seconds
        if i in runtime.graph.nodes or len(runtime.graph.nodes) >= settings.evaluations or over:
            continue
        runtime.check_stop()
        candidate = runtime.store.candidate(i)
        if any(n.candidate.source == candidate.source for n in runtime.graph.judged):
            continue  # two branches of one fan-out wrote the same kernel
        verdict = runtime.evaluate(candidate)
        if not is_correct(verdict):
            runtime.check_stop()  # Ctrl-C reaches the judge's workers too: such a verdict says nothing of the candidate
        before = runtime.graph.best()
        verdict = runtime.store.add_evaluation(runtime.run.id, replace(verdict, candidate_id=i))
        runtime.graph.refresh()
        count = len(runtime.graph.nodes)
        runtime.on_event(CandidateJudged(runtime.run.id, candidate, verdict, count, settings.evaluations))
        best = runtime.graph.best()
        if best is not None and best.candidate.id == i:
            previous = fitness(before.evaluation) if before else 0.0
            runtime.on_event(BestChanged(runtime.run.id, i, fitness(verdict), previous))
    runtime.graph.refresh()
    return {"candidates": ids, "evaluations": len(runtime.graph.nodes)}


def reflect(runtime: Runtime, number: int) -> RunState:
    """State what the step established, and decide the next one, or that the search is over."""
    runtime.check_stop()
    store, run, graph = runtime.store, runtime.run, runtime.graph
    graph.refresh()
    step = _step(runtime, number)
    following = store.get_step(run.id, number + 1)
    if step.reflection is None:
        text = reflection.reflect(graph, step, store.proposals(run.id, number))
        clock, runtime.clock = runtime.clock, Clock()
        store.set_reflection(
            run.id, number, text, seconds=clock.seconds, propose_seconds=clock.proposing, judge_seconds=clock.judging
        )
        step = _step(runtime, number)
        runtime.on_event(Reflected(run.id, number, text, step.overhead_seconds or 0.0))
    reason = ""
    graph.learn()
    if following is None:
        costs = store.costs(run.id)
        tokens = sum(c.prompt_tokens + c.completion_tokens for c in costs)
        dollars = sum(c.dollars or 0.0 for c in costs)
        reason = ended(graph, runtime.settings, _spent(runtime), tokens, dollars, confirm=runtime.confirm)
        if not reason:
            wanted = plan(graph, runtime.settings, run.id, number + 1, runtime.independent)
            following = store.add_step(wanted) if wanted else None
            reason = "" if following else EXHAUSTED
    best = graph.best()
    return {
        "step": number if following is None else number + 1,
        "reflection": step.reflection or "",
        "diagnosis": following.diagnosis if following else step.diagnosis,
        "best": best.candidate.id if best else "",
        "best_fitness": fitness(best.evaluation) if best else 0.0,
        "ended": reason,
    }


def terminate(runtime: Runtime, reason: str) -> RunState:
    """Confirm the winner in fresh processes and record what the run recommends."""
    runtime.check_stop()
    recommendation, best = conclude(runtime, reason)
    runtime.close()
    return {"ended": reason, "recommendation": recommendation, "best": best or ""}


def first_step(runtime: Runtime) -> None:
    """Record step 0: its plan and, where the run starts from a given kernel, that kernel as draw 0."""
    settings, run = runtime.settings, runtime.run
    step = plan(runtime.graph, settings, run.id, 0, runtime.independent)
    assert step is not None
    past = runtime.store.warm_start(run.operators, run.patterns, run.target.name, settings.warm_start)
    if past:
        step = replace(step, siblings=tuple(p.candidate_id for p in past), why="first drafts, shown earlier winners")
    runtime.store.add_step(step)
    if settings.start_from is not None:
        given = Candidate(
            id=candidate_id(run.id, 0, 0),
            language=settings.start_language or "",
            source=settings.start_from,
            proposer="given",
            phase="given",
            note="the kernel to start from",
        )
        runtime.store.add_candidate(run.id, given)


def context_of(runtime: Runtime, step: Step, share: Share) -> Context:
    """What a proposer may use for one share."""
    run, store = runtime.run, runtime.store
    retrieval = store.retrieval(run.id, step.step)
    assert retrieval is not None
    return Context(
        spec=run.spec,
        target=run.target,
        languages=runtime.languages,
        phase=step.phase,
        step=step.step,
        ids=tuple(candidate_id(run.id, step.step, d) for d in share.draws),
        seed=seed_of(runtime.settings.seed, step.step, share.draws[0]),
        passages=tuple(Passage(**p) for p in store.objects.get_json(retrieval.passages_ref)),
        parents=tuple(runtime.judged(i) for i in step.parents),
        siblings=tuple(runtime.judged(i) for i in step.siblings),
        seen=tuple(runtime.graph.judged),
        prompt=store.objects.get_text(step.prompt_ref) if step.prompt_ref else "",
        options={
            "store": store,
            "run_id": run.id,
            "folder": runtime.folder,
            "stop": runtime.stop,
            "on_event": runtime.on_event,
            "chunk_ids": tuple((step.prompt or {}).get("chunk_ids", ())) if step.prompt_ref else None,
            "reflections": tuple(s.reflection for s in runtime.graph.steps if s.reflection),
        },
    )


def _query(runtime: Runtime, step: Step) -> Query:
    broken = runtime.judged(step.parents[0]).evaluation if step.phase == "debug" else None
    run = runtime.run
    return build_query(
        run.spec,
        run.target,
        runtime.languages,
        phase=step.phase,
        diagnosis=step.diagnosis,
        operators=run.operators,
        patterns=run.patterns,
        message=broken.message if broken else "",
    )


def _branch(runtime: Runtime, number: int, share: Share) -> ShareState:
    return {"run_id": runtime.run.id, "step": number, "proposer": share.proposer, "draws": list(share.draws)}


def _step(runtime: Runtime, number: int) -> Step:
    step = runtime.store.get_step(runtime.run.id, number)
    assert step is not None, f"step {number} of {runtime.run.id} was never planned"
    return step


def _spent(runtime: Runtime) -> float:
    return sum(s.seconds or 0.0 for s in runtime.store.steps(runtime.run.id))
