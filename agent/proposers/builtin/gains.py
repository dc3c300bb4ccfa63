"""What the candidates judged so far say about single knobs: how much each one moved, and which way the last gain went."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from agent.proposers.base import Judged
from agent.proposers.builtin.plan import SCHEDULE, Knob
from evaluators.candidate import Candidate


def _changed(a: Candidate, b: Candidate) -> str | None:
    """The one knob in which two candidates of equal schedule differ; ``None`` unless exactly one."""
    if a.language != b.language or set(a.knobs) != set(b.knobs):
        return None
    names = [k for k in a.knobs if a.knobs[k] != b.knobs[k]]
    return names[0] if len(names) == 1 and not names[0].endswith(f".{SCHEDULE}") else None


def effects(seen: Sequence[Judged], language: str) -> dict[str, float]:
    """Largest relative change of fitness seen for a single-knob difference, per knob."""
    good = [j for j in seen if j.evaluation.fitness > 0 and j.candidate.language == language]
    out: dict[str, float] = {}
    for i, a in enumerate(good):
        for b in good[i + 1 :]:
            name = _changed(a.candidate, b.candidate)
            if name is not None:
                low, high = sorted((a.evaluation.fitness, b.evaluation.fitness))
                out[name] = max(out.get(name, 0.0), high / low - 1)
    return out


def last_gain(seen: Sequence[Judged], parent: Judged) -> Callable[[str, Knob], bool] | None:
    """Whether a step continues the change that made ``parent`` better than its own parent."""
    by_id = {j.candidate.id: j for j in seen}
    before = next((by_id[p] for p in parent.candidate.parents if p in by_id), None)
    if before is None or before.evaluation.fitness >= parent.evaluation.fitness:
        return None
    name = _changed(before.candidate, parent.candidate)
    if name is None:
        return None
    old, new = before.candidate.knobs[name], parent.candidate.knobs[name]
    if not isinstance(old, int) or not isinstance(new, int):
        return None
    return lambda key, value: key == name and isinstance(value, int) and (value > new) == (new > old)
