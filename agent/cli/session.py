"""Drive one search from the command line: check what was asked, show progress, write the report, say what came out."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from shutil import which
from typing import TYPE_CHECKING, Literal

import typer

from agent.cli.exits import MISSING, CommandError, Interrupted, one_line

if TYPE_CHECKING:
    from agent.cli.live import Live
    from agent.report.data import RunReport
    from agent.result import RunResult
    from agent.settings import RunSettings
    from evaluators.spec.kernel_spec import KernelSpec
    from evaluators.target import Target
    from knowledge.runs.store import RunStore


@dataclass(frozen=True)
class Job:
    """A search that can be started: everything the user named exists."""

    spec: KernelSpec
    target: Target
    settings: RunSettings


def endpoint() -> bool:
    """Whether an OpenAI-compatible endpoint is configured. It is not contacted."""
    return bool(os.environ.get("OPENAI_API_KEY") or os.environ.get("OPENAI_BASE_URL"))


def names_model(model: str | None) -> bool:
    """Whether it is said which model to ask: by name, or by a server of one's own, which may have only one."""
    return bool(model or any(os.environ.get(n) for n in ("KERNELEVOLVE_MODEL", "OPENAI_MODEL", "OPENAI_BASE_URL")))


def require_endpoint() -> None:
    """Raise where there is no endpoint: asking for a language model never falls back to something else."""
    if not endpoint():
        raise CommandError(
            "--proposer llm needs an endpoint: set OPENAI_API_KEY (and OPENAI_BASE_URL for another server than the default), "
            "or use --proposer builtin",
            MISSING,
        )


def require_tools(languages: Iterable[str]) -> None:
    """Raise where no candidate in these languages could be built here: better one line now than every candidate failing."""
    missing = {name: _TOOLS[name] for name in languages if name in _TOOLS and not _TOOLS[name].found()}
    if missing and len(missing) == len(set(languages)):
        lacks = "; ".join(f"{name} needs {tool.name}: {tool.fix}" for name, tool in missing.items())
        raise CommandError(f"no compiler for the target's languages: {lacks}", MISSING)


@dataclass(frozen=True)
class _Tool:
    name: str
    fix: str
    found: Callable[[], bool]


_TOOLS = {
    "cpp": _Tool("g++", "apt-get install -y g++", lambda: which("g++") is not None),
    "triton": _Tool("triton", "pip install triton", lambda: find_spec("triton") is not None),
}


def prepare(ref: str, target: str, dtype: str | None, profile: str | None, settings: RunSettings) -> Job:
    """Load spec, target and languages, so that what is misspelt is refused before anything is built or recorded.

    Raises ``evaluators.errors.SpecError``, ``TargetError`` or ``UnknownLanguage``, and CommandError where the target does not
    take a language or no compiler is here.
    """
    from evaluators import languages
    from evaluators import targets as catalogue
    from evaluators.spec import load

    found = catalogue.load(target)
    for name in settings.languages:
        languages.get(name)
        if name not in found.languages:
            raise CommandError(f"{found.name} takes {', '.join(found.languages)}, not {name}")
    require_tools(settings.languages or found.languages)
    sizes: Literal["cpu", "gpu"] = "gpu" if (profile or found.kind) == "gpu" else "cpu"
    return Job(load(ref, dtype=dtype, profile=sizes), found, settings)


def search(job: Job, *, as_json: bool, quiet: bool, notice: str = "") -> None:
    """Run a new search and print its result. Raises typer.Exit with the code of an outcome without a kernel."""
    from knowledge.runs.store import RunStore

    store = RunStore()

    def run(live: Live) -> RunResult:
        from agent.run import optimize

        return optimize(job.spec, job.target, job.settings, store=store, on_event=live)

    _finish(store, run, as_json=as_json, quiet=quiet, notice=notice)


def proceed(run_id: str, store: RunStore, *, as_json: bool, quiet: bool) -> None:
    """Go on with a recorded search and print its result; of a finished one that is all, which is said."""
    recorded = store.get_run(run_id)
    notice = ""
    if recorded.status == "finished":
        when = (recorded.finished or "")[:16].replace("T", " ")
        notice = (
            f"run {run_id} was already finished{f' ({when})' if when else ''}: nothing was done, this is its result"
        )

    def run(live: Live) -> RunResult:
        from agent.run import resume

        so_far = store.best_so_far(run_id)
        live.best = so_far.fitness if so_far else 0.0
        return resume(run_id, store=store, on_event=live)

    _finish(store, run, as_json=as_json, quiet=quiet, notice=notice)


def _finish(store: RunStore, run: Callable[[Live], RunResult], *, as_json: bool, quiet: bool, notice: str) -> None:
    from agent.cli import console
    from agent.cli.outcome import outcome
    from agent.cli.summary import record, result_table

    out = console.stdout()
    report, folder = observe(store, run, console.stderr() if as_json else out, quiet=quiet, notice=notice)
    if as_json:
        console.print_json(record(report, folder))
    else:
        if not quiet:
            out.print()
        out.print(result_table(report, folder))
    code, line = outcome(report, store)
    if line:
        print(f"error: {one_line(line)}", file=sys.stderr)
    if code:
        raise typer.Exit(code)


def observe(
    store: RunStore, run: Callable[[Live], RunResult], console: object, *, quiet: bool, notice: str = ""
) -> tuple[RunReport, Path]:
    """Run a search with live progress, then write its folder. Returns what the store knows, and the folder.

    Raises Interrupted on Ctrl-C, naming the run where it is recorded.
    """
    from rich.console import Console

    from agent.cli.live import Live
    from agent.report import load, write

    assert isinstance(console, Console)
    with Live(console, quiet=quiet) as live:
        if notice:
            live.say(f"[yellow]{notice}[/]")
        try:
            result = run(live)
        except KeyboardInterrupt as stop:
            raise Interrupted(getattr(stop, "run_id", None) or live.run_id) from None
        write(result.run_id, store, result.folder)
    return load(result.run_id, store), result.folder
