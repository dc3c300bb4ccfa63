"""Running reference text: its globals, calls into it, and the random state around them."""

from __future__ import annotations

import contextlib
import hashlib
import inspect
import linecache
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from types import ModuleType
from typing import TYPE_CHECKING, Any

from evaluators.errors import SpecError
from evaluators.spec.kernel_spec import KernelSpec

if TYPE_CHECKING:
    import torch


@lru_cache(maxsize=64)
def _execute(text: str, origin: str) -> ModuleType:
    # The text is registered as a file of its own, so tracebacks show its lines and inspect.getsource finds it.
    filename = f"<reference {hashlib.sha256(text.encode()).hexdigest()[:12]}>"
    linecache.cache[filename] = (len(text), None, text.splitlines(keepends=True), filename)
    module = ModuleType("kernelevolve_reference")
    module.__file__ = filename
    try:
        exec(compile(text, filename, "exec"), module.__dict__)
    except SyntaxError as e:
        raise SpecError(f"{origin}: reference: line {e.lineno}: {e.msg}; fix the Python there") from e
    except Exception as e:
        line = next((f.lineno for f in inspect.trace()[::-1] if f.filename == filename), "?")
        advice = "; install it" if isinstance(e, ModuleNotFoundError) else ""
        raise SpecError(f"{origin}: reference: line {line}: {type(e).__name__}: {one_line(e)}{advice}") from e
    if not inspect.isclass(getattr(module, "Model", None)):
        raise SpecError(f"{origin}: reference: defines no class Model; define Model(nn.Module) or a function")
    return module


def reference_namespace(spec: KernelSpec) -> dict[str, Any]:
    """Globals of the executed reference text: ``Model``, and ``get_inputs`` where the spec has it.

    Raises SpecError with the line where the text does not run.
    """
    return _execute(spec.reference, spec.origin or spec.name).__dict__


def call_reference(spec: KernelSpec, name: str, *args: Any, **kwargs: Any) -> Any:
    """Call a definition of the reference text. Raises SpecError with the line of the text where that fails."""
    try:
        return reference_namespace(spec)[name](*args, **kwargs)
    except Exception as e:
        raise _failed(spec, name, e) from e


def call_for_list(spec: KernelSpec, name: str) -> list[Any]:
    """What ``get_inputs`` or ``get_init_inputs`` gives. Raises SpecError where it fails, or gives no list."""
    made = call_reference(spec, name)
    if not isinstance(made, Iterable) or isinstance(made, str | bytes | Mapping) or hasattr(made, "untyped_storage"):
        raise SpecError(
            f"{spec.origin or spec.name}: reference: {name}: gives {type(made).__name__}; return a list of arguments"
        )
    try:
        return list(made)
    except Exception as e:  # a generator runs only now
        raise _failed(spec, name, e) from e


def _failed(spec: KernelSpec, name: str, error: Exception) -> SpecError:
    line = next((f.lineno for f in inspect.trace()[::-1] if f.filename.startswith("<reference ")), "?")
    return SpecError(
        f"{spec.origin or spec.name}: reference: line {line}: {name}: {type(error).__name__}: {one_line(error)}"
    )


@contextlib.contextmanager
def seeded(seed: int, device: torch.device) -> Iterator[None]:
    """Global random state set to ``seed`` inside, and as it was outside."""
    import torch

    devices = [device.index or 0] if device.type == "cuda" else []
    with torch.random.fork_rng(devices=devices):
        torch.manual_seed(seed % 2**63)
        yield


def one_line(e: BaseException) -> str:
    """An exception's message on one line, at most 300 characters."""
    return " ".join(str(e).split())[:300]
