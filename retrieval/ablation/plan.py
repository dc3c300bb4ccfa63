"""Plans: a YAML file that says what is varied, on which specs, and with how many evaluations."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from importlib.resources import files
from pathlib import Path
from typing import Any

from evaluators.reading import read_yaml
from evaluators.suggest import suggest
from retrieval.ablation.design import CONTROLS, Arm, Factor, combinations
from retrieval.arms import Arms
from retrieval.errors import ArmsError, PlanError

SWITCHES = tuple(f.name for f in fields(Arms) if f.name != "seed")
FIELDS = ("description", "factors", "fraction", "arms", "suite", "specs", "target", "evaluations", "seeds", "seed")
MOST_RUNS = 100_000
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


@dataclass(frozen=True)
class Plan:
    """A checked plan. ``specs`` are references as `optimize` takes them, or suites; ``data`` is the file's content."""

    name: str
    description: str
    factors: tuple[Factor, ...]
    half: bool
    arms: tuple[Arm, ...]
    specs: tuple[str, ...]
    target: str
    evaluations: int
    seeds: tuple[int, ...]
    seed: int
    data: Mapping[str, Any]


def shipped() -> dict[str, Path]:
    """Plans that come with the project, by name."""
    folder = Path(str(files("corpora") / "ablations"))
    return {p.stem: p for p in sorted(folder.glob("*.yaml"))}


def load(ref: str, name: str | None = None) -> Plan:
    """The plan of a file, or of a shipped plan's name. Raises PlanError: ``FILE: FIELD: what is wrong; what to do``."""
    known = shipped()
    if ref not in known and not ref.endswith((".yaml", ".yml")):
        raise PlanError(f"no plan {ref!r}: give a YAML file, or one of those that ship; {suggest(ref, known)}")
    path = known.get(ref) or Path(ref)
    if not path.is_file():
        raise PlanError(f"{path}: no such file; plans that ship are {', '.join(known)}")
    return parse(read_yaml(path), str(path), name or path.stem)


def check_name(name: str) -> str:
    """``name`` where it can be a folder's. Raises PlanError."""
    if not _NAME.fullmatch(name):
        raise PlanError(f"{name!r} cannot name an ablation: use letters, digits, '.', '_' and '-', at most 64")
    return name


def parse(data: Any, where: str, name: str) -> Plan:
    """The plan that ``data`` describes; ``where`` is how messages call its file."""
    if not isinstance(data, dict):
        raise PlanError(f"{where}: the file holds no mapping; write the fields of a plan: {', '.join(FIELDS)}")
    for key in data:
        if key not in FIELDS:
            raise PlanError(f"{where}: {key}: unknown field; {suggest(str(key), FIELDS)}")
    factors = _factors(data.get("factors"), where)
    fraction = data.get("fraction", "full")
    if fraction not in ("full", "half"):
        raise PlanError(f"{where}: fraction: {fraction!r} should be full or half")
    half = fraction == "half"
    if half and (len(factors) < 3 or any(len(f.levels) != 2 for f in factors)):
        raise PlanError(f"{where}: fraction: half needs at least three factors of two levels each; use full")
    try:
        arms = tuple(combinations(factors, half)) if factors else ()
    except ArmsError as error:
        raise PlanError(f"{where}: factors: a combination cannot retrieve: {error}") from None
    arms += _controls(data.get("arms", []), where, {a.name for a in arms})
    if len(arms) < 2:
        raise PlanError(f"{where}: factors: there is only one arm; give a factor with two levels, or controls in arms")
    plan = Plan(
        name=check_name(name),
        description=_text(data, "description", "", where),
        factors=factors,
        half=half,
        arms=arms,
        specs=_specs(data, where),
        target=_text(data, "target", "auto", where),
        evaluations=_count(data.get("evaluations"), "evaluations", 1, where),
        seeds=_seeds(data.get("seeds", 1), where),
        seed=_count(data.get("seed", 0), "seed", 0, where),
        data=data,
    )
    if len(arms) * len(plan.seeds) > MOST_RUNS:
        raise PlanError(f"{where}: factors: {len(arms)} arms are too many; use fewer factors, or fraction: half")
    return plan


