"""Text from outside, parsed and compiled: refused with a reason, in bounded time and memory, telling nothing of other files."""

from __future__ import annotations

import time
from pathlib import Path

import psutil
import pytest

from evaluators import landlock
from evaluators.errors import CompileFailed, SourceRejected
from evaluators.languages import cpp
from evaluators.languages import native as compiler
from tests.judge.conftest import CPU, ROW_SUM, native, triton

SOURCE = native().source
UNREADABLE = {
    "nested unary operators": ("x = " + "-" * 6000 + "1\n" + SOURCE, "nested too deeply"),
    "nested parentheses": ("x = " + "(" * 150 + "1" + ")" * 150 + " and (" * 400 + "\n" + SOURCE, ""),
    "a very long sum": ("x = " + "+".join(["1"] * 6000) + "\n" + SOURCE, "nested too deeply"),
    "nested SOURCES": (SOURCE.replace("SOURCES = {", "SOURCES = {**" + "-" * 900 + "1,", 1), ""),
    "a lone surrogate": ("# \ud800\n" + SOURCE, "lone surrogate"),
    "a lone surrogate in SOURCES": (SOURCE.replace("SOURCES = {", 'SOURCES = {"a.h": "\\ud83d",', 1), "lone surrogate"),
    "a null byte": ("x = 1\0\n" + SOURCE, ""),
    "megabytes": ("#" * (2 << 20) + "\n" + SOURCE, "at most"),
    "a number of ten thousand digits": ("x = " + "9" * 10000 + "\n" + SOURCE, ""),
}


@pytest.mark.parametrize("name", UNREADABLE)
def test_text_beyond_the_parser_is_rejected(name: str) -> None:
    source, message = UNREADABLE[name]
    with pytest.raises(SourceRejected) as caught:
        cpp.check(source)
    assert message in str(caught.value)


def test_the_same_holds_for_triton() -> None:
    from evaluators.languages import triton as language

    with pytest.raises(SourceRejected, match="nested too deeply"):
        language.check("x = " + "-" * 6000 + "1\n" + triton().source)


@pytest.mark.parametrize(
    "line",
    [
        '#include "/etc/passwd"',
        "#include </etc/passwd>",
        '#include "/dev/zero"',
        '#include "../other.h"',
        "#include <../../etc/passwd>",
        '#  /* */ include  "/dev/stdin"',
        '#inc\\\nlude "/etc/passwd"',
        '%:include "/etc/passwd"',
        '#define F "/etc/passwd"\n#include F',
        '#include_next "/etc/passwd"',
        '#embed "/etc/passwd"',
        'asm(".incbin \\"/etc/passwd\\"");',
        'asm(".inc" "bin \\"/etc/passwd\\"");',
        'asm("\\x2einc\\154ude \\"/etc/passwd\\"");',
        'const char* a = "/*";\n#include "/etc/passwd"\nconst char* b = "*/";',
        'const char* a = R"x(/*)x";\n#include "/etc/passwd"\n/* */',
        '// /*\n#include "/etc/passwd"\n// */',
        '#if __has_include("/etc/passwd")\n#endif',
        "#if __has_include(</etc/passwd>)\n#endif",
        '#define H __has_include\n#if H("/etc/passwd")\n#endif',
        '#line 1 "/etc/passwd"\nint x = nothing;',
        '# 1 "/etc/passwd"\nint x = nothing;',
        '#pragma GCC dependency "/etc/passwd"',
        '_Pragma("GCC dependency \\"/etc/passwd\\"")',
    ],
)
def test_other_files_are_not_included(line: str) -> None:
    with pytest.raises(SourceRejected, match="not allowed"):
        cpp.check(native(line + "\n" + ROW_SUM).source)


def test_text_made_to_be_slow_to_search_is_not() -> None:
    compiler.check_includes("kernel.cpp", 'R"(' * 200_000, {"kernel.cpp"})
    compiler.check_includes("kernel.cpp", "/*" * 300_000, {"kernel.cpp"})


@pytest.mark.parametrize(
    "line",
    [
        "#include <cmath>",
        "# include <bits/stdc++.h> // all",
        "#include <immintrin.h> /* vectors */",
        "#pragma once",
        '#pragma GCC optimize("O3")',
        "#if __has_include(<cblas.h>)\n#endif",
        '/* not read:\n#include "other.h"\n*/',
        '// #include "other.h"',
        '#line 7 "kernel.cpp"',
        "long a = 1'000'000;",
    ],
)
def test_system_headers_are(line: str) -> None:
    cpp.check(native(line + "\n" + ROW_SUM).source)


def test_messages_tell_nothing_of_other_files(tmp_path: Path) -> None:
    """Whatever way a file was read: its lines do not reach the message, which a report and a prompt will show."""
    secret = tmp_path / "secret.txt"
    secret.write_text("the_password is hunter2\n")
    text = f'extern "C" void kernel() {{ duble x; }}\n#include "{secret}"\n'
    with pytest.raises(CompileFailed) as caught:
        compiler.compile_library(["g++", *cpp.FLAGS], {"kernel.cpp": text}, tmp_path / "out.so")
    assert "hunter2" not in str(caught.value)
    assert "the_password" not in str(caught.value)
    assert ("into SOURCES" if landlock.version() else "duble") in str(caught.value)
    assembly = f'asm(".inc" "lude \\"{secret}\\"");\n'
    with pytest.raises(CompileFailed) as caught:
        compiler.compile_library(["g++", *cpp.FLAGS], {"kernel.cpp": assembly}, tmp_path / "out.so")
    assert "hunter2" not in str(caught.value)


def test_link_errors_are_shown(tmp_path: Path) -> None:
    text = 'extern "C" void missing_one(); extern "C" void kernel() { missing_one(); }\n'
    with pytest.raises(CompileFailed, match="missing_one"):
        compiler.compile_library(["g++", *cpp.FLAGS, "-Wl,-z,defs"], {"kernel.cpp": text}, tmp_path / "out.so")


def _compilers(folder: Path) -> list[int]:
    found = []
    for process in psutil.process_iter(["cwd"]):
        if (process.info["cwd"] or "").startswith(str(folder)):
            found.append(process.pid)
    return found


def test_nothing_of_a_compiler_outlives_its_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """g++ starts cc1plus as a child, which a kill of g++ alone leaves running for ever."""
    monkeypatch.setattr(compiler, "TIME_LIMIT_S", 1.5)
    endless = (
        "template<int N, long K> struct F { static constexpr long v = F<N - 1, 2 * K>::v + F<N - 1, 2 * K + 1>::v; };\n"
        "template<long K> struct F<0, K> { static constexpr long v = K; };\nlong all = F<30, 1>::v;\n"
    )
    with pytest.raises(CompileFailed, match="took longer than"):
        compiler.compile_library(["g++", *cpp.FLAGS], {"kernel.cpp": endless}, tmp_path / "out.so")
    deadline = time.monotonic() + 10
    while _compilers(tmp_path) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert _compilers(tmp_path) == []


def test_a_compiler_that_wants_all_memory_is_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiler, "MEMORY_LIMIT", 256 << 20)
    with pytest.raises(CompileFailed, match="of memory"):
        compiler.compile_library(["g++", *cpp.FLAGS], {"kernel.cpp": '#include "/dev/zero"\n'}, tmp_path / "out.so")


def test_vector_width_is_read_from_the_code() -> None:
    built = cpp.build(native(ROW_SUM + "\n// width\n").source, CPU)
    assert built.resources.get("vector_bits", 0) in (0, 128, 256, 512)
