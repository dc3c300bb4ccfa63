"""The file of results: a line of JSON for every finished run, flushed to the disk, so that a kill loses at most the run under way."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from retrieval.ablation.plan import Plan, parse
from retrieval.errors import PlanError


@dataclass(frozen=True)
class Outcome:
    """What one search came to. ``best`` is F, at least 1: the winner's confirmed speed-up where it is a gain. ``curve`` is
    the best gain seen in the search after each evaluation, at least 1 each; it may be shorter than the budget where the
    search ended early."""

    best: float
    curve: Sequence[float]
    correct: int
    run_id: str = ""
    weak: bool = False


@dataclass(frozen=True)
class Record:
    """One run of one arm in a block. ``position`` is its place in the block's random order, from 0; ``sitting`` tells apart the judges that
    an interrupted block had; ``error`` is set where the run failed, which is then tried again by the next start."""

    spec: str
    seed: int
    arm: str
    position: int
    sitting: str
    best: float = 1.0
    curve: tuple[float, ...] = ()
    judged: int = 0
    correct: int = 0
    seconds: float = 0.0
    run_id: str = ""
    weak: bool = False
    error: str = ""

    @property
    def key(self) -> tuple[str, int, str]:
        """What identifies the run in its plan."""
        return self.spec, self.seed, self.arm


class Records:
    """The results of one ablation in ``folder``, with the plan they belong to."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path = folder / "runs.jsonl"

    def begin(self, plan: Plan, specs: Sequence[str], target: str) -> None:
        """Note the plan, or see that it is the one noted. Raises PlanError where another plan has results under this name."""
        self.folder.mkdir(parents=True, exist_ok=True)
        note = self.folder / "plan.json"
        wanted = {"name": plan.name, "plan": plan.data, "specs": list(specs), "target": target}
        if note.is_file():
            noted = json.loads(note.read_text(encoding="utf-8"))
            if noted != json.loads(json.dumps(wanted)):
                raise PlanError(
                    f"{plan.name}: {self.folder} holds results of another plan, other specs or another target; give this one another "
                    "name with --name"
                )
            return
        new = note.with_suffix(".new")
        new.write_text(json.dumps(wanted, indent=1), encoding="utf-8")
        new.replace(note)

    def plan(self) -> Plan:
        """The plan noted. Raises PlanError where there is none."""
        note = self.folder / "plan.json"
        if not note.is_file():
            have = sorted(p.parent.name for p in self.folder.parent.glob("*/plan.json"))
            known = f"there are {', '.join(have)}" if have else "there is none yet"
            raise PlanError(f"no ablation {self.folder.name!r}; {known}")
        noted = json.loads(note.read_text(encoding="utf-8"))
        return parse(noted["plan"], str(note), noted["name"])

    def read(self) -> list[Record]:
        """The latest record of every run, in the order of the file. A line cut off by a kill counts as not written."""
        if not self.path.is_file():
            return []
        found: dict[tuple[str, int, str], Record] = {}
        for line in self.path.read_bytes().split(b"\n")[:-1]:
            data = json.loads(line)
            record = Record(**{**data, "curve": tuple(data["curve"])})
            found[record.key] = record
        return list(found.values())

    def append(self, record: Record) -> None:
        """Write a record, and wait for the disk."""
        with self.path.open("ab") as file:
            file.write(json.dumps(asdict(record)).encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())

    def mend(self) -> None:
        """Cut off a last line that a kill left unfinished."""
        if self.path.is_file():
            content = self.path.read_bytes()
            whole = content.rfind(b"\n") + 1
            if whole < len(content):
                os.truncate(self.path, whole)
