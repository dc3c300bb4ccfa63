"""Fitness F of a verdict, and the orders built on it."""

from __future__ import annotations

from evaluators.judge.diagnose import OF_STATUS
from evaluators.judge.session import WIDE
from evaluators.verdict import Evaluation, Timing


def is_correct(evaluation: Evaluation) -> bool:
    """Right results, whether or not it could be timed."""
    return evaluation.status in ("correct", "checked")


def is_broken(evaluation: Evaluation) -> bool:
    """Wrong in a way that a repair may cure. Tampering is not repaired and infrastructure trouble is not the candidate's."""
    return evaluation.status in OF_STATUS


def fitness(evaluation: Evaluation) -> float:
    """F: speedup over the stronger baseline; 0 unless correct and timed."""
    return evaluation.fitness if evaluation.status == "correct" else 0.0


def weak_spec(evaluation: Evaluation) -> tuple[str, ...]:
    """What passes on the spec though it computes nothing, and whether repaired inputs were judged too; empty where the spec is sound."""
    return tuple(map(str, evaluation.resources.get("weak_spec") or ()))


def rank(evaluation: Evaluation) -> tuple[float, bool, float, float]:
    """Sort key, best last. Where no speed-up counts because the spec is weak, the faster one still stands higher; where nothing can be
    timed, what compiled without spilling registers does."""
    kernels = evaluation.resources.get("kernels") or ()
    uncounted = evaluation.timing.ratio if evaluation.timing and weak_spec(evaluation) else 0.0
    spills = -float(sum(k.get("spills") or 0 for k in kernels))
    return fitness(evaluation), is_correct(evaluation), uncounted, spills


def may_win(evaluation: Evaluation) -> bool:
    """Whether a fresh measurement could still show a gain: it counts as a kernel, and its interval reaches above 1."""
    return fitness(evaluation) > 0 and evaluation.timing is not None and evaluation.timing.high > 1.0


def wins(evaluation: Evaluation) -> bool:
    """A gain: correct, a kernel of its own, and the whole interval of its speedup above 1 and narrow enough to be worth a figure."""
    t = evaluation.timing
    return fitness(evaluation) > 0 and t is not None and t.low > 1.0 and steady(t)


def steady(timing: Timing) -> bool:
    """Whether the interval says something of the program: a wider one comes of other work on the machine."""
    return timing.high <= WIDE * timing.low


def undecided(evaluation: Evaluation) -> bool:
    """What could be a gain and was measured too unsteadily to tell. A kernel whose whole interval lies below 1 is slower all the same."""
    return may_win(evaluation) and evaluation.timing is not None and not steady(evaluation.timing)


def diagnosis_of(evaluation: Evaluation) -> str:
    """The judge's diagnosis, or for a broken candidate what its status says."""
    if evaluation.diagnosis == "unknown":
        return OF_STATUS.get(evaluation.status, "unknown")
    return evaluation.diagnosis
