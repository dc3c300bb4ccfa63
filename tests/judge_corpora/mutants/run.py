"""Mutants through the judge: one session for each kernel, the original first."""

from __future__ import annotations

from typing import Any

from evaluators.judge.judge import Judge
from evaluators.judge.settings import JudgeSettings
from tests.judge_corpora.entry import Entry
from tests.judge_corpora.honest import accepted
from tests.judge_corpora.mutants import equivalent
from tests.judge_corpora.mutants.make import Mutant, mutants
from tests.judge_corpora.record import Record


class OriginalRejected(Exception):
    """The judge rejects the kernel that mutants are to be made of, so killing them would say nothing."""


def judge_mutants(
    entry: Entry, limit: int, settings: JudgeSettings, record: Record | None = None
) -> list[dict[str, Any]]:
    """Judge ``limit`` mutants of a kernel (0: all), except those in ``record`` already; Raises :class:`OriginalRejected`."""
    results: list[dict[str, Any]] = []
    known = equivalent.known()
    with Judge(entry.spec, entry.target(), settings) as judge:
        checked = False
        compiled = 0
        for mutant in mutants(entry, limit if entry.native is not None else 0):
            if limit and compiled == limit:
                break
            key = f"{entry.name}/{entry.digest}/{mutant.mutation.digest}"
            found = record.results.get(key) if record else None
            if found is None:
                if not checked:
                    _original(judge, entry)
                    checked = True
                found = _judge_one(judge, entry, mutant)
                if record and found["verdict"] != "undecided":
                    record.add(key, found)
            if found["verdict"] == "survived" and (entry.name, mutant.mutation.digest) in known:
                found = {**found, "verdict": "equivalent"}
            compiled += found["verdict"] != "does not compile"
            results.append(found)
    return results


def _original(judge: Judge, entry: Entry) -> None:
    found = judge.evaluate(entry.candidate(), timed=False)
    if not accepted(found.status, found.accuracy is not None, found.message):
        raise OriginalRejected(f"{entry.name}: {found.status}: {found.message[:300]}")


def _judge_one(judge: Judge, entry: Entry, mutant: Mutant) -> dict[str, Any]:
    found = judge.evaluate(mutant.entry.candidate(), timed=False)
    if found.status == "compile_error":
        verdict = "does not compile"
    elif found.status == "infrastructure" or (found.status == "checked" and found.accuracy is None):
        verdict = "undecided"
    elif found.status in ("correct", "checked"):
        verdict = "survived"
    else:
        verdict = "killed"
    return {
        "kernel": entry.name,
        "language": entry.language,
        "mutant": mutant.mutation.digest,
        "kind": mutant.mutation.kind,
        "diff": mutant.mutation.diff,
        "verdict": verdict,
        "status": found.status,
        "message": found.message[:300],
        "accuracy": found.accuracy.detail if found.accuracy else "",
        "seconds": round(sum(found.phases.values()), 2),
    }
