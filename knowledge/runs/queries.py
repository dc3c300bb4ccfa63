"""Questions about many candidates at once, answered in SQL: family, summaries, and kernels of earlier runs.

These functions are methods of :class:`knowledge.runs.store.RunStore`.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import ColumnElement, and_, case, desc, func, literal, not_, select

from knowledge.runs.database import Store
from knowledge.runs.records import Ancestor, PastKernel, RunSummary
from knowledge.runs.schema import candidates, edges, evaluations, runs


def children(store: Store, candidate_id: str) -> list[str]:
    """Ids of the candidates made from this one, in order."""
    query = (
        select(candidates.c.id)
        .join(edges, edges.c.child == candidates.c.id)
        .where(edges.c.parent == candidate_id)
        .order_by(candidates.c.step, candidates.c.draw)
    )
    with store.engine.connect() as connection:
        return list(connection.execute(query).scalars())


def siblings(store: Store, candidate_id: str) -> list[str]:
    """Ids of other candidates with a parent in common; of a root, the run's other roots."""
    mine = select(edges.c.parent).where(edges.c.child == candidate_id)
    with store.engine.connect() as connection:
        if connection.execute(mine.limit(1)).first():
            related: ColumnElement[bool] = candidates.c.id.in_(select(edges.c.child).where(edges.c.parent.in_(mine)))
        else:
            run = select(candidates.c.run_id).where(candidates.c.id == candidate_id).scalar_subquery()
            related = and_(candidates.c.run_id == run, not_(candidates.c.id.in_(select(edges.c.child))))
        query = (
            select(candidates.c.id)
            .where(related, candidates.c.id != candidate_id)
            .order_by(candidates.c.step, candidates.c.draw)
        )
        return list(connection.execute(query).scalars())


def ancestors(store: Store, candidate_id: str) -> list[Ancestor]:
    """All candidates above this one, nearest first, each once (recursive common table expression)."""
    above = select(edges.c.parent.label("id"), literal(1).label("depth")).where(edges.c.child == candidate_id)
    tree = above.cte("above", recursive=True)
    tree = tree.union(select(edges.c.parent, tree.c.depth + 1).join(tree, edges.c.child == tree.c.id))
    query = (
        select(tree.c.id, func.min(tree.c.depth).label("nearest"))
        .join(candidates, candidates.c.id == tree.c.id)
        .group_by(tree.c.id, candidates.c.step, candidates.c.draw)
        .order_by("nearest", candidates.c.step, candidates.c.draw)
    )
    with store.engine.connect() as connection:
        return [Ancestor(i, depth) for i, depth in connection.execute(query)]


def first_line(store: Store, candidate_id: str) -> list[str]:
    """From the root down to the candidate, following first parents (recursive common table expression)."""
    tree = select(literal(candidate_id).label("id"), literal(0).label("depth")).cte("line", recursive=True)
    step = select(edges.c.parent, tree.c.depth + 1).join(tree, edges.c.child == tree.c.id).where(edges.c.position == 0)
    tree = tree.union_all(step)
    with store.engine.connect() as connection:
        return list(connection.execute(select(tree.c.id).order_by(desc(tree.c.depth))).scalars())


def summaries(store: Store, limit: int | None = None, target: str | None = None) -> list[RunSummary]:
    """One line per run, newest first."""
    e = evaluations
    counts = (
        select(
            e.c.run_id,
            func.count().label("evaluations"),
            func.sum(case((e.c.status.in_(("correct", "checked")), 1), else_=0)).label("correct"),
            func.max(e.c.fitness).label("fitness"),
        )
        .where(e.c.kind == "search")
        .group_by(e.c.run_id)
        .subquery()
    )
    confirmed = and_(e.c.candidate_id == runs.c.best, e.c.kind == "confirm")
    query = (
        select(
            runs.c.id,
            runs.c.spec_name,
            runs.c.target_name.label("target"),
            runs.c.status,
            runs.c.reason,
            runs.c.recommendation,
            runs.c.best,
            runs.c.created,
            runs.c.finished,
            func.coalesce(counts.c.evaluations, 0).label("evaluations"),
            func.coalesce(counts.c.correct, 0).label("correct"),
            func.coalesce(counts.c.fitness, 0.0).label("fitness"),
            e.c.ratio,
            e.c.low,
            e.c.high,
        )
        .outerjoin(counts, counts.c.run_id == runs.c.id)
        .outerjoin(e, confirmed)
        .order_by(desc(runs.c.created), desc(runs.c.id))
        .limit(limit)
    )
    if target is not None:
        query = query.where(runs.c.target_name == target)
    with store.engine.connect() as connection:
        return [RunSummary(**row) for row in connection.execute(query).mappings()]


def past_kernels(
    store: Store, operators: Sequence[str], patterns: Sequence[str], target: str, limit: int = 3
) -> list[PastKernel]:
    """Confirmed winners of earlier runs on the target whose spec shares operators or patterns, most similar first."""
    wanted = {*operators, *patterns}
    query = (
        select(
            runs.c.id,
            runs.c.spec_name,
            runs.c.operators,
            runs.c.patterns,
            evaluations.c.candidate_id,
            evaluations.c.ratio,
        )
        .join(evaluations, and_(evaluations.c.candidate_id == runs.c.best, evaluations.c.kind == "confirm"))
        .where(runs.c.target_name == target, runs.c.status == "finished", runs.c.recommendation == "kernel")
    )
    found = []
    with store.engine.connect() as connection:
        for row in connection.execute(query).mappings():
            theirs = {*row["operators"], *row["patterns"]}
            shared = len(wanted & theirs)
            if shared:
                similarity = shared / len(wanted | theirs)
                found.append(PastKernel(row["candidate_id"], row["id"], row["spec_name"], similarity, row["ratio"]))
    return sorted(found, key=lambda k: (-k.similarity, -k.ratio, k.candidate_id))[:limit]
