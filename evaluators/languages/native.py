"""Running a native compiler on text that is not trusted: in bounded time and memory, on no files but its own and the system's headers."""

from __future__ import annotations

import contextlib
import json
import math
import os
import re
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from evaluators import landlock, places
from evaluators.errors import CompileFailed, SourceRejected
from evaluators.home import home
from evaluators.languages import loops

TIME_LIMIT_S = 60.0
MEMORY_LIMIT = 4 << 30
"""Address space of each of the compiler's processes, bytes; heavily templated kernels take a tenth of it."""
FILE_LIMIT = 1 << 30
REPORT_LIMIT = 1 << 20
"""Bytes of a report on loops that are read."""
READ_LIMIT = 32 << 20
"""Bytes of a library that is read through for its vector width."""
_KEPT = (
    "PATH LD_LIBRARY_PATH LIBRARY_PATH CPATH C_INCLUDE_PATH CPLUS_INCLUDE_PATH COMPILER_PATH GCC_EXEC_PREFIX".split()
)
"""What the compiler is told of the judge's environment, in which there may be keys."""
_OUT_OF_REACH = "\nthe compiler may read the system's headers and the candidate's own files only: put what the kernel needs into SOURCES"
_LIMITED = 'ulimit -v "$1" && ulimit -f "$2" && ulimit -t "$3" && ulimit -c 0 && shift 3 && exec "$@"'
T = TypeVar("T")
_TOKEN = re.compile(
    r'(R"([^()\\\s]{0,16})\(.*?(?:\)\2"|\Z)|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\')|//[^\n]*|/\*.*?(?:\*/|\Z)', re.S
)
"""A literal, which is kept, or a comment. What looks like a comment inside a literal is none."""
_INCLUDE = re.compile(r"^\s*(?:#|%:|\?\?=)\s*(include(?:_next)?|import|embed)\b\s*(.*?)\s*$", re.M)
_ASKED = re.compile(r"\b(__has_include(?:_next)?|__has_embed)\s*\(\s*(.*?)\s*\)")
_LINE = re.compile(r'^\s*(?:#|%:|\?\?=)\s*(?:line\s+)?\d+\s+"(.*?)"', re.M)
_SYSTEM_HEADER = re.compile(r"<[A-Za-z0-9_+\-][A-Za-z0-9_+\-./]*>")
_PLACE = re.compile(r"^(?:In file included from |\s+from )?([^:\s]+):(?:\d+|\([.\w+]+\)|in function|undefined|[ ])")
_TROUBLE = re.compile(r"(error|Error|undefined reference|undefined symbol)")


def check_includes(name: str, text: str, own: set[str]) -> None:
    """Raise :class:`SourceRejected` for an include of anything but a system header or another of the candidate's files.

    A compiler reads whatever a path names, and shows it in its messages.
    """
    plain = _TOKEN.sub(lambda m: m[1] or " ", text.replace("\\\r\n", "").replace("\\\n", ""))
    for match in _INCLUDE.finditer(plain):
        if not (match[1].startswith("include") and _is_header(match[2], own)):
            raise SourceRejected(
                f"SOURCES: {name}: #{match[1]} {match[2][:80]} is not allowed; include system headers as <name>, own files by name"
            )
    for match in _ASKED.finditer(plain):
        if not _is_header(match[2], own):
            raise SourceRejected(
                f"SOURCES: {name}: {match[1]}({match[2][:80]}) is not allowed; ask for system headers only"
            )
    for match in _LINE.finditer(plain):
        if match[1] not in own:
            raise SourceRejected(
                f"SOURCES: {name}: #line {match[1][:80]} is not allowed; name a file of SOURCES, or none"
            )
    if re.search(r"\bdefine\b.*__has_(include|embed)", plain):
        raise SourceRejected(f"SOURCES: {name}: __has_include in a macro is not allowed")
    if re.search(r"GCC\s+(dependency|pch_preprocess)", plain):
        raise SourceRejected(f"SOURCES: {name}: #pragma GCC dependency is not allowed")
    if re.search(r"\.inc(?:lude|bin)\b", _joined(plain)):
        raise SourceRejected(f"SOURCES: {name}: an assembler's .include and .incbin are not allowed")


def _is_header(wanted: str, own: set[str]) -> bool:
    """Whether what an include names is a system header, or in quotes one of the candidate's own files."""
    system = _SYSTEM_HEADER.fullmatch(wanted) and ".." not in wanted
    return bool(system) or (wanted[:1] == wanted[-1:] == '"' and wanted[1:-1] in own)


