"""batch: many specs, one after another, resumable."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from agent.cli.exits import FAILURE, INTERRUPTED, NONE_CORRECT, CommandError, Interrupted
from agent.cli.optimize import (
    DTYPE,
    EVALUATIONS,
    JSON,
    LANGUAGE,
    MEMORY,
    MODEL,
    POLICY,
    PROFILE,
    PROPOSER,
    QUIET,
    SECONDS,
    SEED,
)
from agent.cli.options import Proposer

if TYPE_CHECKING:
    from rich.console import Console

    from agent.cli.session import Job
    from agent.report.batch import BatchRow
    from agent.settings import RunSettings
    from knowledge.runs.store import RunStore


def register(app: typer.Typer) -> None:
    """Add this command."""
    app.command()(batch)


@dataclass(frozen=True)
class _Item:
    ref: str
    target: str
    run_id: str


def batch(
    suites: Annotated[
        list[str],
        typer.Argument(
            metavar="SUITE…",
            help="Suites that ship (see `specs`), folders of specs, or single specs.",
            show_default=False,
        ),
    ],
    target: Annotated[
        list[str] | None, typer.Option(help="Target; may be repeated.  [default: auto]", show_default=False)
    ] = None,
    dtype: DTYPE = None,
    profile: PROFILE = None,
    evaluations: EVALUATIONS = 24,
    seconds: SECONDS = None,
    policy: POLICY = "greedy",
    memory: MEMORY = "inherit",
    proposer: PROPOSER = Proposer.auto,
    model: MODEL = None,
    language: LANGUAGE = None,
    seed: SEED = 0,
    name: Annotated[
        str | None,
        typer.Option(
            help="Name of the batch; a new one starts afresh.  [default: from what was asked]", show_default=False
        ),
    ] = None,
    as_json: JSON = False,
    quiet: QUIET = False,
) -> None:
    """Optimize every spec of the suites. The same command again goes on where it stopped, and repeats nothing that finished.

    One table at the end, one batch.html and batch.json for all. Exits 0 where every spec got a correct kernel, 4 where one did not, 1 where
    a run failed.
    """
    from agent.cli import console
    from agent.cli.optimize import notice, proposers_of
    from agent.report import write_batch
    from agent.report.batch import summary
    from agent.settings import RunSettings
    from evaluators.home import home
    from knowledge.runs.store import RunStore

    settings = RunSettings(
        evaluations=evaluations, seconds=seconds, policy=policy, memory=memory, proposers=proposers_of(proposer, model), model=model,
        languages=tuple(language or ()), seed=seed,
    )  # fmt: skip
    targets = _targets(target or ["auto"])
    sizes = profile.value if profile else None
    title = name or _name(suites, targets, dtype, sizes, settings)
    items = [
        _Item(ref, t, f"{title}-{Path(ref).stem.replace('::', '-').replace('.', '-')}-{t}")
        for t in targets
        for ref in members(suites)
    ]
    _distinct(items)
    folder = home() / "batches" / title
    out = console.stdout()
    progress = console.stderr() if as_json else out
    told = notice(proposer, settings)
    if told and not quiet:
        progress.print(f"[yellow]{told}[/]", soft_wrap=True)
    store = RunStore()
    jobs = _jobs(items, dtype, sizes, settings, store)
    rows: list[BatchRow] = []
    for number, item in enumerate(items, 1):
        if not quiet:
            progress.rule(f"{number} of {len(items)}: {Path(item.ref).stem} on {item.target}")
        try:
            rows.append(_one(item, jobs.get(item.run_id), store, progress, quiet=quiet))
        except Interrupted as stop:
            write_batch(title, rows, folder)
            raise CommandError(
                f"interrupted after {len(rows)} of {len(items)}; the same command goes on", INTERRUPTED
            ) from stop
        write_batch(title, rows, folder)
    page = folder / "batch.html"
    totals = summary(rows)
    if as_json:
        from dataclasses import asdict

        console.print_json({"name": title, "summary": totals, "rows": [asdict(r) for r in rows], "report": str(page)})
    else:
        _print(out, rows, page)
    if totals["failed"]:
        raise typer.Exit(FAILURE)
    if totals["correct"] < totals["specs"]:
        raise typer.Exit(NONE_CORRECT)


def _jobs(
    items: list[_Item], dtype: str | None, profile: str | None, settings: RunSettings, store: RunStore
) -> dict[str, Job]:
    """What is to be started, by run id; a run begun earlier has its spec in the store.

    Everything is read before anything is started: raises CommandError that names every spec that cannot be.
    """
    from agent.cli.exits import USAGE, code_of, one_line
    from agent.cli.session import prepare
    from knowledge.errors import RunNotFound

    jobs: dict[str, Job] = {}
    faults: list[str] = []
    for item in items:
        try:
            if store.get_run(item.run_id).id == item.run_id:
                continue
        except RunNotFound:
            pass
        try:
            jobs[item.run_id] = prepare(item.ref, item.target, dtype, profile, settings)
        except Exception as error:
            if code_of(error) != USAGE:
                raise
            faults.append(one_line(str(error)))
    if faults:
        raise CommandError(f"nothing was started: {'; '.join(dict.fromkeys(faults))}")
    return jobs


def _one(item: _Item, job: Job | None, store: RunStore, console: Console, *, quiet: bool) -> BatchRow:
    """One run: it starts where there is a ``job``, else it is resumed, or read if finished. A failure is a row, not the batch's end."""
    from agent.cli.exits import code_of, one_line
    from agent.cli.outcome import outcome
    from agent.cli.session import observe
    from agent.report.batch import BatchRow
    from agent.result import RunResult
    from agent.run import optimize, resume

    def run(listen: object) -> RunResult:
        assert callable(listen)
        if job is None:
            return resume(item.run_id, store=store, on_event=listen)
        return optimize(job.spec, job.target, job.settings, store=store, on_event=listen, run_id=item.run_id)

    try:
        report, folder = observe(store, run, console, quiet=quiet)
    except Interrupted:
        raise
    except Exception as error:
        if code_of(error) is None:
            console.print(f"[red]{type(error).__name__}[/]: {one_line(str(error))}", soft_wrap=True)
        text = f"{type(error).__name__}: {one_line(str(error))}"
        return BatchRow(spec=Path(item.ref).stem, target=item.target, dtype=job.spec.dtype if job else "", error=text)
    if not quiet:
        console.print(report.sentence, soft_wrap=True)
    code, line = outcome(report, store)
    if line and code != NONE_CORRECT:
        return BatchRow(spec=report.spec.name, target=item.target, dtype=report.spec.dtype, error=one_line(line))
    return BatchRow.of(report, str(folder / "report.html"))


