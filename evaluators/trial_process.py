"""The process in which a reference is tried out. Run as ``python -m evaluators.trial_process FD``; see :mod:`evaluators.trial`."""

from __future__ import annotations

import contextlib
import inspect
import os
import resource
import socket
import sys
from typing import Any

from evaluators.errors import EvaluatorError, SpecError, TraceError
from evaluators.judge.processes.channel import Channel
from evaluators.judge.processes.isolation import die_with_parent
from evaluators.spec.kernel_spec import KernelSpec


def main(fd: int) -> None:
    """Try out the spec that comes through the channel, and say what came of it."""
    die_with_parent()
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
        file.write("1000")  # where memory runs out, this process goes first
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    channel = Channel(socket.socket(fileno=fd))
    request = channel.receive()
    spec = KernelSpec.from_json(request["spec"])
    try:
        reply = _tried(spec, request, channel)
    except SpecError as error:
        reply = {"refused": str(error)}
    channel.send(reply)
    # Threads that the reference started, and what it registered to run at exit, are left behind.
    os._exit(0)


def _tried(spec: KernelSpec, request: dict[str, Any], channel: Channel) -> dict[str, Any]:
    import torch

    from evaluators.judge.memory import wire
    from evaluators.spec.inputs import make_inputs
    from evaluators.spec.model import build_model, constructor_arguments, signature
    from evaluators.spec.running import reference_namespace

    device = torch.device(request["device"])
    torch.set_num_threads(int(request["threads"]))
    if device.type != "cuda":  # a GPU's driver reserves far more addresses than there is memory
        _limit_memory()
    channel.send({"stage": "import"})
    with _told(spec, "running its code"):
        reference_namespace(spec)
    channel.send({"stage": "constructor"})
    with _told(spec, "building Model"):
        args, kwargs = constructor_arguments(spec)
        _carried(spec, "get_init_inputs()", [*args, kwargs])
        model = build_model(spec, device)
    channel.send({"stage": "inputs"})
    with _told(spec, "making the inputs"):
        inputs = make_inputs(spec, 0, device)
        _carried(spec, "get_inputs()", inputs)
        names = signature(spec)
    channel.send({"stage": "forward"})
    with _told(spec, "calling forward", shapes_only=device.type == "meta"), torch.no_grad():
        tensors: list[Any] = []
        _carried(spec, "forward", model(*inputs), tensors)
        if not tensors:
            raise SpecError(f"{_where(spec)}: forward: returns no tensor; return at least one")
        for t in tensors:
            if t.layout != torch.strided or t.is_quantized:
                raise SpecError(f"{_where(spec)}: forward: returns a {_kind(t)} tensor; return dense ones")
            if t.device.type != device.type:
                raise SpecError(f"{_where(spec)}: forward: returns a tensor on {t.device}; return it on {device.type}")
            wire.plain(t)
        if device.type == "cuda":
            torch.cuda.synchronize()
    del model, inputs
    channel.send({"stage": "trace", "signature": list(names)})
    return _traced(spec)


def _traced(spec: KernelSpec) -> dict[str, Any]:
    from evaluators.ir.plain import to_plain
    from evaluators.ir.trace import trace

    try:
        return {"program": to_plain(trace(spec)), "untraced": ""}
    except TraceError as error:
        return {"program": None, "untraced": str(error)}
    except BaseException as error:
        first = (str(error).strip().splitlines() or [""])[0][:300]
        said = f"{type(error).__name__}{': ' * bool(first)}{first}"
        advice = "use the llm or manual proposer"
        return {"program": None, "untraced": f"{spec.name}: the reference cannot be traced ({said}); {advice}"}


@contextlib.contextmanager
def _told(spec: KernelSpec, doing: str, shapes_only: bool = False) -> Any:
    """Whatever is raised inside, exits and interrupts too, as a SpecError that says where.

    With ``shapes_only``, what needs values cannot be seen and passes.
    """
    try:
        yield
    except EvaluatorError as error:
        raise SpecError(str(error)) from error
    except NotImplementedError as error:
        if not shapes_only:
            raise SpecError(_said(spec, doing, error)) from error
    except BaseException as error:
        if not (shapes_only and "meta" in str(error).lower()):
            raise SpecError(_said(spec, doing, error)) from error


def _said(spec: KernelSpec, doing: str, error: BaseException) -> str:
    from evaluators.spec.running import one_line

    line = next((f.lineno for f in inspect.trace()[::-1] if f.filename.startswith("<reference ")), None)
    place = f"line {line}: " if line else ""
    what = f"{type(error).__name__}: {one_line(error)}".removesuffix(": ")
    ends = "; remove what ends the process" if isinstance(error, SystemExit | KeyboardInterrupt) else ""
    return f"{_where(spec)}: {doing}: {place}{what}{ends}"


def _where(spec: KernelSpec) -> str:
    return f"{spec.origin or spec.name}: reference"


def _carried(spec: KernelSpec, what: str, value: Any, tensors: list[Any] | None = None) -> None:
    """Raise SpecError where a value holds something that cannot go from process to process."""
    from evaluators.judge.memory import wire

    try:
        wire.flatten(value, [] if tensors is None else tensors)
    except TypeError as error:
        kind = str(error).removeprefix("a ").removesuffix(" cannot cross processes")
        raise SpecError(
            f"{_where(spec)}: {what}: gives {kind}; only tensors, numbers, text, None and lists, tuples and dicts of them can be used"
        ) from error
    except RecursionError as error:
        raise SpecError(f"{_where(spec)}: {what}: gives a list that holds itself") from error


def _kind(tensor: Any) -> str:
    return "quantised" if tensor.is_quantized else str(tensor.layout).removeprefix("torch.").replace("_", " ")


def _limit_memory() -> None:
    """No more addresses beyond what is mapped now than there is memory: a larger request fails here, not the whole machine."""
    import psutil

    with open("/proc/self/statm") as file:
        mapped = int(file.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    bound = mapped + psutil.virtual_memory().total
    resource.setrlimit(resource.RLIMIT_AS, (bound, bound))


if __name__ == "__main__":
    main(int(sys.argv[1]))
