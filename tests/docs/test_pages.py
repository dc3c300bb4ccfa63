"""The pages agree with the code: links lead somewhere, commands and options exist, tables are complete, examples work."""

from __future__ import annotations

import importlib.util
import re
import shlex
import typing
from pathlib import Path

import pytest
import yaml

from evaluators.ir.pattern import PATTERNS
from knowledge.exemplars import Exemplar, parse_exemplar
from knowledge.frontmatter import KINDS, LIST_FIELDS, OTHER_FIELDS, TEXT_FIELDS, checked
from knowledge.moves import ACTIONS, CONDITIONS, parse_moves

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]


def text(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def blocks(page: str, form: str, fence: str = "```") -> list[str]:
    return re.findall(rf"^{fence}{form}\n(.*?)^{fence}$", page, re.MULTILINE | re.DOTALL)


def anchors(page: Path) -> set[str]:
    """Anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", h.lower()).replace(" ", "-") for h in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_links_lead_somewhere(page: Path) -> None:
    """Every relative link names a file that is there, and a heading that it has."""
    for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
        if "://" in link:
            continue
        name, _, anchor = link.partition("#")
        aim = (page.parent / name).resolve() if name else page
        assert aim.exists(), f"{page.name}: {link}"
        assert not anchor or anchor in anchors(aim), f"{page.name}: {link}: no such heading"


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_named_files_exist(page: Path) -> None:
    """Every path in the repository that a page names in code style exists (patterns with capitals or … aside)."""
    tops = "agent|retrieval|knowledge|evaluators|corpora|kernelevolve|benchmarks|notebooks|docs|tests"
    for path in re.findall(rf"`((?:{tops})/[\w./-]*)`", page.read_text(encoding="utf-8")):
        if not re.search(r"/[A-Z]+\b", path):
            assert (ROOT / path).exists(), f"{page.name}: {path}"


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_commands_exist(page: Path) -> None:
    """Every command in a console block, and every `kernelevolve …` in running text, names a command and options that exist."""
    from agent.cli.app import command

    known = command().commands
    content = page.read_text(encoding="utf-8")
    lines = [line for block in blocks(content, "console") for line in block.splitlines()]
    lines += re.findall(r"`(kernelevolve [^`]+)`", content)
    for line in lines:
        for part in re.split(r"\s{2,}", line.partition(" #")[0].strip()):
            words = shlex.split(part)
            if words[:1] == ["kernelevolve"] and words[1][0] not in "-C→":
                assert words[1] in known, f"{page.name}: {line}"
                options = {o for p in known[words[1]].params for o in p.opts + p.secondary_opts} | {"--help", "-h"}
                used = {w.partition("=")[0] for w in words[2:] if w.startswith("-")}
                assert used <= options, f"{page.name}: {line}"
            elif words[:1] == ["make"]:
                assert re.search(rf"^{words[1]}:", text("Makefile"), re.MULTILINE), f"{page.name}: {line}"
            elif words[:2] == ["python", "-m"]:
                assert importlib.util.find_spec(words[2]), f"{page.name}: {line}"
            elif words[:1] == ["python"]:
                assert (ROOT / words[1]).is_file(), f"{page.name}: {line}"


def test_judge_page_states_the_rule_that_is_applied() -> None:
    """Constants of the accuracy rule, the statuses, and the settings of timing are the code's."""
    from evaluators.judge.oracle import accuracy
    from evaluators.judge.settings import JudgeSettings
    from evaluators.judge.timing import timing
    from evaluators.verdict import Status

    page = text("docs/judge.md")
    rows = re.findall(r"^\| (\w+) \| 2⁻(\S+) \| (\S+) \| (\S+) \|$", page, re.MULTILINE)
    stated = {
        name: (2.0 ** -int(u.translate(str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹", "0123456789"))), float(c), float(k))
        for name, u, c, k in rows
    }
    constants = {
        str(d).removeprefix("torch."): (u, accuracy._FLOOR[d], accuracy._CONDITION[d])
        for d, u in accuracy._ROUNDOFF.items()
    }
    assert stated == constants
    assert accuracy.FACTOR == 2
    table = page.partition("## Statuses")[2].partition("\n## ")[0]
    named = {s for line in table.splitlines() for s in re.findall(r"`(\w+)`", line.partition(" | ")[0])}
    assert named == set(typing.get_args(Status))
    settings = JudgeSettings()
    assert (settings.seeds, settings.pairs, settings.min_pairs, settings.timing_budget_s) == (3, 11, 5, 4.0)
    assert (settings.batch_ms_cpu, settings.batch_ms_gpu, timing.RESAMPLES) == (20.0, 20.0, 2000)


def test_knowledge_page_describes_front_matter_completely() -> None:
    """The field table, kinds, patterns, conditions and actions are the code's."""
    page = text("docs/knowledge.md")
    table = page.partition("| field | meaning |")[2].partition("\n\n")[0]
    fields = {f for line in table.splitlines() for f in re.findall(r"`(\w+)`", line.partition(" | ")[0])}
    assert fields == {*TEXT_FIELDS, *LIST_FIELDS, *OTHER_FIELDS}
    for words, what in ((KINDS, "kind"), (PATTERNS, "patterns")):
        row = next(line for line in table.splitlines() if line.startswith(f"| `{what}` |"))
        assert set(re.findall(r"`(\w+)`", row)) == {what, *words}
    moves = page.partition("## Moves")[2].partition("\n## ")[0]
    assert all(f"`{word}`" in moves for word in (*CONDITIONS, *ACTIONS))


def test_knowledge_page_examples_are_accepted() -> None:
    """The front matter passes the field check, and every example move parses."""
    front, moves = (yaml.safe_load(block) for block in blocks(text("docs/knowledge.md"), "yaml"))
    assert checked(front, "docs/knowledge.md")["kind"] == "guidance"
    assert len(parse_moves(front["moves"], "docs/knowledge.md")) == 1
    assert len(parse_moves(moves["moves"], "docs/knowledge.md")) == 3


def example() -> tuple[str, Exemplar]:
    (document,) = blocks(text("docs/knowledge.md"), "markdown", "````")
    return document, parse_exemplar(document, "my_pointwise.md")


@pytest.mark.slow
def test_example_exemplar_makes_a_right_kernel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The page's check script, on the page's exemplar and a small spec, ends with a correct kernel."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KERNELEVOLVE_HOME", str(tmp_path / "home"))
    document, exemplar = example()
    assert exemplar.patterns == ("pointwise",)
    Path("my_pointwise.md").write_text(document)
    Path("small.yaml").write_text("inputs: {x: [7, 1100]}\nreference: |\n  def reference(x): return F.silu(x) * 2\n")
    (script,) = blocks(text("docs/knowledge.md"), "python")
    assert 'spec.load("pointwise_chain")' in script
    exec(compile(script.replace('"pointwise_chain"', '"small.yaml"'), "docs/knowledge.md", "exec"), {})
    printed = capsys.readouterr().out
    assert "violates []" in printed
    assert printed.splitlines()[-1].startswith("correct")


@pytest.mark.parametrize(("example", "target", "status"), [(0, "cpu-x86-64", "correct"), (1, "nvidia-h200", "checked")])
def test_kernel_files_of_the_page_are_right(
    example: int, target: str, status: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each is complete as printed: copied into a file it passes the judge against the spec that the page names."""
    from evaluators.judge.alone import judge_file

    monkeypatch.setenv("KERNELEVOLVE_HOME", str(tmp_path / "home"))
    page = text("docs/candidates.md")
    (tmp_path / "kernel.py").write_text(blocks(page, "python")[example])
    assert f"--reference layernorm{' --target ' + target if example else ''}\n" in page
    found = judge_file(tmp_path / "kernel.py", "layernorm", target, timed=False)
    assert found.status == status, found.message
    assert found.accuracy is not None
