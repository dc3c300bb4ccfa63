"""RunStore: the authority on what happened. Every write is one transaction, and a record once made is never replaced.

Safe with several threads and processes on one database. Light to import: nothing here loads torch or a model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any, Literal

from sqlalchemy import ColumnElement, Connection, Table, case, desc, func, insert, select, update

from evaluators.candidate import Candidate
from evaluators.spec.kernel_spec import KernelSpec
from evaluators.target import Target
from evaluators.verdict import Evaluation
from knowledge.errors import CandidateNotFoundError, RunNotFound
from knowledge.runs import home, lineage, schema
from knowledge.runs.database import connect, insert_new, writing
from knowledge.runs.objects import ObjectStore
from knowledge.runs.records import (
    Ancestor,
    Cost,
    PastKernel,
    Proposal,
    Retrieval,
    Run,
    RunSummary,
    Step,
    candidate_from,
    now,
    run_from,
    step_from,
    target_to_dict,
)

Kind = Literal["search", "confirm"]
"""An evaluation made while searching, or the fresh-process re-run of a winner."""


class RunStore:
    """The run store. ``url`` is a SQLAlchemy URL and ``objects`` an fsspec URL; both default to places under ``$KERNELEVOLVE_HOME``."""

    def __init__(self, url: str | None = None, objects: str | None = None) -> None:
        self.url = url or home.store_url()
        self.engine = connect(self.url)
        self.objects = ObjectStore(objects or home.objects_url())

    def close(self) -> None:
        """Close pooled connections."""
        self.engine.dispose()

    # runs

    def create_run(
        self,
        run_id: str,
        spec: KernelSpec,
        target: Target,
        settings: Mapping[str, Any],
        operators: Sequence[str] = (),
        patterns: Sequence[str] = (),
    ) -> Run:
        """Record a new run (or return the one of that id)."""
        row = {
            "id": run_id,
            "spec_name": spec.name,
            "spec_digest": spec.digest,
            "spec": spec.to_json(),
            "target_name": target.name,
            "target": target_to_dict(target),
            "settings": dict(settings),
            "operators": list(operators),
            "patterns": list(patterns),
            "status": "running",
            "reason": "",
            "created": now(),
        }
        with writing(self.engine) as connection:
            insert_new(connection, schema.runs, row)
        return self.get_run(run_id)

    def get_run(self, run_id: str) -> Run:
        """The run of that id, or of that unambiguous beginning of an id. Raises :class:`RunNotFound`."""
        ids = schema.runs.c.id
        with self.engine.connect() as connection:
            row = connection.execute(select(schema.runs).where(ids == run_id)).mappings().first()
            if row is None:
                query = select(schema.runs).where(ids.startswith(run_id, autoescape=True)).limit(5)
                rows = connection.execute(query).mappings().all() if run_id else []
                if len(rows) != 1:
                    raise RunNotFound(run_id, tuple(r["id"] for r in rows))
                row = rows[0]
        return run_from(row)

    def list_runs(self, limit: int | None = None, target: str | None = None) -> list[RunSummary]:
        """Summaries, newest first."""
        return lineage.summaries(self.engine, limit, target)

    def set_status(self, run_id: str, status: str, reason: str | None = None) -> None:
        """Mark a run as running, interrupted or failed; a finished run stays finished."""
        values = {"status": status} if reason is None else {"status": status, "reason": reason}
        runs = schema.runs
        with writing(self.engine) as connection:
            connection.execute(update(runs).where(runs.c.id == run_id, runs.c.status != "finished").values(**values))

    def finish_run(
        self, run_id: str, reason: str, recommendation: Literal["kernel", "baseline"], best: str | None
    ) -> None:
        """Record how a run ended. The first call decides."""
        runs = schema.runs
        values = {
            "status": "finished",
            "reason": reason,
            "recommendation": recommendation,
            "best": best,
            "finished": now(),
        }
        with writing(self.engine) as connection:
            connection.execute(update(runs).where(runs.c.id == run_id, runs.c.status != "finished").values(**values))

    # steps

    def add_step(self, step: Step) -> Step:
        """Record a step's plan and return it; where the step is already planned, return that plan."""
        row = {k: v for k, v in asdict(step).items() if v is not None}
        with writing(self.engine) as connection:
            insert_new(connection, schema.steps, row)
        found = self.get_step(step.run_id, step.step)
        assert found is not None
        return found

    def get_step(self, run_id: str, step: int) -> Step | None:
        """One step, or None where it is not planned yet."""
        table = schema.steps
        with self.engine.connect() as connection:
            row = (
                connection.execute(select(table).where(table.c.run_id == run_id, table.c.step == step))
                .mappings()
                .first()
            )
        return step_from(row) if row else None

    def steps(self, run_id: str) -> list[Step]:
        """All steps of a run, in order."""
        with self.engine.connect() as connection:
            return [step_from(row) for row in _of_run(connection, schema.steps, run_id, schema.steps.c.step)]

    def set_prompt(self, run_id: str, step: int, prompt: str, facts: Mapping[str, Any]) -> str:
        """Record the step's synthesized prompt and what is known of it (tokens, chunk ids, what was cut); returns its reference."""
        ref = self.objects.put_text(prompt)
        self._update_step(run_id, step, {"prompt_ref": ref, "prompt": dict(facts)})
        return ref

    def set_reflection(
        self, run_id: str, step: int, reflection: str, seconds: float, propose_seconds: float, judge_seconds: float
    ) -> None:
        """Record what a step taught and what it took."""
        overhead = max(0.0, seconds - propose_seconds - judge_seconds)
        values = {
            "reflection": reflection,
            "seconds": seconds,
            "propose_seconds": propose_seconds,
            "judge_seconds": judge_seconds,
            "overhead_seconds": overhead,
        }
        self._update_step(run_id, step, values)

    def _update_step(self, run_id: str, step: int, values: Mapping[str, Any]) -> None:
        table = schema.steps
        with writing(self.engine) as connection:
            connection.execute(update(table).where(table.c.run_id == run_id, table.c.step == step).values(**values))

    # proposals and candidates

    def add_candidate(self, run_id: str, candidate: Candidate) -> Candidate:
        """Record a candidate; where its id is already there, the recorded one is returned unchanged."""
        with writing(self.engine) as connection:
            self._insert_candidate(connection, run_id, candidate)
        return self.candidate(candidate.id)

    def add_proposal(self, proposal: Proposal, candidates: Sequence[Candidate]) -> bool:
        """Record a share's outcome and its candidates together. False (and nothing changed) where the share was recorded before."""
        with writing(self.engine) as connection:
            if not insert_new(connection, schema.proposals, asdict(proposal)):
                return False
            for candidate in candidates:
                self._insert_candidate(connection, proposal.run_id, candidate)
        return True

    def _insert_candidate(self, connection: Connection, run_id: str, candidate: Candidate) -> None:
        # Ids end in ".step.draw"; the draw makes the order of a step's candidates explicit.
        row = {
            "id": candidate.id,
            "run_id": run_id,
            "step": candidate.step,
            "draw": int(candidate.id.rpartition(".")[2]),
            "language": candidate.language,
            "proposer": candidate.proposer,
            "phase": candidate.phase,
            "exemplar": candidate.exemplar,
            "knobs": dict(candidate.knobs),
            "chunk_ids": list(candidate.chunk_ids),
            "source_ref": self.objects.put_text(candidate.source),
            "prompt_ref": candidate.prompt_ref,
            "reply_ref": candidate.reply_ref,
            "note": candidate.note,
            "created": now(),
        }
        if insert_new(connection, schema.candidates, row):
            parents = [
                {"child": candidate.id, "parent": parent, "position": position}
                for position, parent in enumerate(dict.fromkeys(candidate.parents))
            ]
            if parents:
                connection.execute(insert(schema.edges), parents)

    def proposals(self, run_id: str) -> list[Proposal]:
        """All proposals of a run, in order."""
        table = schema.proposals
        with self.engine.connect() as connection:
            return [Proposal(**row) for row in _of_run(connection, table, run_id, table.c.step, table.c.draw)]

    def candidate(self, candidate_id: str) -> Candidate:
        """One candidate with its source. Raises :class:`CandidateNotFoundError`."""
        return self.candidates([candidate_id])[0]

    def candidates(self, ids: Sequence[str]) -> list[Candidate]:
        """Candidates with their sources, in the order asked for."""
        table, edges = schema.candidates, schema.edges
        with self.engine.connect() as connection:
            rows = {r["id"]: r for r in connection.execute(select(table).where(table.c.id.in_(ids))).mappings()}
            above: dict[str, list[str]] = {}
            query = select(edges).where(edges.c.child.in_(ids)).order_by(edges.c.child, edges.c.position)
            for edge in connection.execute(query).mappings():
                above.setdefault(edge["child"], []).append(edge["parent"])
        out = []
        for i in ids:
            if i not in rows:
                raise CandidateNotFoundError(i)
            out.append(candidate_from(rows[i], self.objects.get_text(rows[i]["source_ref"]), above.get(i, ())))
        return out

    def candidate_ids(self, run_id: str, step: int | None = None) -> list[str]:
        """Ids of a run's candidates (of one step), in order of step and draw."""
        table = schema.candidates
        query = select(table.c.id).where(table.c.run_id == run_id).order_by(table.c.step, table.c.draw)
        with self.engine.connect() as connection:
            return list(connection.execute(query if step is None else query.where(table.c.step == step)).scalars())

    # evaluations

    def add_evaluation(self, run_id: str, evaluation: Evaluation, kind: Kind = "search") -> Evaluation:
        """Record a verdict. Where the candidate already has one of this kind, that one stands and is returned."""
        timing = evaluation.timing
        row = {
            "candidate_id": evaluation.candidate_id,
            "kind": kind,
            "run_id": run_id,
            "target": evaluation.target,
            "status": evaluation.status,
            "fitness": evaluation.fitness,
            "ratio": timing and timing.ratio,
            "low": timing and timing.low,
            "high": timing and timing.high,
            "candidate_ms": timing and timing.candidate_ms,
            "diagnosis": evaluation.diagnosis,
            "payload": evaluation.to_dict(),
            "created": now(),
        }
        with writing(self.engine) as connection:
            insert_new(connection, schema.evaluations, row)
        found = self.evaluation(evaluation.candidate_id, kind)
        assert found is not None
        return found

    def evaluation(self, candidate_id: str, kind: Kind = "search") -> Evaluation | None:
        """The recorded verdict, or None."""
        table = schema.evaluations
        query = select(table.c.payload).where(table.c.candidate_id == candidate_id, table.c.kind == kind)
        with self.engine.connect() as connection:
            payload = connection.execute(query).scalar()
        return Evaluation.from_dict(payload) if payload is not None else None

    def evaluations(self, run_id: str, kind: Kind = "search", skip: int = 0) -> list[Evaluation]:
        """A run's verdicts in the candidates' order of step and draw, without the first ``skip``."""
        e, c = schema.evaluations, schema.candidates
        query = (
            select(e.c.payload)
            .join(c, c.c.id == e.c.candidate_id)
            .where(e.c.run_id == run_id, e.c.kind == kind)
            .order_by(c.c.step, c.c.draw)
            .offset(skip)
        )
        with self.engine.connect() as connection:
            return [Evaluation.from_dict(p) for p in connection.execute(query).scalars()]

    def best_so_far(self, run_id: str) -> Evaluation | None:
        """The verdict with the highest fitness; among those never timed, a correct one first. None where nothing was correct."""
        e, c = schema.evaluations, schema.candidates
        standing = case((e.c.status == "correct", 2), (e.c.status == "checked", 1), else_=0)
        query = (
            select(e.c.payload)
            .join(c, c.c.id == e.c.candidate_id)
            .where(e.c.run_id == run_id, e.c.kind == "search", standing > 0)
            .order_by(desc(e.c.fitness), desc(standing), c.c.step, c.c.draw)
            .limit(1)
        )
        with self.engine.connect() as connection:
            payload = connection.execute(query).scalar()
        return Evaluation.from_dict(payload) if payload is not None else None

    # retrievals and costs

    def add_retrieval(
        self, run_id: str, step: int, query: Mapping[str, Any], passages: Sequence[Mapping[str, Any]], seconds: float
    ) -> Retrieval:
        """Record what a step was given (whole passages as plain dicts); the first record of a step stands and is returned."""
        short = ("chunk_id", "document", "title", "kind", "locator", "score")
        row = {
            "run_id": run_id,
            "step": step,
            "query": dict(query),
            "passages": [{k: p[k] for k in short if k in p} for p in passages],
            "passages_ref": self.objects.put_json(list(passages)),
            "seconds": seconds,
        }
        with writing(self.engine) as connection:
            insert_new(connection, schema.retrievals, row)
        found = self.retrieval(run_id, step)
        assert found is not None
        return found

    def retrieval(self, run_id: str, step: int) -> Retrieval | None:
        """What a step was given, or None."""
        return next((r for r in self.retrievals(run_id) if r.step == step), None)

    def retrievals(self, run_id: str) -> list[Retrieval]:
        """All retrievals of a run, in order."""
        table = schema.retrievals
        with self.engine.connect() as connection:
            rows = _of_run(connection, table, run_id, table.c.step)
            return [replace(r, passages=tuple(r.passages)) for r in (Retrieval(**row) for row in rows)]

    def add_cost(self, cost: Cost) -> None:
        """Record one model call."""
        with writing(self.engine) as connection:
            connection.execute(insert(schema.costs).values(**asdict(cost), created=now()))

    def costs(self, run_id: str) -> list[Cost]:
        """A run's model calls, in order."""
        table = schema.costs
        with self.engine.connect() as connection:
            names = Cost.__dataclass_fields__
            return [Cost(**{k: row[k] for k in names}) for row in _of_run(connection, table, run_id, table.c.id)]

    # the graph

    def children(self, candidate_id: str) -> list[str]:
        """Candidates made from this one."""
        return lineage.children(self.engine, candidate_id)

    def siblings(self, candidate_id: str) -> list[str]:
        """Other candidates with a parent in common; for one without parents, the run's other such candidates."""
        return lineage.siblings(self.engine, candidate_id)

    def ancestors(self, candidate_id: str) -> list[Ancestor]:
        """All candidates above this one, nearest first."""
        return lineage.ancestors(self.engine, candidate_id)

    def lineage(self, candidate_id: str) -> list[str]:
        """The line of first parents from the root down to this candidate, itself included."""
        return lineage.first_line(self.engine, candidate_id)

    def warm_start(
        self, operators: Sequence[str], patterns: Sequence[str], target: str, limit: int = 3
    ) -> list[PastKernel]:
        """Best confirmed kernels of earlier runs on this target for similar specs, most similar first."""
        return lineage.past_kernels(self.engine, operators, patterns, target, limit)

    def count_evaluations(self, run_id: str) -> int:
        """Number of search evaluations recorded for a run."""
        e = schema.evaluations
        query = select(func.count()).where(e.c.run_id == run_id, e.c.kind == "search")
        with self.engine.connect() as connection:
            return int(connection.execute(query).scalar() or 0)


def _of_run(connection: Connection, table: Table, run_id: str, *order: ColumnElement[Any]) -> list[Any]:
    query = select(table).where(table.c.run_id == run_id).order_by(*order)
    return list(connection.execute(query).mappings())
