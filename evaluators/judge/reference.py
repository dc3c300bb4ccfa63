"""The judge's view of the reference's process: cases handed out, verdicts asked for, the stronger baseline chosen."""

from __future__ import annotations

import contextlib
import copy
import json
import os
import re
import secrets
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evaluators.errors import JudgeError
from evaluators.home import VARIABLE, home
from evaluators.judge.processes import procfs
from evaluators.judge.processes.processes import PINNED, Server, environment, unpin
from evaluators.judge.settings import JudgeSettings
from evaluators.judge.timing import timing
from evaluators.judge.timing.timing import Side, alternate
from evaluators.spec.kernel_spec import KernelSpec
from evaluators.target import Target

_PREPARE_S = 600.0
_CHOICE_PAIRS = 5
_CLEARLY = 0.9
_RUNTIMES = 2


@dataclass
class Baselines:
    """Milliseconds per call of each baseline measured here, which one is stronger, and why torch.compile is missing where it is.

    ``note`` says so where it is missing because eager won clearly in an earlier measurement.
    """

    ms: dict[str, float]
    stronger: str
    failure: str = ""
    note: str = ""


class Reference:
    """The oracle's and the baseline's processes for one spec. Construction starts the former, :meth:`open` gives it the spec,
    :meth:`close` ends both."""

    def __init__(self, spec: KernelSpec, target: Target, settings: JudgeSettings, device: str, threads: int) -> None:
        self.spec, self.target, self.settings, self.device, self.threads = spec, target, settings, device, threads
        self.folder = tempfile.TemporaryDirectory(prefix="reference-")
        cache = home() / "cache"
        extra = {
            "TORCHINDUCTOR_CACHE_DIR": str(cache / "inductor"),
            "TRITON_CACHE_DIR": str(cache / "inductor-triton"),
            "TORCHINDUCTOR_COMPILE_THREADS": "1" if device == "cpu" else "8",
            VARIABLE: str(home()),
        }
        env = environment(self.folder.name, threads, extra)
        self.server = Server("evaluators.judge.oracle.oracle", [], env, self.folder.name)
        # Inductor keeps the C++ headers that it compiles beforehand, seconds of work, where temporary files go.
        self.scratch = cache / "compiler"
        self.pinned = {**env, **(PINNED if device == "cpu" else {}), "TMPDIR": str(self.scratch)}
        self.timers: list[Server] = []
        """The baseline's process, once something is to be timed."""
        self.flush_bytes = 3 * target.l2_bytes if device == "cuda" else 0
        self.seeds: dict[int, int] = {}
        self.baselines: Baselines | None = None
        self.opened: dict[str, Any] = {}
        self.processors = os.sched_getaffinity(self.server.pid)
        self.ipc = False
        self.calls: dict[str, int] = {}
        """Calls per batch that were found for each baseline: where the next candidate's contest begins."""
        self.sets = 0
        """Input sets of timed batches, once there is a stock."""
        self.arguments: Any = None
        self.keywords: Any = None
        self.upstream = 0
        """Gradients that arrive from above with each call, where the spec asks for a backward pass."""
        self.environment: dict[str, str] = {}
        self.dims: dict[str, int] | None = None
        """Sizes that it was opened at, where they are not the spec's own."""
        self.sizes: dict[str, int] | None = None
        """Sizes other than the spec's own, where this stands for the same process at these."""
        self.places: list[Reference] | None = None
        self.variant: str | None = None
        """Name of the variant that this stands for, in the same process."""
        self.variants: dict[str, Reference | None] = {}

    def open(self, ipc: bool, dims: dict[str, int] | None = None) -> Reference:
        """Hand the spec over; tensors travel by device IPC with ``ipc``. Raises :class:`JudgeError`, after which it is closed."""
        try:
            self.opened = {
                "op": "open", "spec": self.spec.to_json(), "device": self.device, "threads": self.threads,
                "seed": secrets.randbits(40), "flush_bytes": self.flush_bytes, "ipc": ipc, "dims": dims,
            }  # fmt: skip
            opened, _ = self.server.ask(self.opened, _PREPARE_S)
        except JudgeError:
            self.close()
            raise
        self.ipc = ipc
        self.arguments, self.keywords, self.upstream = opened["arguments"], opened["keywords"], opened["upstream"]
        self.environment, self.dims = opened["environment"], dims
        return self

    def ask(self, message: dict[str, Any], timeout: float = _PREPARE_S) -> tuple[dict[str, Any], list[int]]:
        """A request to the oracle, which is woken for it."""
        self.go()
        place = {"sizes": self.sizes, "variant": self.variant} if self.sizes or self.variant else {}
        return self.server.ask({**message, **place}, timeout)

    def case(self, number: int, hard: bool = False) -> tuple[dict[str, Any], list[int]]:
        """Describe case ``number`` for a fresh worker; the caller hands on (and must not close) the descriptors' copies.

        With ``hard`` its inputs are hard ones; the answer is ``{"none": why}`` where the spec has none.
        """
        seed = self.seeds.setdefault(number, secrets.randbits(40))
        return self.ask({"op": "case", "case": number, "seed": seed, "hard": hard})

    def elsewhere(self, first: int, count: int, elements: int) -> list[Reference]:
        """This reference at other sizes of the declared ranges, drawn once, with a case made at each, numbered from ``first`` on."""
        if self.places is None:
            self.places = []
            if any(d.low < d.high for d in self.spec.dims.values()):
                seeds = [secrets.randbits(40) for _ in range(count)]
                asked = {"op": "variant", "name": "other_sizes", "first": first, "seeds": seeds, "elements": elements}
                found, _ = self.ask(asked)
                for number, dims in enumerate(found["sizes"]):
                    place = copy.copy(self)
                    place.sizes, place.seeds = dims, {first + number: seeds[number]}
                    about, _ = place.ask({"op": "constructor"})
                    place.arguments, place.keywords = about["arguments"], about["keywords"]
                    self.places.append(place)
        return self.places

    def other(self, name: str, cases: list[int], **more: Any) -> Reference | None:
        """This reference with other parameters or on repaired inputs, made once, with cases of these numbers; ``None`` where there is no
        such. See :mod:`evaluators.judge.oracle.variants`."""
        if name not in self.variants:
            seeds = [secrets.randbits(40) for _ in cases]
            found, _ = self.ask({"op": "variant", "name": name, "cases": cases, "seeds": seeds, **more})
            self.variants[name] = None
            if "none" not in found:
                place = copy.copy(self)
                place.variant, place.seeds = name, dict(zip(cases, seeds, strict=True))
                about, _ = place.ask({"op": "constructor"})
                place.arguments, place.keywords = about["arguments"], about["keywords"]
                self.variants[name] = place
        return self.variants[name]

    @property
    def baseline(self) -> Server:
        """The baseline's process."""
        self.start_baseline()
        return self.timers[0]

    def start_baseline(self) -> None:
        """Start the baseline's process, unless it runs: what it imports takes seconds, in which a candidate can be checked."""
        if not self.timers:
            try:
                self.scratch.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise JudgeError(f"{self.scratch}: no folder for what torch.compile keeps: {error.strerror}") from None
            compiler = [] if self.settings.compile_mode == "off" else ["compile"]
            self.timers.append(Server("evaluators.judge.timing.baseline", compiler, self.pinned, self.folder.name))

    @property
    def alive(self) -> bool:
        """Whether its processes still run."""
        return all(server.alive for server in (self.server, *self.timers))

    def pause(self) -> None:
        """Stop its processes while the candidate is timed; returns when they stand still."""
        for server in (self.server, *self.timers):
            server.pause()

    def go(self) -> None:
        """Wake the oracle, whoever stopped it."""
        self.server.go()

    def _ask_baseline(self, message: dict[str, Any], timeout: float, fds: Sequence[int] = ()) -> dict[str, Any]:
        """A request to the baseline's process, which is woken for it; the oracle stands still meanwhile."""
        self.server.pause()
        self.baseline.go()
        return self.baseline.ask(message, timeout, fds)[0]

    def stock(self, batch_ms: float, known: int, outputs: bool = False) -> tuple[dict[str, Any], list[int]]:
        """The input sets of timed batches, made from the first ``known`` cases for batches of ``batch_ms``; with ``outputs`` also a block
        for the results of all. The descriptors are the caller's."""
        about, fds = self.ask({"op": "stock", "batch_ms": batch_ms, "cases": known, "outputs": outputs})
        if not self.sets:
            self._ask_baseline(self.opened, _PREPARE_S)
            unpin(self.baseline.pid, self.processors)
            self._ask_baseline({**about, "op": "stock"}, _PREPARE_S, fds)
        self.sets = about["count"]
        return about, fds

    def refresh(self, calls: int, offset: int, watch: Sequence[int] = ()) -> None:
        """Change the inputs of ``calls`` sets from set ``offset`` on; the results for those in ``watch`` will be asked for."""
        self.ask({"op": "refresh", "begin": offset, "calls": calls, "watch": list(watch)})
        if self.device == "cuda" and not self.ipc:
            self._ask_baseline({"op": "renew"}, 60.0)

    def side(self, baseline: str) -> Side:
        """The baseline as one side of a paired timing, once there is a stock."""

        def run(calls: int, offset: int, empty: bool) -> float:
            asked = {"op": "time", "baseline": baseline, "calls": calls, "offset": offset, "empty": empty}
            begin = time.perf_counter()
            self.baseline.go()
            self.baseline.ask(asked, 300.0)
            taken = (time.perf_counter() - begin) * 1e3
            return taken + timing.stop(
                self.baseline.pause, lambda: procfs.process_ns(self.baseline.pid), self.device == "cuda"
            )

        def events() -> float | None:
            found = self._ask_baseline({"op": "events"}, 30.0)["events_ms"] if self.device == "cuda" else None
            return None if found is None else float(found)

        calls = self.calls.get(baseline, 1)
        return Side(self.pause, run, events, self.refresh, self.sets, calls, trusted=True)

    def delivery_ms(self, calls: int) -> float:
        """Milliseconds that the baseline's process needs to hand over the results of a batch of ``calls`` calls just done; the median
        of three batches."""
        taken: list[float] = []
        self.server.pause()
        for number in range(4):
            self.baseline.go()
            self.baseline.ask({"op": "time", "baseline": "eager", "calls": calls, "offset": 0, "empty": False}, 300.0)
            begin = time.perf_counter()
            self.baseline.ask({"op": "collect", "drop": number == 3}, 120.0)
            taken.append((time.perf_counter() - begin) * 1e3)
            self.pause()
        return statistics.median(taken[1:])  # the first one also takes memory

    def choose(self, batch_ms: float, whole: bool = False) -> Baselines:
        """Measure eager and torch.compile, and remember which is stronger; there must be a stock.

        Where eager clearly wins, that is remembered on disk by spec, target and toolchain, so that a later search starts without
        compiling; a failure to compile, which may be a full disk's, is not. No remembered time is ever given out: with ``whole`` both are
        measured whatever is remembered.
        """
        if self.baselines is not None and not (whole and self.baselines.note):
            return self.baselines
        mode = self.settings.compile_mode
        flushed = self.device == "cuda"
        name = "-".join(
            (self.spec.digest, self.target.name, self.environment["torch"], self.environment["device"], mode)
        )
        file = home() / "cache" / "baselines" / (re.sub(r"[^\w.+-]", "_", name) + ".json")
        eager = self.side("eager")
        ms = {"eager": eager.calibrate(batch_ms, eager if flushed else None)}
        remembered = _read(file)
        if mode == "off":
            self.baselines = Baselines(ms, "eager", "torch.compile was switched off")
            return self.baselines
        if remembered is not None and not whole:
            self.baselines = Baselines(ms, "eager", note=_lost(remembered))
            return self.baselines
        reply = self._ask_baseline({"op": "compile", "mode": mode}, self.settings.compile_s)
        if "failed" in reply:
            self.baselines = Baselines(ms, "eager", str(reply["failed"]))
        else:
            compiled = self.side("compile")
            compiled.calibrate(batch_ms, eager if flushed else None)
            pairs = alternate((eager, compiled), _CHOICE_PAIRS)
            ms = {n: statistics.median(p[i] for p in pairs) for i, n in enumerate(("eager", "compile"))}
            self.baselines = Baselines(ms, min(ms, key=lambda k: ms[k]))
            file.unlink(missing_ok=True)
            # A burst of other work can make one median lie: what is remembered must hold in every pair.
            if all(a < _CLEARLY * b for a, b in pairs):
                file.parent.mkdir(parents=True, exist_ok=True)
                temporary = file.with_suffix(f".{os.getpid()}")
                temporary.write_text(json.dumps({"ms": ms}))
                temporary.replace(file)
        return self.baselines

    def intact(self) -> bool:
        """Whether the threads of both still have the processors and the priority they were given; where not, they may run anywhere again.

        OpenMP's threads in the baseline's process have a core each, in each of the two runtimes that it may hold, PyTorch's and the one of
        what torch.compile makes.
        """
        kept, given = True, Counter[frozenset[int]]()
        for server in (self.server, *(self.timers if self.sets else ())):
            for tid in procfs.tasks(server.pid):
                with contextlib.suppress(ProcessLookupError):
                    where = frozenset(os.sched_getaffinity(tid))
                    own = server is not self.server and tid != server.pid
                    given[where] += own
                    if where != self.processors and not (own and given[where] <= _RUNTIMES):
                        kept = False
                        os.sched_setaffinity(tid, self.processors)
                    if os.getpriority(os.PRIO_PROCESS, tid) != os.getpriority(os.PRIO_PROCESS, 0):
                        kept = False
        return kept

    def close(self) -> None:
        """End its processes."""
        for server in (self.server, *self.timers):
            server.go()
            server.close()
        self.folder.cleanup()


def _lost(ms: dict[str, float]) -> str:
    """Why torch.compile is not measured."""
    times = ms["compile"] / ms["eager"]
    return f"torch.compile took {times:.1f} times as long as eager before and is left out while searching; the winner is timed against both"


def _read(file: Path) -> dict[str, float] | None:
    """The times by which eager won, where they were remembered."""
    try:
        data = json.loads(file.read_text())
    except (OSError, ValueError):
        return None
    ms = data.get("ms") if isinstance(data, dict) else None
    return ms if isinstance(ms, dict) and ms.get("eager") and ms.get("compile") else None
