"""doctor, targets, specs, help: what a newcomer types first."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from agent.cli import docs, exits
from agent.doctor import Check, examine, healthy
from tests.cli.conftest import Command


def test_the_command_reference_is_what_the_program_prints() -> None:
    text = Path("docs/cli.md").read_text()
    assert docs.replaced(text) == text, "run: python -m agent.cli.docs"


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys\nfrom agent.cli import run\nassert run(['--help']) == 0\n"
        "heavy = {'torch', 'triton', 'numpy', 'chromadb', 'sentence_transformers', 'langgraph', 'sqlalchemy', 'rich', 'jinja2'}\n"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_program_runs_as_a_module_and_exits_with_its_code(home: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "agent.cli", "show", "nothing"], capture_output=True, text=True, check=False
    )
    assert done.returncode == exits.USAGE
    assert done.stdout == ""
    assert re.fullmatch(r"error: .*\n", done.stderr)


def test_help_documents_every_exit_code(command: Command) -> None:
    shown = command("--help")
    assert shown.code == exits.OK
    documented = Path("docs/cli.md").read_text()
    for code in exits.MEANING:
        assert re.search(rf"^\s+{code}  ", shown.out, re.MULTILINE)
        assert f"\n| {code} |" in documented


@pytest.mark.parametrize(
    "name",
    [
        "optimize",
        "batch",
        "resume",
        "show",
        "list",
        "ingest",
        "search",
        "judge",
        "doctor",
        "targets",
        "specs",
        "export",
    ],
)
def test_every_command_has_help(command: Command, name: str) -> None:
    shown = command(name, "--help")
    assert shown.code == exits.OK
    assert shown.out.startswith("Usage: kernelevolve")


def test_doctor_reports_each_part_with_a_fix_for_what_is_missing(command: Command, home: Path) -> None:
    shown = command("doctor", "--json")
    groups = {c["group"] for c in shown.json["checks"]}
    assert groups == {"devices", "languages", "retrieval", "proposers", "store", "judge"}
    assert shown.code == (exits.OK if shown.json["healthy"] else exits.MISSING)
    assert all(c["fix"] for c in shown.json["checks"] if c["state"] == "missing")


def test_doctor_without_a_compiler_says_how_to_get_one(
    command: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    shown = command("doctor")
    assert shown.code == exits.MISSING
    assert "apt-get install -y g++" in shown.out
    assert "Not ready: cpp" in shown.out


def test_a_check_that_breaks_is_a_finding_not_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    from agent import doctor

    def broken() -> list[Check]:
        raise OSError("no such thing")

    monkeypatch.setattr(doctor, "_EXAMINATIONS", (("store", broken), ("proposers", doctor._endpoint)))
    checks = examine()
    assert checks[0].state == "missing"
    assert "no such thing" in checks[0].detail
    assert len(checks) == 2
    assert not healthy(checks)


def test_targets_and_specs_list_what_ships(command: Command) -> None:
    names = {t["name"] for t in command("targets", "--json").json}
    assert {"cpu-x86-64", "nvidia-h200", "amd-mi300x"} <= names
    assert "nvidia-h200" in command("targets").out
    small = {s["name"]: s["inputs"] for s in command("specs", "--json").json}
    large = {s["name"]: s["inputs"] for s in command("specs", "--profile", "gpu", "--json").json}
    assert small["layernorm"]["x"] == "4096×2048"
    assert large["layernorm"]["x"] == "32768×4096"
    shown = command("specs").out
    assert "x 4096×2048, " in shown, "every tensor has its name"
    assert "(parameter)" in shown
    for line in shown.splitlines()[1:]:
        if line.startswith(("starter", "examples")):
            assert len(line.split()) > 3, "no column of a spec is empty"


def test_without_arguments_the_help_is_shown(command: Command) -> None:
    assert "Usage: kernelevolve" in command().out + command().err
