"""How a run that ended comes out for a script: the exit code, and the last line where the result's table does not say it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent.cli.exits import FAILURE, MISSING, NOBODY, NONE_CORRECT, OK

if TYPE_CHECKING:
    from agent.report.data import RunReport
    from knowledge.runs.store import RunStore


def outcome(report: RunReport, store: RunStore) -> tuple[int, str]:
    """(exit code, error line or nothing). That no candidate is correct is only said where candidates were really judged."""
    if report.best is not None:
        return OK, ""
    verdicts = [n.evaluation for n in report.nodes if n.evaluation]
    if verdicts and all(v.status == "infrastructure" for v in verdicts):
        return FAILURE, f"the judge could not work: {verdicts[-1].message}"
    if verdicts:
        return NONE_CORRECT, ""
    # One that can do nothing for this spec has said so as its result.
    failed = {p.proposer: p.error for p in store.proposals(report.run_id) if p.error and not p.final}
    if "llm" in failed:
        return MISSING, f"no candidate: {failed['llm']}"
    if failed:
        told = "; ".join(f"{proposer}: {error}" for proposer, error in failed.items())
        return NOBODY, f"no candidate: {told}"
    return NONE_CORRECT, ""