def members(suites: list[str]) -> list[str]:
    """Spec references of what was asked for. Raises ``evaluators.errors.SpecError`` for an unknown one."""
    from evaluators.spec import suites as shipped

    refs: list[str] = []
    for asked in suites:
        if asked in shipped.names() or Path(asked).is_dir():
            refs += [str(p) for p in shipped.members(asked)]
        elif asked.startswith("aten::") or Path(asked).is_file():
            refs.append(asked)
        else:
            refs.append(str(shipped.find(asked, suites=True)))
    return list(dict.fromkeys(refs))


def _targets(names: list[str]) -> list[str]:
    from evaluators import targets as catalogue

    return list(dict.fromkeys(catalogue.load(n).name for n in names))


def _name(suites: list[str], targets: list[str], dtype: str | None, profile: str | None, settings: RunSettings) -> str:
    """A name that the same request always gets, so that repeating the command goes on with the same runs."""
    asked = json.dumps([suites, targets, dtype, profile, settings.to_dict()], sort_keys=True)
    return (
        f"{Path(suites[0]).stem.replace('::', '-').replace('.', '-')}-{hashlib.sha256(asked.encode()).hexdigest()[:6]}"
    )


def _distinct(items: list[_Item]) -> None:
    seen: dict[str, str] = {}
    for item in items:
        if seen.setdefault(item.run_id, item.ref) != item.ref:
            raise CommandError(
                f"two specs have the same name: {seen[item.run_id]} and {item.ref}; run them as two batches"
            )


def _print(console: Console, rows: list[BatchRow], page: Path) -> None:
    from rich.table import Table

    from agent.report.batch import shown, summary

    table = Table(box=None, pad_edge=False)
    heads = {"spec": "spec", "target": "target", "eager": "eager ms", "compile": "compile ms", "kernel": "kernel ms"}
    heads |= {"ratio": "speed-up", "interval": "95% interval", "roofline": "of roofline", "use": "use"}
    for key, head in heads.items():
        table.add_column(head, justify="left" if key in ("spec", "target", "use") else "right")
    for row in rows:
        cells = shown(row)
        table.add_row(*(cells[k] for k in heads))
    console.print(table)
    for row in rows:
        if row.error:
            console.print(f"{row.spec}: {row.error}", markup=False, soft_wrap=True)
        elif row.weak:
            console.print(f"{row.spec}: no credit: weak spec ({row.weak})", markup=False, soft_wrap=True)
    totals = summary(rows)
    mean = (
        f", geometric mean of what is recommended {totals['geomean_shipped']:.2f}×" if totals["geomean_shipped"] else ""
    )
    console.print(
        f"\n{totals['correct']} of {totals['specs']} with a correct kernel, {totals['faster']} surely faster{mean}"
    )
    console.print(f"report: {page}", soft_wrap=True)
