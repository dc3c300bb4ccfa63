"""What is checked beyond a spec's own inputs and sizes: hard inputs, other sizes of the declared ranges, many calls in a row.

Each check gives a line for the verdict, or raises :class:`Failed`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from evaluators.judge.processes.processes import Failed

if TYPE_CHECKING:
    from evaluators.judge.reference import Reference
    from evaluators.judge.session import Session
    from evaluators.judge.weak import Weak

HARD = 900
"""Number of the case with hard inputs."""
PARAMETERS = 950
"""Number of the case with other parameters."""
ELSEWHERE = 1000
"""Number of the first case at other sizes."""
_OTHER_PARAMETERS, _REPAIRED = 100, 101
"""Places of the worker's models for these variants."""
REPEATS = 400
REPEAT_S = 0.15
_THREADS = re.compile(r"\bomp\b|thread|atomic|std::async|\bbarrier\b", re.I)


class Beyond(Failed):
    """Right on the spec's own inputs and sizes, wrong beyond them."""


def hard_inputs(session: Session, poison: int) -> str:
    """One run on hard inputs, where the spec allows any."""
    how = session.hand_over(HARD, hard=True)
    if not how:
        return ""
    verdict = session.run(HARD, poison)
    if not verdict["ok"]:
        raise Beyond(
            verdict["status"],
            f"right on the inputs that the spec describes, wrong on harder ones ({how}), which it does not rule out: {verdict['detail']}",
        )
    return f"right on harder inputs ({how})"


def other_sizes(session: Session, places: list[Reference], poison: int) -> str:
    """One run at each of the other sizes. A candidate is right there, or refuses them: raises an error of its own.

    A kernel written for one size is legitimate, but must say so; results that are silently wrong, and crashes, are failures.
    """
    right: list[str] = []
    refused: list[tuple[str, str]] = []
    for index, place in enumerate(places):
        named = sizes(place.sizes)
        with session.at(place, index + 1):
            try:
                session.load()
                session.hand_over(ELSEWHERE + index)
                verdict = session.run(ELSEWHERE + index, poison)
            except Failed as failure:
                if failure.raised:
                    refused.append((named, failure.message.splitlines()[0][:200]))
                    continue
                raise Beyond(failure.status, _elsewhere(named, failure.message)) from None
        if not verdict["ok"]:
            raise Beyond(verdict["status"], _elsewhere(named, verdict["detail"]))
        right.append(named)
    parts = [f"right at {len(right)} other sizes ({'; '.join(right)})"] if right else []
    if refused:
        parts.append(
            f"for its own sizes only: at {refused[0][0]}, within the declared ranges, it raises {refused[0][1]}"
            if not right
            else f"refuses {'; '.join(n for n, _ in refused)} ({refused[0][1]})"
        )
    return ", ".join(parts)


def other_parameters(session: Session, poison: int) -> str:
    """One run with other parameters than the constructor's, which may all be ones and zeros. The candidate is constructed again."""
    place = session.reference.other("parameters", [PARAMETERS])
    if place is None:
        return ""
    found = _variant(session, place, _OTHER_PARAMETERS, [PARAMETERS], poison)
    if found is not None:
        raise Beyond(
            found.status,
            f"right with the reference's own parameters, wrong where they have other values: {found.message}; use what the parameters "
            "hold when forward is called",
        )
    return "right with other parameters"


def repaired(session: Session, weak: Weak, poison: int) -> None:
    """Runs on repaired inputs, where what the spec describes lets pass what computes nothing."""
    if weak.place is None:
        return
    found = _variant(session, weak.place, _REPAIRED, list(weak.place.seeds), poison)
    if found is not None:
        how = ", ".join(weak.changes)
        raise Beyond(
            found.status,
            f"right on the spec's own inputs, on which {', '.join(weak.why)}; wrong on repaired ones ({how}): {found.message}",
        )


def _variant(session: Session, place: Reference, number: int, cases: list[int], poison: int) -> Failed | None:
    """The candidate constructed again for a variant, and run on its cases; what was wrong."""
    with session.at(place, number):
        try:
            session.load()
            for case in cases:
                session.hand_over(case)
                verdict = session.run(case, poison)
                if not verdict["ok"]:
                    return Failed(verdict["status"], verdict["detail"])
        except Failed as failure:
            return failure
    return None


def sizes(dims: dict[str, int] | None) -> str:
    """Sizes in words."""
    return " ".join(f"{k}={v}" for k, v in (dims or {}).items())


def _elsewhere(named: str, detail: str) -> str:
    return (
        f"right at its own sizes, wrong at {named}, which lie within the declared ranges: {detail}; take sizes from the inputs, or "
        "raise an error for sizes that the kernel is not written for"
    )


def races(session: Session) -> str:
    """Many calls on one set of inputs, for sources that use threads or atomics: a data race shows only now and then."""
    if session.inputs_may_change or not _THREADS.search(session.build.source):
        return ""
    message = {
        "op": "repeat",
        "case": 0,
        "seed": session.reference.seeds[0] % 2**63,
        "most": REPEATS,
        "seconds": REPEAT_S,
    }
    reply = session.worker.ask(message, session.settings.run_s)
    verdict = session.check(0, reply)
    if not verdict["ok"]:
        raise Beyond(
            "nondeterministic",
            f"right when called once, wrong in one of {reply['calls']} calls in a row on the same inputs: do threads write to one "
            f"place (a missing atomic, barrier or reduction clause)? {verdict['detail']}",
        )
    return f"right in {reply['calls']} calls in a row"
