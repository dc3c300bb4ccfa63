"""RunStore: the authority on what happened. Every write is one transaction, and a record once made is never replaced.

Safe with several threads and processes on one database. Light to import: nothing here loads torch or a model.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any, Literal

from sqlalchemy import Connection, case, desc, insert, select, update

from evaluators.candidate import Candidate, Twin
from evaluators.spec.kernel_spec import KernelSpec
from evaluators.target import Target
from evaluators.verdict import Evaluation
from knowledge.errors import CandidateNotFoundError, RunNotFound
from knowledge.runs import journal, places, queries, schema
from knowledge.runs.database import connect, insert_new, writing
from knowledge.runs.objects import ObjectStore
from knowledge.runs.records import (
    Proposal,
    Run,
    candidate_from,
    now,
    run_from,
    target_to_dict,
)

Kind = Literal["search", "confirm"]
"""An evaluation made while searching, or the fresh-process re-run of a winner."""


class RunStore:
    """The run store. ``url`` is a SQLAlchemy URL and ``objects`` an fsspec URL; both default to places under ``$KERNELEVOLVE_HOME``."""

    def __init__(self, url: str | None = None, objects: str | None = None) -> None:
        self.url = url or places.store_url()
        self.engine = connect(self.url)
        self.objects = ObjectStore(objects or places.objects_url())

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

    def set_status(self, run_id: str, status: str, reason: str | None = None) -> None:
        """Mark a run as running, interrupted or failed; a finished run stays finished."""
        values = {"status": status} if reason is None else {"status": status, "reason": reason}
        runs = schema.runs
        with writing(self.engine) as connection:
            connection.execute(update(runs).where(runs.c.id == run_id, runs.c.status != "finished").values(**values))

    def finish_run(
        self,
        run_id: str,
        reason: str,
        recommendation: Literal["kernel", "baseline", "inconclusive", "untimed"],
        best: str | None,
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

    # candidates

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
            "twin": candidate.twin
            and asdict(candidate.twin) | {"source": self.objects.put_text(candidate.twin.source)},
        }
        if insert_new(connection, schema.candidates, row):
            parents = [
                {"child": candidate.id, "parent": parent, "position": position}
                for position, parent in enumerate(dict.fromkeys(candidate.parents))
            ]
            if parents:
                connection.execute(insert(schema.edges), parents)

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
            found = candidate_from(rows[i], self.objects.get_text(rows[i]["source_ref"]), above.get(i, ()))
            twin = rows[i]["twin"]
            out.append(
                replace(found, twin=Twin(**twin | {"source": self.objects.get_text(twin["source"])})) if twin else found
            )
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
            "fitness": _finite(evaluation.fitness) or 0.0,
            "ratio": _finite(timing.ratio) if timing else None,
            "low": _finite(timing.low) if timing else None,
            "high": _finite(timing.high) if timing else None,
            "candidate_ms": _finite(timing.candidate_ms) if timing else None,
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

    # the steps of a run, in knowledge.runs.journal

    add_step = journal.add_step
    get_step = journal.get_step
    steps = journal.steps
    set_prompt = journal.set_prompt
    set_reflection = journal.set_reflection
    proposals = journal.proposals
    add_retrieval = journal.add_retrieval
    retrieval = journal.retrieval
    retrievals = journal.retrievals
    add_cost = journal.add_cost
    costs = journal.costs
    add_reply = journal.add_reply
    replies = journal.replies

    # questions about many candidates or runs, in knowledge.runs.queries

    list_runs = queries.summaries
    children = queries.children
    siblings = queries.siblings
    ancestors = queries.ancestors
    lineage = queries.first_line
    warm_start = queries.past_kernels


def _finite(value: float) -> float | None:
    """Databases differ on NaN and infinity; the payload keeps what the judge said."""
    return float(value) if math.isfinite(value) else None
