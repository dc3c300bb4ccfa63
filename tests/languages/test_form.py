"""What a kernel file may look like when people write it: names of their own, no loader, and one clear line where there is no kernel."""

from __future__ import annotations

from pathlib import Path

import pytest

from evaluators.errors import SourceRejected
from evaluators.judge.alone import judge_file
from evaluators.languages import cpp, finished, guess
from evaluators.languages.review import review
from tests.judge.conftest import MODEL, ROW_SUM, TRITON_ROW_SUM, native

PLAIN = "import torch\n\n\nclass ModelNew(torch.nn.Module):\n    def forward(self, x):\n        return x.sum(-1)\n"
WRITTEN = f'SOURCES = {{\n    "kernel.cpp": r"""{ROW_SUM}""",\n}}\n{MODEL}'


def test_the_loader_is_added_where_it_is_missing_or_altered() -> None:
    whole = finished(WRITTEN, "cpp")
    cpp.check(whole)
    assert cpp.sources(cpp.split_loader(whole)) == {"kernel.cpp": ROW_SUM}
    assert finished(whole, "cpp") == whole
    altered = WRITTEN + cpp.LOADER.replace("subprocess.run(", "subprocess.call(")
    assert cpp.split_loader(finished(altered, "cpp")).strip() == cpp.split_loader(whole).strip()
    assert finished(TRITON_ROW_SUM, "triton") == TRITON_ROW_SUM


@pytest.mark.parametrize(
    ("source", "language"),
    [
        (native().source, "cpp"),
        (WRITTEN.replace("SOURCES =", "SOURCES: dict[str, str] ="), "cpp"),
        ("import torch\n" + WRITTEN, "cpp"),
        (TRITON_ROW_SUM, "triton"),
        (
            TRITON_ROW_SUM.replace("@triton.jit", "@jit").replace("import triton\n", "from triton import jit\n"),
            "triton",
        ),
        ("import triton\n" + PLAIN, "triton"),
    ],
)
def test_a_language_is_known_by_what_the_module_holds(source: str, language: str) -> None:
    assert guess(source) == language


@pytest.mark.parametrize("source", [PLAIN, PLAIN.replace("import torch\n", "import torch  # SOURCES = {}\n", 1)])
def test_a_module_without_a_kernel_is_said_to_have_none(source: str, tmp_path: Path) -> None:
    """It is not "in Triton"."""
    with pytest.raises(SourceRejected, match=r"no kernel of its own.*SOURCES.*triton.jit.*candidates.md"):
        guess(source)
    (tmp_path / "kernel.py").write_text(source)
    found = judge_file(tmp_path / "kernel.py", "layernorm", "nvidia-h200")
    assert found.status == "source_rejected"
    assert "no kernel of its own" in found.message


FORWARD = (
    "import torch\n\n\nclass ModelNew(torch.nn.Module):\n    def forward(self, {0}):\n        {1}\n        return x\n"
)


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ("input", "x = input.contiguous()"),
        ("input, *vars, open=None, **eval", "x = (input, vars, open, eval)"),
        ("x", "compile = x + 1; x = compile"),
        ("x", "x = (lambda input: input + 1)(x)"),
    ],
)
def test_arguments_and_local_variables_may_be_called_like_builtins(arguments: str, line: str) -> None:
    """ATen's own arguments are: aten::softmax takes an ``input``."""
    review(FORWARD.format(arguments, line))


@pytest.mark.parametrize(
    ("arguments", "line", "name"),
    [
        ("x", "open('/etc/passwd')", "open"),
        ("x, f=open", "f('/etc/passwd')", "open"),
        ("x, open=open", "open('/etc/passwd')", "open"),
        ("x", "global exec; exec = exec", "exec"),
        ("x", "(lambda f=eval: f)()('1')", "eval"),
        ("x", "(lambda input: 0)(0); input()", "input"),
        ("x", "[open for open in (1,)]; open('f')", "open"),
    ],
)
def test_builtins_themselves_stay_forbidden(arguments: str, line: str, name: str) -> None:
    with pytest.raises(SourceRejected, match=rf"{name}\(\) is not allowed"):
        review(FORWARD.format(arguments, line))