def _factors(given: Any, where: str) -> tuple[Factor, ...]:
    if given is None:
        return ()
    if not isinstance(given, dict) or not given:
        raise PlanError(f"{where}: factors: write a mapping, e.g. structure: [on, off]")
    out = []
    owner: dict[str, str] = {}
    total = 1
    for name, levels in given.items():
        field = f"factors.{name}"
        if not _NAME.fullmatch(str(name)):
            raise PlanError(f"{where}: {field}: use letters, digits, '.', '_' and '-' in a name")
        if isinstance(levels, list):
            if name not in SWITCHES:
                raise PlanError(
                    f"{where}: {field}: no switch of retrieval; {suggest(str(name), SWITCHES)}, or write levels with their switches"
                )
            if len(levels) != 2 or not all(isinstance(v, bool) for v in levels) or levels[0] == levels[1]:
                raise PlanError(f"{where}: {field}: a switch has the levels [on, off], the product's own first")
            factor = Factor(name, {"on" if v else "off": {name: v} for v in levels})
        elif isinstance(levels, dict) and len(levels) >= 2:
            factor = Factor(name, {level: _switches(s, f"{field}.{level}", where) for level, s in levels.items()})
        else:
            raise PlanError(f"{where}: {field}: give [on, off], or at least two levels with the switches of each")
        for switch in {s for level in factor.levels.values() for s in level}:
            if switch in owner:
                raise PlanError(f"{where}: {field}: {switch} is set by factors.{owner[switch]} too; set it in one")
            owner[switch] = name
        total *= len(factor.levels)
        if total > MOST_RUNS:
            raise PlanError(f"{where}: {field}: too many combinations; use fewer factors")
        out.append(factor)
    return tuple(out)


def _switches(given: Any, field: str, where: str) -> dict[str, bool]:
    if not isinstance(given, dict):
        raise PlanError(f"{where}: {field}: write the switches it sets, e.g. {{lexical: off}}, or {{}} for none")
    for name, value in given.items():
        if name not in SWITCHES:
            raise PlanError(f"{where}: {field}.{name}: no switch of retrieval; {suggest(str(name), SWITCHES)}")
        if not isinstance(value, bool):
            raise PlanError(f"{where}: {field}.{name}: {value!r} should be on or off")
    return dict(given)


def _controls(given: Any, where: str, taken: set[str]) -> tuple[Arm, ...]:
    """Arms beside the factorial: names of CONTROLS, or name → switches."""
    if isinstance(given, list):
        for name in given:
            if name not in CONTROLS:
                raise PlanError(f"{where}: arms: no arm {name!r}; {suggest(str(name), CONTROLS)}")
        if len(set(given)) != len(given):
            raise PlanError(f"{where}: arms: an arm is named twice")
        given = {name: CONTROLS[name] for name in given}
    if not isinstance(given, dict):
        raise PlanError(f"{where}: arms: write a list of {', '.join(CONTROLS)}, or names with their switches")
    out = []
    for name, switches in given.items():
        if not _NAME.fullmatch(str(name)) or name in taken:
            raise PlanError(f"{where}: arms.{name}: use another name, of letters, digits, '.', '_' and '-'")
        arm = Arm(name, {}, _switches(switches, f"arms.{name}", where))
        try:
            Arms(**arm.switches)
        except ArmsError as error:
            raise PlanError(f"{where}: arms.{name}: {error}") from None
        out.append(arm)
    return tuple(out)


def _specs(data: Mapping[str, Any], where: str) -> tuple[str, ...]:
    out: list[str] = []
    if data.get("suite") is not None:
        out.append(_text(data, "suite", "", where))
    specs = data.get("specs", [])
    if not isinstance(specs, list) or not all(isinstance(s, str) and s for s in specs):
        raise PlanError(f"{where}: specs: write a list of names or files")
    out += specs
    if not out:
        raise PlanError(f"{where}: specs: missing; name specs or files, or a suite in suite")
    return tuple(dict.fromkeys(out))


def _seeds(given: Any, where: str) -> tuple[int, ...]:
    if isinstance(given, list):
        seeds = tuple(_count(s, "seeds", 0, where) for s in given)
        if not seeds or len(set(seeds)) != len(seeds):
            raise PlanError(f"{where}: seeds: write different numbers, or how many there are")
        return seeds
    return tuple(range(_count(given, "seeds", 1, where, most=1000)))


def _count(value: Any, field: str, least: int, where: str, most: int = 1_000_000) -> int:
    if value is None:
        raise PlanError(f"{where}: {field}: missing; write a whole number")
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise PlanError(f"{where}: {field}: {value!r} should be a whole number from {least} to {most}")
    return value


def _text(data: Mapping[str, Any], field: str, default: str, where: str) -> str:
    value = data.get(field, default)
    if not isinstance(value, str):
        raise PlanError(f"{where}: {field}: {value!r} should be text")
    return value
