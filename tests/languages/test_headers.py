"""Headers that are compiled beforehand change how long compiling takes, and nothing else."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluators import targets
from evaluators.errors import CompileFailed
from evaluators.languages import cpp, headers

INCLUDES = "#include <cmath>\n#include <cstdint>\n#include <immintrin.h>\n"
PRECISE = '#pragma GCC optimize("no-associative-math")\n'
BODY = """extern "C" void k(const float* x, float* y, int64_t n) {
  float s = 0.0f;
  for (int64_t i = 0; i < n; ++i) { s += x[i]; y[i] = std::sqrt(std::fabs(x[i])) + s; }
}
"""


@pytest.fixture(autouse=True)
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KERNELEVOLVE_HOME", str(tmp_path))


def built(text: str) -> Path:
    model = "import torch\n\n\nclass ModelNew(torch.nn.Module):\n    def forward(self, x):\n        return x\n"
    library = cpp.build(cpp.wrap({"k.cpp": text}, model), targets.load("cpu-x86-64")).native
    assert library is not None
    return Path(library)


def code(library: Path) -> list[str]:
    done = subprocess.run(["objdump", "-d", "--no-show-raw-insn", library], capture_output=True, text=True, check=True)
    return done.stdout.splitlines()[3:]


def kept(tmp_path: Path) -> list[Path]:
    return list((tmp_path / "cache" / "headers").glob("*/head.h.gch"))


@pytest.mark.parametrize("first", ["", PRECISE])
def test_machine_code_is_the_same_with_and_without(first: str, tmp_path: Path) -> None:
    """Without at first, when a set of headers is met for the first time; with them from then on."""
    libraries = [built(f"{first}{INCLUDES}{BODY}// {number}\n") for number in range(3)]
    assert len(kept(tmp_path)) == 1
    assert len(set(libraries)) == 3
    assert code(libraries[0]) == code(libraries[1]) == code(libraries[2])


def test_a_name_of_a_header_that_is_not_included_stays_unknown(tmp_path: Path) -> None:
    for number in range(2):
        built(f"{INCLUDES}{BODY}// {number}\n")
    assert kept(tmp_path)
    with pytest.raises(CompileFailed, match="vector"):
        built(f"{INCLUDES}{BODY}std::vector<int> more;\n")


def test_what_cannot_be_used_is_done_without(tmp_path: Path) -> None:
    """Truncated, as a full disk leaves it."""
    for number in range(2):
        built(f"{INCLUDES}{BODY}// {number}\n")
    [made] = kept(tmp_path)
    made.write_bytes(made.read_bytes()[:4096])
    assert code(built(f"{INCLUDES}{BODY}// again\n"))


@given(
    st.sampled_from(["#define sqrt cbrt\n", "struct s;\n", '#include "own.h"\n', "#include <cassert>\n", "#ifdef A\n", "#undef A\n"]),
    st.sampled_from(["", PRECISE, "// what it does\n"]),
)  # fmt: skip
def test_what_could_change_a_header_rules_it_out(before: str, first: str) -> None:
    assert headers.head(first + INCLUDES + BODY) is not None
    assert headers.head(first + before + INCLUDES + BODY) is None


def test_options_that_are_gone_back_to_rule_it_out() -> None:
    assert headers.head(f"{PRECISE}{INCLUDES}#pragma GCC reset_options\n{BODY}") is None
    assert headers.head(f"{INCLUDES}#pragma GCC reset_options\n{BODY}") is not None
    assert headers.head(f"// go on \\\n{INCLUDES}{BODY}") is None


def test_a_place_that_cannot_be_written_only_costs_time(tmp_path: Path) -> None:
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "headers").write_text("in the way")
    assert code(built(f"{INCLUDES}{BODY}"))
