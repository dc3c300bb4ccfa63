"""What the runs say: main effects and two-way interactions of the factors on log(max(F, 1)), and controls against the product.

Two intervals are given of each effect. The mixed-effects model's (a random intercept per spec) is about these specs; the
bootstrap over specs is about specs like these, and holds where the effect differs from one to the next.
"""

from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from retrieval.ablation.design import Arm
from retrieval.ablation.plan import Plan
from retrieval.ablation.records import Record

if TYPE_CHECKING:
    import pandas as pd

RESAMPLES = 10_000
FEWEST = 3
"""Specs from which on a variance between them is estimated."""
Array = NDArray[np.float64]
Limits = tuple[float, float] | tuple[None, None]


@dataclass(frozen=True)
class Effect:
    """``estimate`` is on the log scale: exp of it is a ratio of geometric means. ``kind`` is main, interaction or control.

    A main effect is the first level over the other; an interaction how much larger the one's effect is at the other's
    first level; a control the product over the control. ``low`` and ``high`` are the interval reported, made by
    ``method`` (model or bootstrap), None where there are too few blocks for any; ``boot_low`` and ``boot_high`` are the
    bootstrap's."""

    name: str
    kind: str
    estimate: float
    low: float | None
    high: float | None
    method: str
    boot_low: float | None
    boot_high: float | None


@dataclass(frozen=True)
class Analysis:
    """``notes`` say what a reader must know: why there is no model, what is confounded, which blocks were left out."""

    effects: tuple[Effect, ...]
    notes: tuple[str, ...]
    blocks: int
    specs: int
    left_out: int


def tidy(plan: Plan, records: Sequence[Record]) -> pd.DataFrame:
    """One row per run that did not fail: what was asked, what came out, and a column per factor (empty for controls)."""
    import pandas as pd

    levels = {a.name: a.levels for a in plan.arms}
    rows = [
        {
            "spec": r.spec, "seed": r.seed, "arm": r.arm, "position": r.position, "sitting": r.sitting,
            **{f"factor_{f.name}": levels[r.arm].get(f.name, "") for f in plan.factors},
            "outcome": math.log(max(r.best, 1.0)), "best": r.best,
            "search_best": max(r.curve, default=1.0), "judged": r.judged, "correct": r.correct,
            "seconds": r.seconds, "weak": r.weak, "run_id": r.run_id,
        }
        for r in records
        if not r.error and r.arm in levels
    ]  # fmt: skip
    return pd.DataFrame(rows)


def tidy_curves(records: Sequence[Record]) -> pd.DataFrame:
    """One row per run and evaluation (from 1): the best gain of the search so far, and its logarithm."""
    import pandas as pd

    rows = [
        {"spec": r.spec, "seed": r.seed, "arm": r.arm, "evaluation": n, "best": x, "outcome": math.log(x)}
        for r in records
        if not r.error
        for n, x in enumerate(r.curve, 1)
    ]
    return pd.DataFrame(rows)


def complete(plan: Plan, records: Sequence[Record]) -> dict[tuple[str, int], dict[str, Record]]:
    """The blocks in which every arm finished: only there are arms compared under the same conditions. Weak specs are
    left out: no speed-up counts there."""
    blocks: dict[tuple[str, int], dict[str, Record]] = {}
    for r in records:
        if not r.error:
            blocks.setdefault((r.spec, r.seed), {})[r.arm] = r
    wanted = {a.name for a in plan.arms}
    return {key: runs for key, runs in blocks.items() if wanted <= set(runs) and not any(r.weak for r in runs.values())}


def columns(plan: Plan) -> tuple[dict[str, Array], list[str]]:
    """Coded columns over the factorial arms, by name, and in words those left out because the arms cannot tell them from others.

    The code of level j is 1/L minus its indicator, so that a coefficient is the first level's mean minus level j's; of
    two levels +½ and −½.
    """
    arms = [a for a in plan.arms if a.levels]
    main: dict[str, Array] = {}
    owner: dict[str, str] = {}
    for f in plan.factors:
        for level in list(f.levels)[1:]:
            first = next(iter(f.levels))
            name = f.name if (first, len(f.levels)) == ("on", 2) else f"{f.name}: {first} over {level}"
            main[name] = np.array([1 / len(f.levels) - (a.levels[f.name] == level) for a in arms])
            owner[name] = f.name
    kept: dict[str, Array] = {}
    confounded: list[str] = []
    pairs = {f"{a} × {b}": main[a] * main[b] for a, b in itertools.combinations(main, 2) if owner[a] != owner[b]}
    for name, column in (main | pairs).items():
        base = np.column_stack([np.ones(len(arms)), *kept.values(), column])
        if np.linalg.matrix_rank(base) == base.shape[1]:
            kept[name] = column
        else:
            twin = next((k for k, v in kept.items() if abs(np.corrcoef(v, column)[0, 1]) > 1 - 1e-9), "")
            confounded.append(f"{name} from {twin}" if twin else f"{name} from sums of the others")
    return kept, confounded


