"""What is checked beyond a spec's own inputs and sizes: hard inputs, other sizes of the declared ranges, many calls in a row.

Each check gives a line for the verdict, or raises :class:`Failed`.
"""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING

from evaluators.judge.processes import Failed

if TYPE_CHECKING:
    from evaluators.judge.reference import Reference
    from evaluators.judge.session import Session

HARD = 900
"""Number of the case with hard inputs."""
ELSEWHERE = 1000
"""Number of the first case at other sizes."""
REPEATS = 40
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


def sizes(dims: dict[str, int] | None) -> str:
    """Sizes in words."""
    return " ".join(f"{k}={v}" for k, v in (dims or {}).items())


def _elsewhere(named: str, detail: str) -> str:
    return (
        f"right at its own sizes, wrong at {named}, which lie within the declared ranges: {detail}; take sizes from the inputs, or "
        "raise an error for sizes that the kernel is not written for"
    )


def races(session: Session) -> str:
    """Many short calls on one set of inputs, for sources that use threads or atomics: a data race shows only now and then."""
    if session.inputs_may_change or not _THREADS.search(session.build.source):
        return ""
    begin, count = time.monotonic(), 0
    while count < REPEATS and time.monotonic() - begin < REPEAT_S:
        verdict = session.run(0, None)
        count += 1
        if not verdict["ok"]:
            raise Beyond(
                "nondeterministic",
                f"right in {count - 1 + session.calls} calls, wrong in another on the same inputs: threads or programs that write to one "
                f"place (a missing atomic, barrier or reduction clause)? {verdict['detail']}",
            )
    return f"right in {count} more calls in a row"
