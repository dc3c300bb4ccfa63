"""The steps of a run: what each was planned for, what was retrieved and prompted, what proposers came up with, what it taught and cost.

These functions are methods of :class:`knowledge.runs.store.RunStore`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from sqlalchemy import ColumnElement, Connection, Table, insert, select, update

from knowledge.runs import schema
from knowledge.runs.database import Store, insert_new, writing
from knowledge.runs.records import Cost, Proposal, Reply, Retrieval, Step, now, step_from


def add_step(store: Store, step: Step) -> Step:
    """Record a step's plan and return it; where the step is already planned, return that plan."""
    row = {k: v for k, v in asdict(step).items() if v is not None}
    with writing(store.engine) as connection:
        insert_new(connection, schema.steps, row)
    found = get_step(store, step.run_id, step.step)
    assert found is not None
    return found


def get_step(store: Store, run_id: str, step: int) -> Step | None:
    """One step, or None where it is not planned yet."""
    with store.engine.connect() as connection:
        rows = _rows(connection, schema.steps, run_id, step)
    return step_from(rows[0]) if rows else None


def steps(store: Store, run_id: str) -> list[Step]:
    """All steps of a run, in order."""
    with store.engine.connect() as connection:
        return [step_from(row) for row in _rows(connection, schema.steps, run_id, None, schema.steps.c.step)]


def set_prompt(store: Store, run_id: str, step: int, prompt: str, facts: Mapping[str, Any]) -> str:
    """Record the step's synthesized prompt and what is known of it (tokens, chunk ids, what was cut); returns its reference."""
    ref = store.objects.put_text(prompt)
    _update_step(store, run_id, step, {"prompt_ref": ref, "prompt": dict(facts)})
    return ref


def set_reflection(
    store: Store, run_id: str, step: int, reflection: str, seconds: float, propose_seconds: float, judge_seconds: float
) -> None:
    """Record what a step taught and the seconds it took; what is neither proposing nor judging is overhead."""
    values = {
        "reflection": reflection,
        "seconds": seconds,
        "propose_seconds": propose_seconds,
        "judge_seconds": judge_seconds,
        "overhead_seconds": max(0.0, seconds - propose_seconds - judge_seconds),
    }
    _update_step(store, run_id, step, values)


def proposals(store: Store, run_id: str, step: int | None = None) -> list[Proposal]:
    """The proposals of a run (of one step), in order."""
    table = schema.proposals
    with store.engine.connect() as connection:
        return [Proposal(**row) for row in _rows(connection, table, run_id, step, table.c.step, table.c.draw)]


def add_retrieval(
    store: Store,
    run_id: str,
    step: int,
    query: Mapping[str, Any],
    passages: Sequence[Mapping[str, Any]],
    seconds: float,
) -> Retrieval:
    """Record what a step was given (whole passages as plain dicts); the first record of a step stands and is returned."""
    short = ("chunk_id", "document", "title", "kind", "locator", "score")
    row = {
        "run_id": run_id,
        "step": step,
        "query": dict(query),
        "passages": [{k: p[k] for k in short if k in p} for p in passages],
        "passages_ref": store.objects.put_json(list(passages)),
        "seconds": seconds,
    }
    with writing(store.engine) as connection:
        insert_new(connection, schema.retrievals, row)
    found = retrieval(store, run_id, step)
    assert found is not None
    return found


def retrieval(store: Store, run_id: str, step: int) -> Retrieval | None:
    """What a step was given, or None."""
    with store.engine.connect() as connection:
        rows = _rows(connection, schema.retrievals, run_id, step)
    return _retrieval_from(rows[0]) if rows else None


def retrievals(store: Store, run_id: str) -> list[Retrieval]:
    """All retrievals of a run, in order."""
    with store.engine.connect() as connection:
        return [
            _retrieval_from(r) for r in _rows(connection, schema.retrievals, run_id, None, schema.retrievals.c.step)
        ]


def add_cost(store: Store, cost: Cost) -> None:
    """Record one model call."""
    with writing(store.engine) as connection:
        connection.execute(insert(schema.costs).values(**asdict(cost), created=now()))


def costs(store: Store, run_id: str) -> list[Cost]:
    """A run's model calls, in order."""
    with store.engine.connect() as connection:
        rows = _rows(connection, schema.costs, run_id, None, schema.costs.c.id)
        return [Cost(**{k: row[k] for k in Cost.__dataclass_fields__}) for row in rows]


def add_reply(store: Store, reply: Reply, cost: Cost) -> None:
    """Record a model's reply with what it cost, together; where that attempt is already recorded, nothing changes."""
    with writing(store.engine) as connection:
        if insert_new(connection, schema.replies, {**asdict(reply), "created": now()}):
            connection.execute(insert(schema.costs).values(**asdict(cost), created=now()))


def replies(store: Store, run_id: str, step: int | None = None) -> list[Reply]:
    """The replies of a run (of one step), in order of draw and attempt."""
    t = schema.replies
    with store.engine.connect() as connection:
        rows = _rows(connection, t, run_id, step, t.c.step, t.c.draw, t.c.attempt)
    return [Reply(**{k: row[k] for k in Reply.__dataclass_fields__}) for row in rows]


def _retrieval_from(row: Mapping[str, Any]) -> Retrieval:
    return Retrieval(**{**row, "passages": tuple(row["passages"])})


def _update_step(store: Store, run_id: str, step: int, values: Mapping[str, Any]) -> None:
    table = schema.steps
    with writing(store.engine) as connection:
        connection.execute(update(table).where(table.c.run_id == run_id, table.c.step == step).values(**values))


def _rows(connection: Connection, table: Table, run_id: str, step: int | None, *order: ColumnElement[Any]) -> list[Any]:
    query = select(table).where(table.c.run_id == run_id).order_by(*order)
    return list(connection.execute(query if step is None else query.where(table.c.step == step)).mappings())