def analyse(plan: Plan, records: Sequence[Record], seed: int = 0) -> Analysis:
    """Effects over the complete blocks; none where there are no such blocks."""
    blocks = complete(plan, records)
    started = {(r.spec, r.seed) for r in records}
    left_out = len(started) - len(blocks)
    notes = []
    if left_out:
        notes.append(
            f"{left_out} of {len(started)} blocks are left out: not every arm finished there, or the spec is weak."
        )
    torn = sum(1 for runs in blocks.values() if len({r.sitting for r in runs.values()}) > 1)
    if torn:
        notes.append(f"{torn} blocks were interrupted: their arms did not share one judge throughout.")
    specs = list(dict.fromkeys(spec for spec, _ in blocks))
    if not blocks:
        return Analysis((), (*notes, "No block is complete: there is nothing to compare yet."), 0, 0, left_out)
    units: list[list[dict[str, Record]]] = [[runs for (s, _), runs in blocks.items() if s == spec] for spec in specs]
    unit = "specs"
    if len(specs) < 2:
        units, unit = [[runs] for runs in blocks.values()], "blocks"
    if len(units) < 2:
        notes.append("There is one block only: estimates have no interval.")
    else:
        notes.append(f"Bootstrap intervals resample {len(units)} {unit}.")
    effects: list[Effect] = []
    if plan.factors:
        effects += _factorial(plan, specs, blocks, units, notes, seed)
    effects += _controls(plan.arms, units, seed)
    return Analysis(tuple(effects), tuple(notes), len(blocks), len(specs), left_out)


def _factorial(
    plan: Plan,
    specs: Sequence[str],
    blocks: Mapping[tuple[str, int], Mapping[str, Record]],
    units: Sequence[Sequence[Mapping[str, Record]]],
    notes: list[str],
    seed: int,
) -> list[Effect]:
    arms = [a.name for a in plan.arms if a.levels]
    kept, confounded = columns(plan)
    if confounded:
        notes.append(f"These arms cannot tell {', '.join(confounded)}; what is listed is the sum of both.")
    design = np.column_stack([np.ones(len(arms)), *kept.values()])
    # Every block has the same arms, so the estimate of a set of blocks is the mean of theirs.
    solve = np.linalg.pinv(design)
    own = np.array([np.mean([solve @ _outcomes(runs, arms) for runs in unit], axis=0) for unit in units])
    low, high = bootstrap(own, seed)
    estimate = own.mean(axis=0)
    fitted = None
    if len(specs) < FEWEST:
        notes.append(f"A mixed-effects model needs at least {FEWEST} specs; there is none here.")
    else:
        y = np.concatenate([_outcomes(runs, arms) for runs in blocks.values()])
        groups = np.repeat([spec for spec, _ in blocks], len(arms))
        fitted = mixed(y, np.tile(design, (len(blocks), 1)), groups)
        if isinstance(fitted, str):
            notes.append(f"The mixed-effects model is not used: {fitted}; intervals are the bootstrap's.")
            fitted = None
    out = []
    for n, name in enumerate(kept, 1):
        boot: Limits = (float(low[n]), float(high[n])) if len(units) > 1 else (None, None)
        kind = "interaction" if " × " in name else "main"
        value, interval, method = float(estimate[n]), boot, "bootstrap"
        if fitted is not None:
            value, method = float(fitted[0][n]), "model"
            interval = (float(fitted[1][n]), float(fitted[2][n]))
        out.append(Effect(name, kind, value, interval[0], interval[1], method, boot[0], boot[1]))
    return out


def mixed(y: Array, x: Array, groups: NDArray[np.str_]) -> tuple[Array, Array, Array] | str:
    """Estimates and 95% limits of the fixed effects with a random intercept per group, by REML; or in words why there are none."""
    from statsmodels.regression.mixed_linear_model import MixedLM
    from statsmodels.tools.sm_exceptions import ConvergenceWarning

    if float(np.var(y)) < 1e-12:
        return "all outcomes are equal"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("error", ConvergenceWarning)
        try:
            found = MixedLM(y, x, groups=groups).fit(reml=True, method=["lbfgs", "powell"])
        except ConvergenceWarning:
            return "its fit is singular or did not converge"
        except np.linalg.LinAlgError:
            return "it is singular"
    count = x.shape[1]
    limits = np.asarray(found.conf_int())[:count]
    if not np.all(np.isfinite(limits)) or float(found.scale) < 1e-12:
        return "it is singular"
    if float(np.asarray(found.cov_re)[0, 0]) < 1e-8 * float(found.scale):
        return "it is singular (no variance between specs)"
    return np.asarray(found.fe_params), limits[:, 0], limits[:, 1]


def bootstrap(own: Array, seed: int) -> tuple[Array, Array]:
    """95% percentile limits of the mean over the rows of ``own``, which are resampled."""
    rng = np.random.default_rng(seed)
    count = len(own)
    weights = rng.multinomial(count, np.full(count, 1 / count), size=RESAMPLES) / count
    low, high = np.percentile(weights @ own, [2.5, 97.5], axis=0)
    return low, high


def _controls(arms: Sequence[Arm], units: Sequence[Sequence[Mapping[str, Record]]], seed: int) -> list[Effect]:
    """The product's arm (the first of the factorial, where there is one, else the first arm) over each arm outside the factorial."""
    product = arms[0].name
    called = "product" if arms[0].levels else product
    others = [a.name for a in arms[1:] if not a.levels]
    out = []
    for name in others:
        own = np.array([[np.mean([_gain(runs, product, name) for runs in unit])] for unit in units])
        low, high = bootstrap(own, seed)
        limits: Limits = (float(low[0]), float(high[0])) if len(units) > 1 else (None, None)
        out.append(
            Effect(
                f"{called} over {name}",
                "control",
                float(own.mean()),
                limits[0],
                limits[1],
                "bootstrap",
                limits[0],
                limits[1],
            )
        )
    return out


def _gain(runs: Mapping[str, Record], one: str, other: str) -> float:
    return math.log(max(runs[one].best, 1.0)) - math.log(max(runs[other].best, 1.0))


def _outcomes(runs: Mapping[str, Record], arms: Sequence[str]) -> Array:
    return np.array([math.log(max(runs[a].best, 1.0)) for a in arms])
