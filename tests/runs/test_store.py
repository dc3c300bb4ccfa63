"""The run store keeps what it was given first, answers family questions as a plain model does, and survives sharing."""

from __future__ import annotations

import math
import multiprocessing
import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import inspect

from evaluators.candidate import Candidate, Twin
from evaluators.spec.kernel_spec import KernelSpec
from evaluators.target import Target
from evaluators.verdict import Accuracy, Evaluation, Timing
from knowledge.errors import (
    CandidateNotFoundError,
    ObjectDamagedError,
    ObjectNotFoundError,
    RunNotFound,
    StoreUnavailableError,
    StoreVersionError,
)
from knowledge.runs.migrations import MIGRATIONS
from knowledge.runs.records import Cost, Proposal, Share, Step
from knowledge.runs.schema import metadata
from knowledge.runs.store import RunStore

SPEC = KernelSpec(name="layernorm", source="yaml", reference="class Model: ...")
TARGET = Target(
    "cpu", "cpu", "any", "x86-64", ("cpu",), 20.0, {"float32": 0.1}, ("cpp",), 2, 1, 2**20, 0, 2**34, present=True
)  # fmt: skip


@pytest.fixture
def store(tmp_path: Path) -> Iterator[RunStore]:
    opened = fresh(tmp_path)
    yield opened
    opened.close()


def fresh(folder: Path) -> RunStore:
    return RunStore(f"sqlite:///{folder / 'store.db'}", str(folder / "objects"))


def candidate(i: str, parents: tuple[str, ...] = (), source: str = "# kernel") -> Candidate:
    step = int(i.split(".")[-2])
    return Candidate(
        i, "cpp", f"{source} {i}", "builtin", parents, step, knobs={"BLOCK": 64, "split": True}, chunk_ids=("c1",)
    )


def verdict(i: str, fitness: float, status: str = "correct") -> Evaluation:
    timing = Timing(1.0, "eager", {"eager": fitness}, fitness, fitness - 0.1, fitness + 0.1, ((1.0, 0.5),), "wall")
    return Evaluation(i, "cpu", status, fitness, timing=timing if status == "correct" else None)  # type: ignore[arg-type]


def test_a_run_comes_back_as_it_went_in(store: RunStore) -> None:
    run = store.create_run(
        "layernorm-1", SPEC, TARGET, {"evaluations": 24, "proposers": ["builtin"]}, ("a",), ("row_norm",)
    )
    assert (run.spec, run.target, run.status, run.patterns) == (SPEC, TARGET, "running", ("row_norm",))
    assert store.get_run("layern") == run
    assert store.create_run("layernorm-1", replace(SPEC, name="other"), TARGET, {}) == run


def test_run_ids_may_be_shortened_only_while_unambiguous(store: RunStore) -> None:
    for i in ("ab-1", "ab-2", "a_-3"):
        store.create_run(i, SPEC, TARGET, {})
    assert store.get_run("a_").id == "a_-3"  # an underscore is no wildcard
    for wrong in ("ab", "zz", "", "%"):
        with pytest.raises(RunNotFound, match="kernelevolve list"):
            store.get_run(wrong)


def test_a_candidate_and_its_verdict_stand_once_recorded(store: RunStore) -> None:
    store.create_run("r", SPEC, TARGET, {})
    first = store.add_candidate("r", candidate("r.0.0"))
    assert first == candidate("r.0.0")
    assert store.add_candidate("r", replace(candidate("r.0.0"), source="other", note="other")) == first
    assert store.add_evaluation("r", verdict("r.0.0", 1.5)) == verdict("r.0.0", 1.5)
    assert store.add_evaluation("r", verdict("r.0.0", 9.0)) == verdict("r.0.0", 1.5)
    confirmed = store.add_evaluation("r", verdict("r.0.0", 1.4), "confirm")
    assert (confirmed.fitness, store.evaluations("r")) == (1.4, [verdict("r.0.0", 1.5)])


