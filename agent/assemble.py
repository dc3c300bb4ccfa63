"""The real parts of a run, built on first use: proposers by name, retrieval over the packaged corpora, the judge, prompt synthesis."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from importlib import import_module
from typing import TYPE_CHECKING, Any

from agent.errors import SettingsError
from agent.events import OnEvent, Preparing, silent
from agent.settings import RunSettings
from evaluators.home import home
from knowledge.runs.store import RunStore

if TYPE_CHECKING:
    from agent.proposers.base import Context, Proposer
    from agent.runtime import Judge, JudgeFactory, Prompt, Retriever, Synthesize
    from evaluators.spec.kernel_spec import KernelSpec
    from evaluators.target import Target

PROPOSERS = {
    "builtin": "agent.proposers.builtin.propose:BuiltinProposer",
    "llm": "agent.proposers.llm:LLMProposer",
    "manual": "agent.proposers.manual:ManualProposer",
}
"""Proposer → where its class is. Imported when asked for: some need libraries that take seconds to load."""


def open_store(settings: RunSettings) -> RunStore:
    """The run store of the settings' data folder, else of the environment."""
    if not settings.home:
        return RunStore()
    root = home(settings.home)
    return RunStore(f"sqlite:///{root / 'store.db'}", str(root / "objects"))


def proposers(settings: RunSettings) -> dict[str, Proposer]:
    """The settings' proposers by name. A missing LLM endpoint is an error here, never a fallback."""
    return {name: _proposer(name, settings) for name in settings.proposers}


def _proposer(name: str, settings: RunSettings) -> Proposer:
    if name not in PROPOSERS:
        raise SettingsError("proposers", name, f"one of {', '.join(PROPOSERS)}")
    module, _, class_name = PROPOSERS[name].partition(":")
    make = getattr(import_module(module), class_name)
    proposer: Proposer = make() if name == "builtin" else make(settings)
    return proposer


def retriever(settings: RunSettings, on_event: OnEvent = silent) -> Retriever:
    """Retrieval over the knowledge store, which is first brought up to date with the packaged corpora."""
    from knowledge.ingest import ingest
    from knowledge.store import KnowledgeStore
    from retrieval.retrieve import Arms
    from retrieval.retrieve import Retriever as KnowledgeRetriever

    store = KnowledgeStore.open(home(settings.home) / "knowledge")

    def told(done: int, total: int, name: str) -> None:
        on_event(Preparing(f"taking in {name}", done, total))

    ingest(None, store, progress=told)  # the packaged corpora; by content hash, so cheap where nothing changed
    return KnowledgeRetriever(store, arms=Arms(**settings.arms))


def synthesizer(settings: RunSettings) -> Synthesize | None:
    """Prompt synthesis where a proposer other than the built-in one takes part."""
    if all(name == "builtin" for name in settings.proposers):
        return None

    def render(context: Context, max_tokens: int) -> Prompt:
        prompt: Prompt = import_module("agent.prompts.synthesize").synthesize(context, _work(context.spec), max_tokens)
        return prompt

    return render


def _work(spec: KernelSpec) -> Any:
    from evaluators.errors import TraceError
    from evaluators.ir.facts import work
    from evaluators.trial import traced

    try:
        return work(traced(spec))
    except TraceError:
        return None


def judge(spec: KernelSpec, target: Target) -> AbstractContextManager[Judge]:
    """The judge, whose processes start at once: there is other work to do meanwhile."""
    from evaluators.judge.judge import Judge as RealJudge

    made = RealJudge(spec, target)
    made.prepare()
    return made


def shared(judge: Judge) -> JudgeFactory:
    """A factory that gives a judge which its owner closes."""
    return lambda _spec, _target: nullcontext(judge)


def facts(spec: KernelSpec, target: Target) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """(operators, loop-IR patterns) of a spec, whose reference is tried out for them on the target's device.

    Both are empty where it works but cannot be traced, which only leaves retrieval fewer words to go by. Raises
    :class:`evaluators.errors.SpecError` where it does not work.
    """
    from evaluators.ir.facts import operators, patterns
    from evaluators.trial import tried

    program = tried(spec, target).program
    return (operators(program), patterns(program)) if program is not None else ((), ())
