"""KernelEvolve from Python: turn a PyTorch module, function or spec into a verified, fast kernel.

    import kernelevolve
    result = kernelevolve.optimize(module, (x,), evaluations=24)
    print(result.message, result.report)

Everything else here is re-exported from the packages that do the work, and imported when it is first used.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import nn

    from agent.events import Event, OnEvent
    from agent.result import RunResult
    from agent.settings import RunSettings
    from evaluators.spec.from_live import from_module
    from evaluators.spec.kernel_spec import KernelSpec
    from evaluators.spec.loading import load as load_spec
    from evaluators.spec.loading import load_suite
    from evaluators.target import Target
    from evaluators.targets import load as load_target
    from knowledge.runs.store import RunStore

_HOMES = {
    "KernelSpec": ("evaluators.spec.kernel_spec", "KernelSpec"),
    "RunResult": ("agent.result", "RunResult"),
    "RunSettings": ("agent.settings", "RunSettings"),
    "Target": ("evaluators.target", "Target"),
    "from_module": ("evaluators.spec.from_live", "from_module"),
    "load_spec": ("evaluators.spec.loading", "load"),
    "load_suite": ("evaluators.spec.loading", "load_suite"),
    "load_target": ("evaluators.targets", "load"),
}

__all__ = [
    "KernelSpec",
    "RunResult",
    "RunSettings",
    "Target",
    "from_module",
    "load_spec",
    "load_suite",
    "load_target",
    "optimize",
    "resume",
]


def optimize(
    computation: nn.Module | Callable[..., Any] | KernelSpec | str,
    example_inputs: Sequence[Any] | None = None,
    *,
    target: str | Target = "auto",
    evaluations: int = 24,
    name: str | None = None,
    progress: bool | None = None,
    on_event: OnEvent | None = None,
    **settings: Any,
) -> RunResult:
    """Search for a kernel that computes the same as ``computation(*example_inputs)``, faster, on ``target``.

    ``computation`` is a module or function with ``example_inputs`` (tensors and plain values, whose shapes, dtypes and value ranges
    the kernel is made for), or a spec: a :class:`KernelSpec` or anything ``load_spec`` takes, without example inputs. ``settings`` are
    the other fields of :class:`RunSettings`, for example ``seconds=600`` or ``proposers=("llm",)``.

    What happens is printed to stderr, a line per candidate, unless ``progress`` is false; ``on_event`` is called with each event of
    the run and, where ``progress`` is not given, takes its place. The run's folder with its report is written at the end
    (``result.report``).

    Raises :class:`evaluators.errors.SpecError` where the computation cannot be exported, :class:`evaluators.errors.TargetError` for
    an unknown target, :class:`agent.errors.SettingsError` for a setting that cannot be used.
    """
    from agent import assemble, run
    from agent.settings import RunSettings
    from evaluators import targets

    options = RunSettings.from_dict({"evaluations": evaluations, **settings})
    place = targets.load(target) if isinstance(target, str) else target
    spec = _spec(computation, example_inputs, place, name, options.home)
    store = assemble.open_store(options)

    def search(tell: OnEvent) -> RunResult:
        return run.optimize(spec, place, options, store=store, on_event=tell)

    return _watched(search, store, progress, on_event)


def resume(
    run_id: str,
    *,
    home: str | None = None,
    progress: bool | None = None,
    on_event: OnEvent | None = None,
) -> RunResult:
    """Go on with a run that was interrupted or killed, under its own settings; a finished one just gives its result.

    ``home`` is the data folder the run is in, where that is not the default one; ``progress`` and ``on_event`` are as in
    :func:`optimize`. Raises :class:`knowledge.errors.RunNotFound`, or :class:`agent.errors.RunBusyError` while another process
    works on it.
    """
    from agent import assemble, run
    from agent.settings import RunSettings

    store = assemble.open_store(RunSettings(home=home))

    def search(tell: OnEvent) -> RunResult:
        return run.resume(run_id, store=store, on_event=tell, home=home)

    return _watched(search, store, progress, on_event)


def _watched(
    search: Callable[[OnEvent], RunResult], store: RunStore, progress: bool | None, on_event: OnEvent | None
) -> RunResult:
    """Run a search in sight of the caller, then write its folder."""
    from agent.cli.console import stderr
    from agent.cli.live import Live
    from agent.report import write

    shown = on_event is None if progress is None else progress
    with Live(stderr(), quiet=not shown) as live:

        def tell(event: Event) -> None:
            live(event)
            if on_event is not None:
                on_event(event)

        result = search(tell)
        page = write(result.run_id, store, result.folder)
        live.say(f"report: {page}")
    return result


def _spec(
    computation: Any, example_inputs: Sequence[Any] | None, target: Target, name: str | None, chosen: str | None
) -> KernelSpec:
    from evaluators.errors import SpecError
    from evaluators.home import home
    from evaluators.spec.from_live import from_module
    from evaluators.spec.kernel_spec import KernelSpec
    from evaluators.spec.loading import load

    if isinstance(computation, (KernelSpec, str)):
        if example_inputs is not None:
            raise SpecError("example_inputs: a spec describes its own inputs; pass them only with a module or function")
        return computation if isinstance(computation, KernelSpec) else load(computation, profile=target.kind)
    if example_inputs is None:
        raise SpecError(
            "example_inputs: are missing; pass the arguments of one call, for example optimize(module, (x,))"
        )
    return from_module(computation, example_inputs, name, state_folder=home(chosen) / "objects" / "states")


def __getattr__(attribute: str) -> Any:
    if attribute not in _HOMES:
        raise AttributeError(f"module 'kernelevolve' has no attribute {attribute!r}; it has {', '.join(__all__)}")
    module, member = _HOMES[attribute]
    return getattr(import_module(module), member)


def __dir__() -> list[str]:
    return sorted(__all__)
