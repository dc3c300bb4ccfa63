"""The same state machine for LangGraph Studio and ``langgraph dev``: a spec reference goes in, the server brings the checkpointer."""

from __future__ import annotations

from agent import assemble
from agent.graph import build
from agent.result import folder_of
from agent.runtime import Runtime
from agent.search.ids import new_run_id
from agent.settings import RunSettings
from agent.state import RunState, StudioInput
from agent.steps import first_step
from knowledge.runs.records import Run
from knowledge.runs.store import RunStore

_runtimes: dict[str, Runtime] = {}


def begin(state: StudioInput) -> RunState:
    """Make a run out of what was typed in."""
    from evaluators import targets
    from evaluators.spec import load

    settings = RunSettings.from_dict(state.get("settings") or {})
    target = targets.load(state.get("target") or "auto")
    spec = load(state["spec"], profile=target.kind)
    store = assemble.open_store(settings)
    operators, patterns = assemble.facts(spec, target)
    run = store.create_run(new_run_id(spec.name), spec, target, settings.to_dict(), operators, patterns)
    _runtimes[run.id] = _open(run, store, settings)
    first_step(_runtimes[run.id])
    return {"run_id": run.id, "step": 0}


def runtime_of(run_id: str) -> Runtime:
    """The run's parts; built again from the store where the server was restarted in between."""
    if run_id not in _runtimes:
        store = assemble.open_store(RunSettings())
        run = store.get_run(run_id)
        _runtimes[run_id] = _open(run, store, RunSettings.from_dict(run.settings))
    return _runtimes[run_id]


def _open(run: Run, store: RunStore, settings: RunSettings) -> Runtime:
    folder = folder_of(run.id, settings.home)
    folder.mkdir(parents=True, exist_ok=True)
    return Runtime(
        run=run,
        settings=settings,
        store=store,
        proposers=assemble.proposers(settings),
        retriever=assemble.retriever(settings),
        judge_factory=assemble.judge,
        synthesize=assemble.synthesizer(settings),
        folder=folder,
    )


graph = build(runtime_of, begin).compile(name="kernelevolve")
"""What ``langgraph.json`` names."""
