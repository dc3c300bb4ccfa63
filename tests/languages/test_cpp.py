"""C++ candidates: what is read from their text, how errors are shown, and that they also work without the judge."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluators import languages
from evaluators.errors import CompileFailed, SourceRejected, UnknownLanguage
from evaluators.languages import cpp
from tests.judge.conftest import CPU, MODEL, ROW_SUM, native


@given(st.dictionaries(st.from_regex(r"[a-z_]{1,8}\.cpp", fullmatch=True), st.text(), min_size=1, max_size=3))
def test_sources_survive_wrapping_exactly(files: dict[str, str]) -> None:
    source = cpp.wrap(files, MODEL)
    assert cpp.sources(cpp.split_loader(source)) == files
    ast.parse(source)


def test_sources_are_read_without_running_anything() -> None:
    with pytest.raises(SourceRejected, match="must be a literal"):
        cpp.check(native().source.replace("SOURCES = {", "SOURCES = print('ran') or {", 1))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("import torch", "import os"), "line .*import of 'os' is not allowed"),
        (("import torch", "import torch, ctypes"), "ctypes"),
        (("import torch\n", "from torch.utils import cpp_extension\nimport torch\n"), "torch.utils.cpp_extension"),
        (("torch.empty(", "exec('') or torch.empty("), r"exec\(\) is not allowed"),
        (("x.shape[0])\n", "x.__class__.__subclasses__())\n"), "__subclasses__"),
        (("def forward", "def other"), "no forward method"),
        (('"kernel.cpp"', '"../kernel.cpp"'), "must be a plain name"),
        (("'kernel.cpp'", "'../kernel.cpp'"), "must be a plain name"),
    ],
)
def test_rejections_name_line_and_reason(change: tuple[str, str], message: str) -> None:
    source = native().source
    if change[0] not in source:
        pytest.skip("the literal is quoted the other way")
    with pytest.raises(SourceRejected, match=message):
        cpp.check(source.replace(change[0], change[1], 1))


def test_text_after_the_loader_is_rejected() -> None:
    with pytest.raises(SourceRejected, match="must end with the fixed loader"):
        cpp.check(native().source + "\nprint(1)\n")


def test_library_calls_are_recorded_not_rejected() -> None:
    assert not cpp.check(native().source).uses_library
    found = cpp.check(native(body=MODEL.replace("return y", "return torch.softmax(y, -1) @ y")).source)
    assert found.uses_library
    assert found.library_calls == ("@", "torch.softmax")


def test_compile_errors_are_short_and_show_the_line() -> None:
    wrong = ROW_SUM.replace("double sum", "duble sum")
    with pytest.raises(CompileFailed) as caught:
        cpp.build(native(wrong).source, CPU)
    text = str(caught.value)
    assert "kernel.cpp:4" in text
    assert "duble sum = 0;" in text
    assert len(text) < 3100


def test_second_build_comes_from_the_cache() -> None:
    source = native(ROW_SUM + "\n// cached\n").source
    first, second = cpp.build(source, CPU), cpp.build(source, CPU)
    assert first.native == second.native
    assert (first.resources["cached"], second.resources["cached"]) == (False, True)


def test_headers_and_several_units_compile_together() -> None:
    files = {
        "one.h": "#pragma once\nfloat twice(float);\n",
        "a.cpp": '#include "one.h"\nfloat twice(float v) { return 2 * v; }\n',
        "b.cpp": '#include "one.h"\nextern "C" void kernel(float* x) { x[0] = twice(x[0]); }\n',
    }
    assert cpp.build(cpp.wrap(files, MODEL), CPU).native is not None


def test_the_module_works_outside_the_judge(tmp_path: Path) -> None:
    """The loader compiles by itself: another tool can import the file."""
    (tmp_path / "kernel.py").write_text(native().source)
    script = "import torch, kernel; x = torch.rand(5, 7); torch.testing.assert_close(kernel.ModelNew()(x), x.sum(-1)); print('fine')"
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False,
        env={"PATH": "/usr/bin:/bin", "XDG_CACHE_HOME": str(tmp_path), "HOME": str(tmp_path)},
    )  # fmt: skip
    assert done.stdout.strip() == "fine", done.stderr


def test_registry() -> None:
    assert {"cpp", "triton"} <= set(languages.names())
    assert languages.get("cpp") is cpp.LANGUAGE
    assert languages.guess(native().source) == "cpp"
    with pytest.raises(UnknownLanguage, match="there are: cpp"):
        languages.get("fortran")
