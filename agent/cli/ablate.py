"""ablate: what each part of retrieval is worth, as a designed experiment."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from agent.cli.exits import FAILURE, INTERRUPTED, CommandError
from agent.cli.optimize import JSON, QUIET

if TYPE_CHECKING:
    from agent.result import RunResult
    from agent.settings import RunSettings
    from evaluators.spec.kernel_spec import KernelSpec
    from evaluators.target import Target
    from retrieval.ablation.design import Arm
    from retrieval.ablation.experiment import Run
    from retrieval.ablation.plan import Plan
    from retrieval.ablation.records import Outcome, Records


def register(app: typer.Typer) -> None:
    """Add this command."""
    app.command()(ablate)


def ablate(
    plan: Annotated[
        str | None,
        typer.Argument(metavar="PLAN", help="YAML file of a plan, or the name of one that ships.", show_default=False),
    ] = None,
    report: Annotated[
        str | None, typer.Option(help="Analyse this ablation's results again; runs nothing.", show_default=False)
    ] = None,
    name: Annotated[
        str | None, typer.Option(help="Name of its folder.  [default: the plan's file name]", show_default=False)
    ] = None,
    as_json: JSON = False,
    quiet: QUIET = False,
) -> None:
    """What is each part of retrieval worth? Runs every arm of a plan on every spec with the same seed and budget, and estimates effects.

    The same command again goes on where it stopped, and repeats nothing that finished. The report lies under ablations/NAME in the data
    folder; docs/ablations.md says how to write a plan and read a report. Exits 1 where a run failed.
    """
    from agent.cli.console import print_json, stderr, stdout
    from agent.figures import count
    from agent.report.ablation import sentences, write_ablation
    from evaluators.home import home
    from retrieval.ablation.plan import check_name, load, shipped
    from retrieval.ablation.records import Records

    if (plan is None) == (report is None):
        raise CommandError(
            f"give a plan, a file or one of {', '.join(shipped())}; or --report with the name of an ablation"
        )
    if report is not None:
        records = Records(home() / "ablations" / check_name(report))
        asked = records.plan()
    else:
        asked = load(str(plan), name)
        records = Records(home() / "ablations" / asked.name)
        _perform(asked, records, as_json=as_json, quiet=quiet)
    found = records.read()
    if not any(not r.error for r in found):
        problem = next((r.error for r in found if r.error), "no run has finished yet")
        raise CommandError(f"{asked.name}: nothing to analyse: {problem}", FAILURE)
    results = write_ablation(asked, found, records.folder)
    if as_json:
        print_json({**results, "folder": str(records.folder), "report": str(records.folder / "report.html")})
    else:
        out = stdout()
        for line in sentences(results):
            out.print(line, markup=False, soft_wrap=True)
        out.print(f"report: {records.folder / 'report.html'}", soft_wrap=True)
    failed = [r for r in found if r.error]
    if failed:
        stderr().print(
            f"{count(len(failed), 'run')} failed; the same command tries again", markup=False, soft_wrap=True
        )
        raise typer.Exit(FAILURE)


def _perform(plan: Plan, records: Records, *, as_json: bool, quiet: bool) -> None:
    """Run what is missing, with a line for every run."""
    from filelock import FileLock, Timeout

    from agent.cli.batch import members
    from agent.cli.console import stderr, stdout
    from agent.cli.exits import one_line
    from agent.cli.session import prepare
    from agent.settings import RunSettings
    from retrieval.ablation.experiment import Step, perform

    console = stderr() if as_json else stdout()
    data = records.folder / "data"
    settings = RunSettings(evaluations=plan.evaluations, stagnation=None, roofline=None, home=str(data))
    jobs = [prepare(ref, plan.target, None, None, settings) for ref in members(list(plan.specs))]
    specs = [job.spec for job in jobs]
    names = [s.name for s in specs]
    for twice in sorted({n for n in names if names.count(n) > 1}):
        raise CommandError(f"{plan.name}: specs: two are named {twice}; leave one out")
    target = jobs[0].target
    if not target.present:
        raise CommandError(f"{plan.name}: target: {target.name} is not here, so nothing can be timed; use target: auto")
    records.begin(plan, names, target.name)

    def tell(step: Step) -> None:
        if not quiet:
            r = step.record
            what = (
                one_line(r.error)
                if r.error
                else f"{r.best:.2f}× ({r.correct} of {r.judged} correct, {r.seconds:.0f} s)"
            )
            console.print(
                f"{step.done} of {step.total}: {r.spec} seed {r.seed} {r.arm}: {what}", markup=False, soft_wrap=True
            )

    @contextmanager
    def block(spec: KernelSpec, _seed: int) -> Iterator[Run]:
        from agent import assemble

        with assemble.judge(spec, target) as judge:
            yield lambda arm, spec, seed: _search(arm, spec, target, seed, settings, judge)

    def described(error: Exception) -> str:
        return f"{type(error).__name__}: {one_line(str(error))}"

    try:
        with FileLock(records.folder / "ablation.lock", timeout=0):
            perform(plan, specs, records, block, tell, described)
    except Timeout:
        raise CommandError(f"{plan.name}: another process is running this ablation; wait for it", FAILURE) from None
    except KeyboardInterrupt:
        done = sum(1 for r in records.read() if not r.error)
        total = len(specs) * len(plan.seeds) * len(plan.arms)
        raise CommandError(f"interrupted after {done} of {total} runs; the same command goes on", INTERRUPTED) from None


def _search(arm: Arm, spec: KernelSpec, target: Target, seed: int, settings: RunSettings, judge: Any) -> Outcome:
    """One search under ``judge``; one that a kill cut short goes on from what it had judged."""
    import hashlib
    from dataclasses import replace

    from agent import assemble
    from agent.run import optimize, resume
    from knowledge.errors import RunNotFound

    settings = replace(settings, seed=seed, arms={**arm.switches, "seed": seed})
    store = assemble.open_store(settings)
    key = hashlib.sha256(arm.name.encode()).hexdigest()[:8]
    run_id = f"{spec.name}-{seed}-{key}"
    shared = assemble.shared(judge)
    try:
        begun = store.get_run(run_id).id == run_id
    except RunNotFound:
        begun = False
    if begun:
        return _outcome(resume(run_id, judge_factory=shared, store=store, home=settings.home))
    return _outcome(optimize(spec, target, settings, judge_factory=shared, store=store, run_id=run_id))


def _outcome(result: RunResult) -> Outcome:
    from agent.search.fitness import fitness, is_correct, weak_spec, wins
    from retrieval.ablation.records import Outcome

    curve: list[float] = []
    for e in result.evaluations:
        curve.append(max(curve[-1] if curve else 1.0, fitness(e) if wins(e) else 1.0))
    confirmed = result.confirmed
    best = fitness(confirmed) if result.recommendation == "kernel" and confirmed and wins(confirmed) else 1.0
    weak = any(weak_spec(e) for e in result.evaluations)
    return Outcome(best, curve, sum(map(is_correct, result.evaluations)), result.run_id, weak)