def test_a_candidates_twin_is_kept_with_it(store: RunStore) -> None:
    store.create_run("r", SPEC, TARGET, {})
    one = replace(candidate("r.0.0"), twin=Twin({"M": 64, "N": 128}, "# smaller kernel", "k0.BLOCK 64 → 32"))
    assert store.add_candidate("r", one) == one == store.candidate("r.0.0")


def test_verdicts_keep_nan_and_infinity(store: RunStore) -> None:
    store.create_run("r", SPEC, TARGET, {})
    store.add_candidate("r", candidate("r.0.0"))
    broken = replace(
        verdict("r.0.0", 0.0, "mismatch"), accuracy=Accuracy(math.inf, 1e-7, math.inf, 3), fitness=math.nan
    )
    found = store.add_evaluation("r", broken)
    assert found.accuracy == broken.accuracy
    assert store.list_runs()[0].fitness == 0.0


def test_best_so_far_prefers_speed_then_correctness(store: RunStore) -> None:
    store.create_run("r", SPEC, TARGET, {})
    for draw, (fitness, status) in enumerate(
        [(0.0, "compile_error"), (0.0, "checked"), (1.2, "correct"), (0.9, "correct")]
    ):
        store.add_candidate("r", candidate(f"r.0.{draw}"))
        store.add_evaluation("r", verdict(f"r.0.{draw}", fitness, status))
        best = store.best_so_far("r")
        assert (best.candidate_id if best else None) == [None, "r.0.1", "r.0.2", "r.0.2"][draw]


def test_a_share_is_recorded_whole_and_once(store: RunStore) -> None:
    store.create_run("r", SPEC, TARGET, {})
    proposal = Proposal("r", 0, 0, "llm", 2, 2, 0, "", 1.0)
    assert store.add_proposal(proposal, [candidate("r.0.0"), candidate("r.0.1")])
    assert not store.add_proposal(replace(proposal, made=1), [candidate("r.0.2")])
    assert store.candidate_ids("r") == ["r.0.0", "r.0.1"]
    with pytest.raises(Exception, match="FOREIGN KEY"):
        store.add_proposal(replace(proposal, draw=5), [candidate("r.0.5"), candidate("r.0.6", ("r.9.9",))])
    assert store.candidate_ids("r") == ["r.0.0", "r.0.1"]
    assert store.proposals("r") == [proposal]


def test_steps_retrievals_and_costs(store: RunStore) -> None:
    store.create_run("r", SPEC, TARGET, {})
    step = Step("r", 0, "draft", (), (), "unknown", (Share("builtin", (0, 1)), Share("llm", (2,))), "first drafts")
    assert store.add_step(step) == step
    assert store.add_step(replace(step, phase="improve")) == step
    ref = store.set_prompt("r", 0, "Write a kernel.", {"tokens": 4})
    store.set_reflection("r", 0, "fine", seconds=2.0, propose_seconds=0.5, judge_seconds=1.25)
    done = store.get_step("r", 0)
    assert done is not None
    assert (store.objects.get_text(ref), done.prompt_ref, done.overhead_seconds) == ("Write a kernel.", ref, 0.25)
    passages = [{"chunk_id": "c", "title": "T", "text": "long", "score": 0.5}]
    kept = store.add_retrieval("r", 0, {"text": "q"}, passages, 0.01)
    assert store.add_retrieval("r", 0, {"text": "other"}, [], 0.01) == kept
    assert kept.passages == ({"chunk_id": "c", "title": "T", "score": 0.5},)
    assert store.objects.get_json(kept.passages_ref) == passages
    cost = Cost("r", 0, "llm", "some-model", 100, 20, None, 1.5)
    store.add_cost(cost)
    store.add_cost(cost)  # two calls may well be equal
    assert store.costs("r") == [cost, cost]


