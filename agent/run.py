"""Run a search, or go on with one: the state machine with a checkpointer, a lock, and a clean stop on Ctrl-C."""

from __future__ import annotations

import signal
import sqlite3
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from types import FrameType
from typing import Any

from agent import assemble
from agent.errors import RunBusyError, RunInterrupted, RunStalled
from agent.events import OnEvent, Preparing, RunStarted, Stopping, silent
from agent.proposers.base import Proposer
from agent.result import RunResult, folder_of, result_of
from agent.runtime import JudgeFactory, Retriever, Runtime, Synthesize
from agent.search.ids import new_run_id
from agent.settings import RunSettings
from evaluators.spec.kernel_spec import KernelSpec
from evaluators.target import Target
from knowledge.runs.records import Run
from knowledge.runs.store import RunStore

Facts = Callable[[KernelSpec, Target], tuple[tuple[str, ...], tuple[str, ...]]]
"""spec, target → (operators, loop-IR patterns). Raises :class:`evaluators.errors.SpecError` where the reference does not work there."""


def optimize(
    spec: KernelSpec,
    target: Target,
    settings: RunSettings | None = None,
    *,
    proposers: Mapping[str, Proposer] | None = None,
    retriever: Retriever | None = None,
    judge_factory: JudgeFactory | None = None,
    synthesize: Synthesize | None = None,
    facts: Facts | None = None,
    store: RunStore | None = None,
    on_event: OnEvent = silent,
    run_id: str | None = None,
) -> RunResult:
    """Search for a fast kernel for ``spec`` on ``target``. Parts not given are the real ones, from ``agent.assemble``.

    Raises :class:`evaluators.errors.SpecError` where the reference does not work on the target, before anything is searched, and
    :class:`agent.errors.RunInterrupted` on Ctrl-C, with everything judged kept; :func:`resume` goes on from there.
    """
    settings = settings or RunSettings()
    store = store or assemble.open_store(settings)
    run_id = run_id or new_run_id(spec.name)
    # What can be missing (an endpoint, a model), and a reference that does not work, is found out before anything is recorded.
    proposers = proposers or assemble.proposers(settings)
    on_event(Preparing("trying out and tracing the reference"))
    with ExitStack() as prepared:
        if judge_factory is None:
            judge_factory = assemble.shared(prepared.enter_context(assemble.judge(spec, target)))
        operators, patterns = (facts or assemble.facts)(spec, target)
        parts = _parts(settings, run_id, proposers, retriever, judge_factory, synthesize, on_event)
        run = store.create_run(run_id, spec, target, settings.to_dict(), operators, patterns)
        return _drive(run, settings, store, parts, on_event, resumed=False)


def resume(
    run_id: str,
    *,
    proposers: Mapping[str, Proposer] | None = None,
    retriever: Retriever | None = None,
    judge_factory: JudgeFactory | None = None,
    synthesize: Synthesize | None = None,
    store: RunStore | None = None,
    on_event: OnEvent = silent,
    home: str | None = None,
) -> RunResult:
    """Go on with a run that was interrupted or killed, under its own settings; a finished one just gives its result.

    ``home`` is the data folder it is in now, where that is not the default one. Raises :class:`knowledge.errors.RunNotFound`, or
    :class:`agent.errors.RunBusyError` while another process works on it.
    """
    store = store or assemble.open_store(RunSettings(home=home))
    run = store.get_run(run_id)
    if run.status == "finished":
        return result_of(store, run.id)
    settings = RunSettings.from_dict(run.settings)
    if home is not None:
        settings = replace(settings, home=home)
    parts = _parts(settings, run.id, proposers, retriever, judge_factory, synthesize, on_event)
    return _drive(run, settings, store, parts, on_event, resumed=True)


def _parts(
    settings: RunSettings,
    run_id: str,
    proposers: Mapping[str, Proposer] | None,
    retriever: Retriever | None,
    judge_factory: JudgeFactory | None,
    synthesize: Synthesize | None,
    on_event: OnEvent,
) -> dict[str, Any]:
    return {
        "proposers": proposers or assemble.proposers(settings),
        "retriever": retriever or assemble.retriever(settings, on_event),
        "judge_factory": judge_factory or assemble.judge,
        "synthesize": synthesize or assemble.synthesizer(settings),
        "folder": folder_of(run_id, settings.home),
    }


def _drive(
    run: Run, settings: RunSettings, store: RunStore, parts: dict[str, Any], on_event: OnEvent, *, resumed: bool
) -> RunResult:
    runtime = Runtime(run=run, settings=settings, store=store, on_event=on_event, **parts)
    with _alone(runtime), _stoppable(runtime):
        store.set_status(run.id, "running", "")
        on_event(RunStarted(run.id, run.spec.name, run.target.name, settings.evaluations, resumed, str(runtime.folder)))
        try:
            _turn(runtime)
        except KeyboardInterrupt:
            store.set_status(run.id, "interrupted", "stopped by the user")
            raise RunInterrupted(run.id) from None
        except BaseException as error:
            store.set_status(run.id, "failed", f"{type(error).__name__}: {error}")
            raise
        finally:
            runtime.close()
    return result_of(store, run.id)


def _turn(runtime: Runtime) -> None:
    """Drive the state machine from where its checkpoint stands to its end."""
    from langgraph.checkpoint.sqlite import SqliteSaver

    from agent.graph import build
    from agent.steps import first_step

    first_step(runtime)
    # One checkpoint file per run: runs never wait for each other.
    with closing(sqlite3.connect(runtime.folder / "checkpoint.db", check_same_thread=False, timeout=60)) as connection:
        # A checkpoint that a power cut sets back is harmless (steps are walked through again), so it need not wait for the disk.
        connection.execute("PRAGMA synchronous=NORMAL")
        graph = build(lambda _run_id: runtime).compile(checkpointer=SqliteSaver(connection))
        config: Any = {
            "configurable": {"thread_id": runtime.run.id},
            "recursion_limit": 1_000_000,
        }  # τ ends runs, not this
        waiting = graph.get_state(config).next
        # Without a usable checkpoint the steps are walked through again: the store has their results, so nothing is redone.
        start = None if waiting else {"run_id": runtime.run.id, "step": 0}
        graph.invoke(start, config, durability="sync")
    status = runtime.store.get_run(runtime.run.id).status
    if status != "finished":
        raise RunStalled(runtime.run.id, status)


@contextmanager
def _alone(runtime: Runtime) -> Iterator[None]:
    """Hold the run's lock, which ends with the process however that ends."""
    from filelock import FileLock, Timeout

    runtime.folder.mkdir(parents=True, exist_ok=True)
    try:
        with FileLock(runtime.folder / "run.lock", timeout=0):
            yield
    except Timeout:
        raise RunBusyError(runtime.run.id) from None


@contextmanager
def _stoppable(runtime: Runtime) -> Iterator[None]:
    """On the first Ctrl-C or SIGTERM stop after the current candidate, on the second at once."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def on_signal(_number: int, _frame: FrameType | None) -> None:
        if runtime.stop.is_set():
            raise KeyboardInterrupt
        runtime.stop.set()
        runtime.on_event(Stopping(runtime.run.id))

    before = {number: signal.signal(number, on_signal) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
