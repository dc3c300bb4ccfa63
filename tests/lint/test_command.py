"""The command: exit codes, one JSON document, and a line that says what to do."""

from __future__ import annotations

from pathlib import Path

from agent.cli import exits
from tests.cli.conftest import Command, command, home  # noqa: F401  # fixtures

WEAK = "inputs: {x: {shape: [16, 24], dist: uniform}}\nreference: |\n  def reference(x): return torch.relu(x)\n"
FINE = "inputs: {x: [16, 24]}\nreference: |\n  def reference(x): return torch.softmax(x, -1)\n"


def test_a_weak_and_a_fine_spec(command: Command, tmp_path: Path) -> None:  # noqa: F811
    """A folder is linted whole; one error decides the exit code; standard output is one JSON document."""
    (tmp_path / "specs").mkdir()
    (tmp_path / "specs" / "fine.yaml").write_text(FINE)
    (tmp_path / "specs" / "weak.yaml").write_text(WEAK)
    shown = command("lint", tmp_path / "specs", "--json")
    fine, weak = shown.json
    assert shown.code == exits.FLAWED
    assert (fine["name"], fine["findings"], fine["weak"]) == ("fine", [], False)
    assert weak["findings"][0]["kind"] == "identity_pass"
    assert weak["repaired"]["repaired_from"] == weak["digest"]


def test_text_says_what_to_do(command: Command, tmp_path: Path) -> None:  # noqa: F811
    file = tmp_path / "weak.yaml"
    file.write_text(WEAK)
    shown = command("lint", file)
    assert "identity_pass: output: input x as it is" in shown.out
    assert "→ judge it on other inputs" in shown.out
    assert "repaired as" in shown.out
    file.write_text(FINE)
    assert command("lint", file).code == exits.OK


def test_an_unknown_spec_is_one_line(command: Command) -> None:  # noqa: F811
    shown = command("lint", "no_such_spec")
    assert "no such spec" in shown.error
    assert shown.code == exits.USAGE
