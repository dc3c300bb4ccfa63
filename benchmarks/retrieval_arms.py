"""Measures the knowledge base: cost of ingestion and retrieval, and what each arm of retrieval finds for the starter
suite.

    python benchmarks/retrieval_arms.py

A hit: every loop pattern of the spec is scheduled by an exemplar among the passages (``exemplars``), and some move
among them is meant for the situation (``moves``: the language, one of the patterns, and the diagnosis, or in a draft
the phase).
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from evaluators import targets
from evaluators.ir.facts import operators, patterns
from evaluators.ir.trace import trace
from evaluators.spec import load_suite
from knowledge.exemplars import load
from knowledge.ingest import ingest
from knowledge.moves import parse_moves
from knowledge.store import KnowledgeStore
from retrieval import Passage, Query
from retrieval.arms import Arms
from retrieval.query import build_query
from retrieval.retrieve import Retriever

ARMS = {
    "all": Arms(),
    "no dense": Arms(dense=False),
    "no lexical": Arms(lexical=False),
    "no fusion": Arms(fusion=False),
    "no structure": Arms(structure=False),
    "no diversity": Arms(diversity=False),
    "no metadata filter": Arms(metadata_filter=False),
    "dense only, no filter": Arms(lexical=False, structure=False, metadata_filter=False),
    "lexical only, no filter": Arms(dense=False, structure=False, metadata_filter=False),
    "shuffle": Arms(shuffle=True),
}
MACHINES = (("cpu-x86-64", "cpp", "cpu"), ("nvidia-h200", "triton", "gpu"))
SITUATIONS = (
    ("draft", "unknown"),
    ("improve", "memory_bound"),
    ("improve", "compute_bound"),
    ("improve", "latency_bound"),
)


@dataclass(frozen=True)
class Hits:
    """Whether the passages let a proposer schedule every pattern, and advise it."""

    exemplars: bool
    moves: bool


def judge(passages: list[Passage], query: Query) -> Hits:
    """Hits of one retrieval."""
    found = [load(p.document) for p in passages if "exemplar" in p.metadata]
    scheduled = {p for e in found if e.language in query.languages for p in e.patterns}
    moves = [m for p in passages for m in parse_moves(p.metadata.get("moves"), p.document)]
    facts = {"phase": query.phase, "diagnosis": query.diagnosis, "language": query.languages, "pattern": query.patterns}
    meant = [
        m
        for m in moves
        if ("diagnosis" in m.when or "phase" in m.when)
        and all(name == "exemplar" or set(values) & _facts(facts[name]) for name, values in m.when.items())
    ]
    return Hits(scheduled >= set(query.patterns), bool(meant))


def _facts(value: str | tuple[str, ...]) -> set[str]:
    return {value} if isinstance(value, str) else set(value)


def queries() -> list[Query]:
    """Every starter spec on both machines in every situation."""
    out = []
    for target, language, profile in MACHINES:
        for spec in load_suite("starter", profile, "float32"):
            program = trace(spec)
            for phase, diagnosis in SITUATIONS:
                out.append(
                    build_query(
                        spec, targets.load(target), (language,), phase, diagnosis, operators(program), patterns(program)
                    )
                )
    return out


def main() -> None:
    """Print the tables."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "store"
        store = KnowledgeStore.open(path)
        first = ingest(None, store)
        print(f"ingest: {first.documents} documents, {first.chunks} chunks, {first.seconds:.1f} s")
        again = "import sys; from knowledge.ingest import ingest; from knowledge.store import KnowledgeStore\n"
        again += "ingest(None, KnowledgeStore.open(sys.argv[1]))"
        begin = time.perf_counter()
        subprocess.run([sys.executable, "-c", again, str(path)], check=True)
        print(f"ingest again, unchanged, process start included: {time.perf_counter() - begin:.2f} s")
        asked = queries()
        retriever = Retriever(store)
        retriever.retrieve(asked[0])
        cold, warm = [], []
        for times in (cold, warm):
            for query in asked:
                begin = time.perf_counter()
                retriever.retrieve(query)
                times.append(1e3 * (time.perf_counter() - begin))
        print(
            f"retrieve, 12 passages: new query {statistics.median(cold):.1f} ms, repeated {statistics.median(warm):.1f} ms (medians)"
        )
        print(
            f"\n| arms | exemplars for every pattern | a move for the situation |\n|---|---|---|   ({len(asked)} queries)"
        )
        for name, arms in ARMS.items():
            varied = Retriever(store, arms)
            hits = [judge(varied.retrieve(q), q) for q in asked]
            print(f"| {name} | {sum(h.exemplars for h in hits)} | {sum(h.moves for h in hits)} |")


if __name__ == "__main__":
    main()