def test_the_first_end_of_a_run_stands(store: RunStore) -> None:
    store.create_run("r", SPEC, TARGET, {})
    store.add_candidate("r", candidate("r.0.0"))
    store.add_evaluation("r", verdict("r.0.0", 1.6))
    store.add_evaluation("r", verdict("r.0.0", 1.5), "confirm")
    store.finish_run("r", "budget spent", "kernel", "r.0.0")
    store.finish_run("r", "other", "baseline", None)
    store.set_status("r", "running", "")
    line = store.list_runs()[0]
    assert (line.status, line.recommendation, line.fitness, line.ratio, line.low) == (
        "finished",
        "kernel",
        1.6,
        1.5,
        1.4,
    )
    assert (line.evaluations, line.correct) == (1, 1)
    assert store.list_runs(target="gpu") == []


def test_warm_start_finds_confirmed_kernels_of_similar_specs(store: RunStore) -> None:
    past = {"same": ("norm", 1.2), "alike": ("norm", 3.0), "foreign": ("scan", 9.0), "lost": ("norm", 2.0)}
    for name, (pattern, ratio) in past.items():
        operators = ("mean",) if name == "same" else ("sum", "sub")
        store.create_run(name, SPEC, TARGET, {}, operators, (pattern,))
        store.add_candidate(name, candidate(f"{name}.0.0"))
        store.add_evaluation(name, verdict(f"{name}.0.0", ratio), "confirm")
        store.finish_run(name, "done", "baseline" if name == "lost" else "kernel", f"{name}.0.0")
    found = store.warm_start(("mean",), ("norm",), "cpu")
    assert [(k.run_id, k.ratio) for k in found] == [("same", 1.2), ("alike", 3.0)]
    assert found[0].similarity == 1.0
    assert store.warm_start(("mean",), ("norm",), "gpu") == []


def test_objects_are_stored_once_and_damage_is_noticed(store: RunStore, tmp_path: Path) -> None:
    ref = store.objects.put_text("kernel")
    assert store.objects.put_text("kernel") == ref
    files = [p for p in (tmp_path / "objects").rglob("*") if p.is_file()]
    assert len(files) == 1
    files[0].write_text("kernal")
    with pytest.raises(ObjectDamagedError, match="damaged"):
        store.objects.get(ref)
    with pytest.raises(ObjectNotFoundError):
        store.objects.get("0" * 64)
    with pytest.raises(CandidateNotFoundError):
        store.candidate("r.0.0")


def test_migrations_build_the_tables_that_the_code_uses(store: RunStore) -> None:
    found = inspect(store.engine)
    for table in metadata.tables.values():
        columns = {c["name"]: c["nullable"] for c in found.get_columns(table.name)}
        # SQLite reports its INTEGER PRIMARY KEY as nullable; no row of it ever is.
        assert {n: v for n, v in columns.items() if n != "id"} == {
            c.name: c.nullable for c in table.columns if c.name != "id"
        }
        assert set(found.get_pk_constraint(table.name)["constrained_columns"]) == {c.name for c in table.primary_key}
        assert {i["name"] for i in found.get_indexes(table.name)} == {i.name for i in table.indexes}


def test_a_newer_store_and_a_useless_url_are_refused_in_one_line(store: RunStore, tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "store.db") as connection:
        connection.execute("INSERT INTO schema_version VALUES (?)", (len(MIGRATIONS) + 1,))
    with pytest.raises(StoreVersionError, match="upgrade"):
        fresh(tmp_path)
    (tmp_path / "file").touch()
    for url in ("nonsense", "nosuchdb://x", f"sqlite:///{tmp_path}/file/store.db", "sqlite:////proc/x.db"):
        with pytest.raises(StoreUnavailableError) as error:
            RunStore(url, str(tmp_path / "objects"))
        assert "\n" not in str(error.value)


# The family of a candidate, against a model in plain Python.

