"""Every way of asking for the wrong thing: one line on stderr that says what to do, a documented exit code, nothing on stdout."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent.cli import exits
from tests.cli.conftest import Command
from tests.report.synthetic_run import record


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["--bogus"], 2, "--bogus"),
        (["frobnicate"], 2, "frobnicate"),
        (["optimize"], 2, "SPEC"),
        (["optimize", "layernrm"], 2, "layernorm"),
        (["optimize", "no/such/file.yaml"], 2, "no such file"),
        (["optimize", "layernorm", "--target", "nvidia-h20"], 2, "nvidia-h200"),
        (["optimize", "layernorm", "--dtype", "int8"], 2, "int8"),
        (["optimize", "layernorm", "--evaluations", "0"], 2, "--evaluations"),
        (["optimize", "layernorm", "--policy", "psychic"], 2, "greedy"),
        (["optimize", "layernorm", "--memory", "none"], 2, "inherit"),
        (["optimize", "layernorm", "--language", "rust"], 2, "cpp"),
        (["optimize", "layernorm", "--target", "cpu-x86-64", "--language", "triton"], 2, "not triton"),
        (["optimize", "layernorm", "--proposer", "oracle"], 2, "--proposer"),
        (["optimize", "layernorm", "--proposer", "llm"], 3, "OPENAI_API_KEY"),
        (["optimize", "layernorm", "--start-from", "no_such_kernel.py"], 2, "no_such_kernel.py"),
        (["batch", "no_such_suite"], 2, "suites are examples, starter, specs are "),
        (["batch", "startr"], 2, "did you mean 'starter'?"),
        (["runs"], 2, "Did you mean 'list'?"),
        (["poem"], 2, "`kernelevolve --help` lists the commands"),
        (["optimize", "layernorm", "--target", "h100"], 2, "did you mean 'nvidia-h100'?"),
        (["optimize", "layernorm", "--dtype", "fp16"], 2, "did you mean 'float16'?"),
        (["optimize", "layernorm", "--policy", "gredy"], 2, "one of greedy, beam; did you mean 'greedy'?"),
        (["optimize", "aten::sofmax.int"], 2, "did you mean aten::softmax.int?"),
        (["optimize", "aten::sofmax"], 2, "did you mean aten::softmax.int?"),
        (["optimize", "aten::softmax"], 2, "there is aten::softmax.int"),
        (["resume", "no-such-run"], 2, "kernelevolve list"),
        (["resume", "last"], 2, "last"),
        (["show", "no-such-run"], 2, "no-such-run"),
        (["export", "no-such-run"], 2, "no-such-run"),
        (["ingest", "no/such/folder"], 2, "no/such/folder"),
        (["ingest", "--target", "abacus"], 2, "abacus"),
        (["ingest", "--kind", "poem"], 2, "guidance"),
        (["search", "anything", "--kind", "poem"], 2, "guidance"),
        (["search", "  "], 2, "empty"),
        (["search", "spills", "--target", "abacus"], 2, "abacus"),
        (["search", "spills"], 3, "kernelevolve ingest"),
        (["judge", "no_such_kernel.py", "--reference", "layernorm"], 2, "no_such_kernel.py"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_one_line_and_a_code(command: Command, arguments: list[str], code: int, says: str) -> None:
    shown = command(*arguments)
    assert says in shown.error
    assert shown.code == code
    assert shown.out == ""


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("name: [", "yaml"),
        ("name: x\nreference: 'class Model: pass'\ninputs: 3\n", "inputs"),
        ("name: x\nreferense: y\n", "referense"),
        ("", "spec.yaml"),
    ],
)
def test_a_broken_spec_names_file_and_field(command: Command, tmp_path: Path, text: str, says: str) -> None:
    spec = tmp_path / "spec.yaml"
    spec.write_text(text)
    shown = command("optimize", spec)
    assert "spec.yaml" in shown.error
    assert says.lower() in shown.error.lower()
    assert shown.code == exits.USAGE


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"def f(:\n", "line 1: not Python"),
        (b"import torch\n", "no class ModelNew"),
        (b"\xff\xfe\x00", "not UTF-8"),
        (b"x = 1\x00", "not Python"),
    ],
)
@pytest.mark.parametrize("how", ["judge", "optimize"])
def test_an_unreadable_kernel_file_is_refused_before_anything_runs(
    command: Command, tmp_path: Path, content: bytes, says: str, how: str
) -> None:
    kernel = tmp_path / "kernel.py"
    kernel.write_bytes(content)
    arguments = (
        ["judge", kernel, "--reference", "layernorm"]
        if how == "judge"
        else ["optimize", "layernorm", "--start-from", kernel]
    )
    shown = command(*arguments)
    assert says in shown.error
    assert shown.code == exits.USAGE


def test_a_batch_reads_every_spec_before_it_starts_one(
    command: Command, toy: object, home: Path, tmp_path: Path
) -> None:
    good, bad, worse = (tmp_path / f"{n}.yaml" for n in ("a_good", "b_bad", "c_worse"))
    good.write_text("inputs: {x: [4]}\nreference: |\n  def f(x):\n      return x + 1\n")
    bad.write_text("inputs: {x: [N]}\nreference: |\n  def f(x):\n      return x + 1\n")
    worse.write_text("inpts: {x: [4]}\n")
    shown = command("batch", tmp_path, "--target", "cpu-x86-64", "--quiet")
    assert shown.code == exits.USAGE
    assert "nothing was started" in shown.error
    assert "b_bad.yaml: inputs.x.shape" in shown.error, "every fault is named, not the first only"
    assert "c_worse.yaml: inpts" in shown.error
    assert command("list", "--json").json == []


def test_a_missing_compiler_is_said_at_once(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, home: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    shown = command("optimize", "layernorm", "--target", "cpu-x86-64")
    assert "g++" in shown.error
    assert "apt-get install" in shown.error
    assert shown.code == exits.MISSING
    assert not (home / "store.db").exists(), "nothing was recorded"


def test_export_refuses_what_the_run_does_not_recommend(command: Command, home: Path, tmp_path: Path) -> None:
    home.mkdir()
    record(home, "slow-1", confirmed=0.8)
    target = tmp_path / "kernel.py"
    shown = command("export", "slow-1", "--to", target)
    assert "--anyway" in shown.error
    assert shown.code == exits.NONE_CORRECT
    assert not target.exists()
    assert command("export", "slow-1", "--to", target, "--anyway").code == exits.OK
    assert "NOT RECOMMENDED" in target.read_text()
    again = command("export", "slow-1", "--to", target, "--anyway")
    assert "--force" in again.error


def test_a_data_folder_that_cannot_be_written_is_one_line(
    command: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "file"
    file.write_text("")
    monkeypatch.setenv("KERNELEVOLVE_HOME", str(file))
    shown = command("list")
    assert "KERNELEVOLVE_HOME" in shown.error
    assert shown.code == exits.MISSING


def test_a_bug_is_one_line_too_and_debug_raises_it(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    from knowledge.runs.store import RunStore

    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("two\nlines")

    monkeypatch.setattr(RunStore, "list_runs", broken)
    shown = command("list")
    assert shown.error.startswith("error: RuntimeError: two lines")
    assert "KERNELEVOLVE_DEBUG" in shown.error
    assert shown.code == exits.FAILURE
    monkeypatch.setenv("KERNELEVOLVE_DEBUG", "1")
    with pytest.raises(RuntimeError):
        command("list")


def test_every_named_error_in_the_table_exists() -> None:
    import agent.errors
    import evaluators.errors
    import knowledge.errors
    import retrieval.errors

    named = {n for m in (agent.errors, evaluators.errors, knowledge.errors, retrieval.errors) for n in vars(m)}
    assert set(exits._CODES) <= named
