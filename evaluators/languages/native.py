"""Running a native compiler on text that is not trusted: in bounded time and memory, on no files but its own and the system's headers."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from evaluators.errors import CompileFailed, SourceRejected

TIME_LIMIT_S = 60.0
MEMORY_LIMIT = 4 << 30
"""Address space of each of the compiler's processes, bytes; heavily templated kernels take a tenth of it."""
FILE_LIMIT = 1 << 30
_LIMITED = 'ulimit -v "$1" && ulimit -f "$2" && ulimit -c 0 && shift 2 && exec "$@"'
_INCLUDE = re.compile(r"^\s*(?:#|%:|\?\?=)\s*(include(?:_next)?|import|embed)\b\s*(.*?)\s*$", re.M)
_SYSTEM_HEADER = re.compile(r"<[A-Za-z0-9_+\-][A-Za-z0-9_+\-./]*>")
_PLACE = re.compile(r"^(?:In file included from |\s+from )?([^:\s]+):(?:\d+|\([.\w+]+\)|in function|undefined|[ ])")
_TROUBLE = re.compile(r"(error|Error|undefined reference|undefined symbol)")


def check_includes(name: str, text: str, own: set[str]) -> None:
    """Raise :class:`SourceRejected` for an include of anything but a system header or another of the candidate's files.

    A compiler reads whatever a path names, and shows it in its messages.
    """
    plain = re.sub(r"/\*.*?\*/", " ", text.replace("\\\r\n", "").replace("\\\n", ""), flags=re.S)
    for match in _INCLUDE.finditer(plain):
        wanted = re.sub(r"\s*//.*$", "", match[2])
        system = _SYSTEM_HEADER.fullmatch(wanted) and ".." not in wanted
        if match[1].startswith("include") and (system or wanted[1:-1] in own):
            continue
        raise SourceRejected(
            f"SOURCES: {name}: #{match[1]} {wanted[:80]} is not allowed; include system headers as <name> and files of SOURCES by name"
        )
    if re.search(r"\.inc(?:lude|bin)\b", plain):
        raise SourceRejected(f"SOURCES: {name}: an assembler's .include and .incbin are not allowed")


def compile_library(command: Sequence[str], files: dict[str, str], library: Path) -> None:
    """Compile and link ``files`` into the shared library ``library``. Raises :class:`CompileFailed`."""
    with tempfile.TemporaryDirectory(dir=library.parent) as name:
        work = Path(name)
        for file, text in files.items():
            (work / file).write_text(text, encoding="utf-8", newline="")
        units = sorted(file for file in files if file.endswith(".cpp"))
        code, said = _run([*command, "-fmax-errors=4", *units, "-o", "out.so"], work)
        if code:
            raise CompileFailed("g++ failed:\n" + trim(said, set(files)))
        (work / "out.so").replace(library)


def _run(command: Sequence[str], work: Path) -> tuple[int, str]:
    """Exit code and messages of a compiler under limits; ended with everything it started.

    A compiler driver starts the real compiler, the assembler and the linker as children, which outlive it where it alone is killed.
    """
    limits = [str(MEMORY_LIMIT >> 10), str(FILE_LIMIT // 512)]
    said = work / "messages"
    with said.open("wb") as messages:
        process = subprocess.Popen(
            ["/bin/sh", "-c", _LIMITED, "sh", *limits, *command],
            cwd=work, stdin=subprocess.DEVNULL, stdout=messages, stderr=messages, start_new_session=True,
            env={**os.environ, "TMPDIR": str(work), "LC_ALL": "C"},
        )  # fmt: skip
        try:
            code = process.wait(TIME_LIMIT_S)
        except subprocess.TimeoutExpired:
            raise CompileFailed(f"g++ took longer than {TIME_LIMIT_S:g} s: unroll or inline less") from None
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    with said.open("rb") as written:
        text = written.read(1 << 20).decode(errors="replace")
    if code and re.search(r"out of memory|cannot allocate memory|virtual memory exhausted|std::bad_alloc", text, re.I):
        raise CompileFailed(
            f"g++ needed more than {MEMORY_LIMIT >> 30} GiB of memory: unroll, inline or instantiate less"
        )
    return code, text


def trim(output: str, own: set[str], errors: int = 3, lines_each: int = 4) -> str:
    """The first errors of a compiler's output, each with its source excerpt, as far as they speak of the candidate's own files or the
    system's headers; what was said of any other file is left out."""
    lines = _own_lines(output.splitlines(), own)
    kept: list[str] = []
    count = 0
    for number, line in enumerate(lines):
        if _TROUBLE.search(line) and not line.startswith(" "):
            kept += lines[number : number + lines_each]
            count += 1
            if count == errors:
                break
    return "\n".join(kept or lines[:12])[:3000] or "it speaks of no file of the candidate's"


def _own_lines(lines: list[str], own: set[str]) -> list[str]:
    kept = []
    showing = True
    for line in lines:
        place = _PLACE.match(line)
        if place:
            showing = _is_known(place[1], own)
        elif not line.startswith(" "):
            showing = True
        if showing:
            kept.append(line)
    return kept


def _is_known(path: str, own: set[str]) -> bool:
    if "/" not in path:
        return path in own or path in ("g++", "cc1plus", "collect2")
    system = ("/usr/include/", "/usr/lib/", "/usr/local/include/", "/usr/local/lib/", "/usr/bin/", "/opt/")
    real = os.path.normpath(path)
    return real.startswith(system) or bool(re.search(r"/cc\w{6}\.(o|s|ltrans)", real))


def vector_bits(library: Path) -> int:
    """Widest vector register the code names (512, 256, 128), 0 where objdump is missing."""
    tool = shutil.which("objdump")
    if tool is None:
        return 0
    try:
        text = subprocess.run(
            [tool, "-d", "--no-show-raw-insn", str(library)],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=10,
            check=False,
        ).stdout
    except subprocess.TimeoutExpired:
        return 0
    widths = ((512, "%zmm"), (256, "%ymm"), (128, r"\bv?(add|mul|max|min)p[sd]\b"))
    return next((bits for bits, pattern in widths if re.search(pattern, text)), 0)