graphs = st.integers(1, 12).flatmap(
    lambda n: st.tuples(
        *(st.lists(st.integers(0, i - 1), max_size=3, unique=True) if i else st.just([]) for i in range(n))
    )
)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(parents=graphs, repeats=st.lists(st.integers(0, 11), max_size=6))
def test_family_questions_agree_with_a_plain_model(
    tmp_path_factory: pytest.TempPathFactory, parents: tuple[list[int], ...], repeats: list[int]
) -> None:
    store = fresh(tmp_path_factory.mktemp("family"))
    store.create_run("r", SPEC, TARGET, {})
    ids = [f"r.{i}.0" for i in range(len(parents))]
    for i in [*range(len(parents)), *(r for r in repeats if r < len(parents))]:
        store.add_candidate("r", candidate(ids[i], tuple(ids[p] for p in parents[i])))
    assert store.candidate_ids("r") == ids
    for i, mine in enumerate(parents):
        depth: dict[int, int] = {}
        ring, distance = set(mine), 1
        while ring:
            depth |= {p: distance for p in ring if p not in depth}
            ring, distance = {q for p in ring for q in parents[p]}, distance + 1
        assert {(a.candidate_id, a.depth) for a in store.ancestors(ids[i])} == {(ids[p], d) for p, d in depth.items()}
        assert store.children(ids[i]) == [ids[c] for c, theirs in enumerate(parents) if i in theirs]
        kin = [c for c, theirs in enumerate(parents) if c != i and (set(theirs) & set(mine) or not (theirs or mine))]
        assert store.siblings(ids[i]) == [ids[c] for c in kin]
        line = [i]
        while parents[line[0]]:
            line.insert(0, parents[line[0]][0])
        assert store.lineage(ids[i]) == [ids[c] for c in line]
        assert store.candidate(ids[i]).parents == tuple(ids[p] for p in mine)
    store.close()


@settings(max_examples=25, deadline=None)
@given(
    events=st.lists(st.tuples(st.integers(0, 4), st.floats(0, 10), st.sampled_from(["search", "confirm"])), max_size=20)
)
def test_the_first_verdict_of_each_kind_wins(
    tmp_path_factory: pytest.TempPathFactory, events: list[tuple[int, float, str]]
) -> None:
    store = fresh(tmp_path_factory.mktemp("verdicts"))
    store.create_run("r", SPEC, TARGET, {})
    model: dict[tuple[int, str], float] = {}
    for i, fitness, kind in events:
        store.add_candidate("r", candidate(f"r.{i}.0"))
        store.add_evaluation("r", verdict(f"r.{i}.0", fitness), kind)  # type: ignore[arg-type]
        model.setdefault((i, kind), fitness)
    for kind in ("search", "confirm"):
        expected = [f for (_, k), f in sorted(model.items()) if k == kind]
        assert [e.fitness for e in store.evaluations("r", kind)] == expected  # type: ignore[arg-type]
    store.close()


def _fill(folder: Path, worker: int) -> None:
    store = fresh(folder)
    store.create_run("r", SPEC, TARGET, {})
    for i in range(15):
        store.add_candidate("r", candidate(f"r.{i}.0", source=f"# worker {worker}"))
        store.add_evaluation("r", verdict(f"r.{i}.0", 1.0 + worker))
        store.add_cost(Cost("r", i, "llm", "m", worker, 1, None, 0.0))


def test_processes_share_one_new_database(tmp_path: Path) -> None:
    """Four processes create the same store at once and race for the same keys: each key is written once, nothing is refused."""
    spawn = multiprocessing.get_context("spawn")
    workers = [spawn.Process(target=_fill, args=(tmp_path, i)) for i in range(4)]
    for w in workers:
        w.start()
    for w in workers:
        w.join()
    assert [w.exitcode for w in workers] == [0] * 4
    store = fresh(tmp_path)
    assert len(store.candidate_ids("r")) == len(store.evaluations("r")) == 15
    assert len(store.costs("r")) == 60
