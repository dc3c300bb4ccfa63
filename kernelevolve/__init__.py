"""KernelEvolve from Python: turn a PyTorch module, function or spec into a verified, fast kernel.

    import kernelevolve
    result = kernelevolve.optimize(module, (x,), evaluations=24)
    print(result.message)

Everything else here is re-exported from the packages that do the work, and imported when it is first used.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import nn

    from agent.events import OnEvent
    from agent.result import RunResult
    from agent.run import resume
    from agent.settings import RunSettings
    from evaluators.spec.from_live import from_module
    from evaluators.spec.kernel_spec import KernelSpec
    from evaluators.spec.loading import load as load_spec
    from evaluators.spec.loading import load_suite
    from evaluators.target import Target
    from evaluators.targets import load as load_target

_HOMES = {
    "KernelSpec": ("evaluators.spec.kernel_spec", "KernelSpec"),
    "RunResult": ("agent.result", "RunResult"),
    "RunSettings": ("agent.settings", "RunSettings"),
    "Target": ("evaluators.target", "Target"),
    "from_module": ("evaluators.spec.from_live", "from_module"),
    "load_spec": ("evaluators.spec.loading", "load"),
    "load_suite": ("evaluators.spec.loading", "load_suite"),
    "load_target": ("evaluators.targets", "load"),
    "resume": ("agent.run", "resume"),
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
    on_event: OnEvent | None = None,
    **settings: Any,
) -> RunResult:
    """Search for a kernel that computes the same as ``computation(*example_inputs)``, faster, on ``target``.

    ``computation`` is a module or function with ``example_inputs`` (tensors and plain values, whose shapes, dtypes and value ranges
    the kernel is made for), or a spec: a :class:`KernelSpec` or anything ``load_spec`` takes, without example inputs. ``settings`` are
    the other fields of :class:`RunSettings`, for example ``seconds=600`` or ``proposers=("llm",)``. ``on_event`` is called with each
    event of the run.

    Raises :class:`evaluators.errors.SpecError` where the computation cannot be exported, :class:`evaluators.errors.TargetError` for
    an unknown target, :class:`agent.errors.SettingsError` for a setting that cannot be used.
    """
    from agent import run
    from agent.events import silent
    from agent.settings import RunSettings
    from evaluators import targets

    options = RunSettings.from_dict({"evaluations": evaluations, **settings})
    place = targets.load(target) if isinstance(target, str) else target
    spec = _spec(computation, example_inputs, place, name, options.home)
    return run.optimize(spec, place, options, on_event=on_event or silent)


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