def _joined(text: str) -> str:
    """Text with neighbouring literals joined and numeric escapes written out, as the compiler hands them to the assembler."""
    text = re.sub(
        r"\\x([0-9a-fA-F]{1,2})|\\([0-7]{1,3})", lambda m: chr(int(m[1], 16) if m[1] else int(m[2], 8) % 256), text
    )
    return re.sub(r'"\s*(?:u8|[uUL])?"', "", text)


def compile_library(
    command: Sequence[str],
    files: dict[str, str],
    library: Path,
    options: Sequence[str] = (),
    readable: Sequence[Path] = (),
) -> bool:
    """Compile and link ``files`` into the shared library ``library``; whether the compiler was kept to its own folder, the system's files
    and what else is ``readable``, as it is where the kernel has Landlock. What was said of loops (:mod:`evaluators.languages.loops`) lies
    beside the library, as ``.loops``. ``options`` only make it quicker: what fails with them is tried without.
    Raises :class:`CompileFailed`."""
    with tempfile.TemporaryDirectory(dir=library.parent) as name:
        work = Path(name)
        for file, text in files.items():
            (work / file).write_text(text, encoding="utf-8", newline="")
        units = sorted(file for file in files if file.endswith(".cpp"))
        rest = ["-fmax-errors=4", loops.FLAG, *units, "-o", "out.so"]
        code, said, kept = _run([*command, *options, *rest], work, readable)
        if code and options:
            code, said, kept = _run([*command, *rest], work)
        if code:
            raise CompileFailed("g++ failed:\n" + trim(said, set(files)) + (_OUT_OF_REACH if _denied(said) else ""))
        with contextlib.suppress(OSError), (work / loops.REPORT).open("rb") as written:
            report = loops.parse(written.read(REPORT_LIMIT).decode(errors="replace"), set(files))
            (work / "loops.json").write_text(json.dumps(report))
            (work / "loops.json").replace(library.with_suffix(".loops"))
        (work / "out.so").replace(library)
        return kept


def compile_in(work: Path, command: Sequence[str]) -> bool:
    """Run a compiler in the folder ``work``, under the same limits; whether it succeeded. Raises :class:`CompileFailed` at a limit."""
    return _run(command, work)[0] == 0


def _denied(said: str) -> bool:
    return bool(re.search(r"permission denied|file not found: /", said, re.I))


def _run(command: Sequence[str], work: Path, readable: Sequence[Path] = ()) -> tuple[int, str, bool]:
    """Exit code and messages of a compiler under limits, and whether files were out of its reach; ended with everything it started.

    A compiler driver starts the real compiler, the assembler and the linker as children, which outlive it where it alone is killed.
    """
    limits = [str(MEMORY_LIMIT >> 10), str(FILE_LIMIT // 512), str(math.ceil(TIME_LIMIT_S) + 5)]
    said = work / "messages"
    known = {name: os.environ[name] for name in _KEPT if name in os.environ}
    with said.open("wb") as messages:
        process, kept = _confined(
            lambda: subprocess.Popen(
                ["/bin/sh", "-c", _LIMITED, "sh", *limits, *command],
                cwd=work, stdin=subprocess.DEVNULL, stdout=messages, stderr=messages, start_new_session=True,
                env={**known, "TMPDIR": str(work), "LC_ALL": "C", "CCACHE_DISABLE": "1"},
            ),
            command[0], readable, [work],
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
    return code, text, kept


def _confined(start: Callable[[], T], tool: str, readable: Sequence[Path], writable: Sequence[Path]) -> tuple[T, bool]:
    """What ``start`` gives, the processes that it starts kept to these places and to what ``tool`` reads of the system; and whether they
    were."""
    system = places.for_compiler(tool, [places.JUDGE, str(home())])
    return landlock.within([*system, *map(str, readable)], [places.NOTHING, *map(str, writable)], start)


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
    """Widest vector register the code names (512, 256, 128), 0 where objdump is missing or the library is too large to read."""
    tool = shutil.which("objdump")
    if tool is None or library.stat().st_size > READ_LIMIT:
        return 0
    try:
        done, _ = _confined(
            lambda: subprocess.run(
                [tool, "-d", "--no-show-raw-insn", str(library)],
                capture_output=True, text=True, errors="replace", timeout=10, check=False,
            ),
            tool, [library], [],
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return 0
    text = done.stdout
    widths = ((512, "%zmm"), (256, "%ymm"), (128, r"\bv?(add|mul|max|min)p[sd]\b"))
    return next((bits for bits, pattern in widths if re.search(pattern, text)), 0)
