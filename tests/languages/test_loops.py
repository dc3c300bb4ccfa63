"""What is read from g++'s report on loops."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluators.languages import loops, native

SOURCE = """extern "C" void kernel(const float* x, float* y, int n) {
    for (int i = 0; i < n; ++i)
        y[i] = 2 * x[i];
    for (int i = 1; i < n; ++i)
        y[i] += y[i - 1];
}
"""


def test_a_loop_is_vectorised_or_not_and_why(tmp_path: Path) -> None:
    compiler = shutil.which("g++")
    if compiler is None:
        pytest.skip("no g++")
    library = tmp_path / "out.so"
    native.compile_library([compiler, "-O3", "-fPIC", "-shared"], {"kernel.cpp": SOURCE}, library)
    found = {loop["place"]: loop for loop in json.loads(library.with_suffix(".loops").read_text())}
    assert found["kernel.cpp:2"]["bytes"] >= 16
    assert (found["kernel.cpp:4"]["bytes"], bool(found["kernel.cpp:4"]["why"])) == (0, True)


@given(st.text(), st.lists(st.sampled_from([
    "kernel.cpp:1:2: optimized: loop vectorized using 32 byte vectors",
    "kernel.cpp:1:2: optimized: loop vectorized using 64 byte vectors",
    "kernel.cpp:1:2: missed: couldn't vectorize loop",
    "kernel.cpp:9:2: missed: couldn't vectorize loop",
    "kernel.cpp:9:7: missed: not vectorized: no vectype for stmt",
    "kernel.cpp:9:7: missed: not vectorized: multiple nested loops.",
    "/usr/include/c++/12/bits/stl_algo.h:9:7: optimized: loop vectorized using 32 byte vectors",
])))  # fmt: skip
def test_any_report_gives_each_own_loop_once_and_the_best_of_it(noise: str, lines: list[str]) -> None:
    found = loops.parse("\n".join([noise, *lines]), {"kernel.cpp"})
    places = [loop["place"] for loop in found]
    assert places == sorted(set(places))
    widths = {loop["place"]: loop["bytes"] for loop in found}
    if any("64 byte" in line for line in lines):
        assert widths["kernel.cpp:1"] == 64
    assert all(bool(loop["why"]) == (loop["bytes"] == 0) for loop in found)
    assert set(widths) <= {"kernel.cpp:1", "kernel.cpp:9"}
