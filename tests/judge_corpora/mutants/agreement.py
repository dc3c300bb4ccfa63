"""Original and equivalent mutant side by side on many random inputs, drawn as the spec draws them: every bit must agree.

The judge has no part in this. Both modules run in this process, on the CPU: Triton's in its interpreter, which must then be on
(``TRITON_INTERPRET=1``) before Triton is imported.
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from evaluators.languages import cpp
from evaluators.spec.inputs import make_inputs, stream_seed
from evaluators.spec.model import build_model, constructor_arguments
from tests.judge_corpora.entry import Entry
from tests.judge_corpora.mutants import equivalent
from tests.judge_corpora.mutants.make import changed, mutations


def check_all(entries: Sequence[Entry], count: int) -> int:
    """Check every listed equivalent of ``entries``; print one line each. 1 where one disagrees, or is no mutant any more."""
    bad = total = 0
    known = equivalent.known()
    for entry in entries:
        wanted = {digest for name, digest in known if name == entry.name}
        if not wanted:
            continue
        if entry.native is None and os.environ.get("TRITON_INTERPRET") != "1":
            os.execve(
                sys.executable,
                [sys.executable, "-m", __package__, *sys.argv[1:]],
                {**os.environ, "TRITON_INTERPRET": "1"},
            )
        found = {m.digest: m for m in mutations(entry) if m.digest in wanted}
        for digest in sorted(wanted):
            total += 1
            if digest not in found:
                print(f"{entry.name} {digest}: there is no such mutant any more; take it out of {equivalent.FILE.name}")
                bad += 1
                continue
            begin = time.perf_counter()
            differing = disagreements(entry, changed(entry, found[digest]), count)
            bad += bool(differing)
            said = (
                f"{differing} of {count} inputs DISAGREE" if differing else f"{count} random inputs agree in every bit"
            )
            print(f"{entry.name} {digest}: {said} ({time.perf_counter() - begin:.0f} s)", flush=True)
    print(f"{total} equivalents checked, {bad} refuted")
    return 1 if bad else 0


def disagreements(one: Entry, other: Entry, count: int) -> int:
    """On how many of ``count`` random inputs two kernels for the same spec give different bits."""
    import torch

    spec = one.spec
    args, kwargs = constructor_arguments(spec)
    reference = build_model(spec, "cpu", seed=11)
    state = {**dict(reference.named_parameters()), **dict(reference.named_buffers())}
    models = []
    with tempfile.TemporaryDirectory(prefix="agreement-") as folder, torch.no_grad():
        for number, entry in enumerate((one, other)):
            model = _module(entry, Path(folder) / f"kernel_{number}.py").ModelNew(*args, **kwargs)
            own = {**dict(model.named_parameters()), **dict(model.named_buffers())}
            for name, tensor in own.items():
                tensor.copy_(state[name])
            models.append(model.to(getattr(torch, spec.dtype)).train(spec.mode == "train"))
        torch.set_num_threads(1)
        differing = 0
        for number in range(count):
            results = []
            for model in models:
                inputs = make_inputs(spec, stream_seed(number, "agreement"), "cpu")
                results.append(list(_tensors(model(*inputs))))
            differing += not all(_same_bits(a, b) for a, b in zip(*results, strict=True))
    return differing


def _module(entry: Entry, path: Path) -> Any:
    path.write_text(entry.source())
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    if entry.native is not None:
        module._native.library = ctypes.CDLL(str(cpp.build(entry.source(), entry.target()).native))
    return module


def _tensors(value: Any) -> Any:
    import torch

    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, dict):
        yield from _tensors(list(value.values()))
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _tensors(item)


def _same_bits(a: Any, b: Any) -> bool:
    import torch

    whole = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[a.element_size()]
    return bool(torch.equal(a.contiguous().view(whole), b.contiguous().view(whole)))
