"""Loaders: kinds of files, and one clear line for each file that cannot be read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from knowledge.errors import FrontMatterError, UnreadableDocumentError
from knowledge.loaders import load


def test_trace() -> None:
    def event(name: str, dur: float) -> dict[str, object]:
        args = {"grid": [64, 1, 1], "block": [128, 1, 1], "registers per thread": 40, "est. achieved occupancy %": 12}
        return {"ph": "X", "cat": "kernel", "name": name, "dur": dur, "args": args}

    events = [event("softmax_kernel", 10.0), event("softmax_kernel", 30.0), event("copy", 10.0), {"ph": "M"}, 3]
    text = json.dumps({"traceEvents": events, "deviceProperties": [{"name": "NVIDIA H200"}]})
    document = load(Path("t.json"), text.encode(), "t.json")
    assert document.kind == "trace"
    assert document.title == "Profile t on NVIDIA H200"
    assert document.diagnoses == ("low_occupancy",)
    assert document.targets == ("nvidia",)
    assert document.units[1].text == (
        "softmax_kernel: 2 calls, 40.0 µs (80.0%), median 20.00 µs, shortest 10.00 µs, grid [64, 1, 1], block [128, 1, 1], "
        "registers per thread 40, estimated occupancy % 12."
    )


def test_operators_where_nothing_ran_on_a_device() -> None:
    text = json.dumps({"traceEvents": [{"ph": "X", "cat": "cpu_op", "name": "aten::mm", "dur": 5}]})
    document = load(Path("t.json"), text.encode(), "t.json")
    assert "aten::mm: 1 calls" in document.units[1].text
    assert document.targets == ("cpu",)


def test_table_of_averages() -> None:
    rows = [
        {"name": "aten::add", "calls": 2, "self_cpu_us": 25.0},
        {"name": "aten::_softmax", "calls": 10, "self_cpu_us": 75.0, "input_shapes": [[8, 4], []]},
        {"name": "[memory]", "calls": 3, "self_cpu_us": 0.0},
    ]
    document = load(Path("t.json"), json.dumps({"dtype": "float32", "key_averages": rows}).encode(), "t.json")
    assert [u.text for u in document.units] == [
        "2 operators, 100.0 µs in all; dtype float32.",
        "aten::_softmax: 10 calls, 75.0 µs (75.0%), 7.50 µs per call, input shapes [[8, 4]].",
        "aten::add: 2 calls, 25.0 µs (25.0%), 12.50 µs per call.",
    ]


@pytest.mark.parametrize(
    ("name", "data", "expected"),
    [
        ("a.pdf", b"%PDF", "a.pdf: no loader for .pdf; known are .md"),
        ("a.md", b"\xff\xfe\x00", "a.md: not UTF-8 text"),
        ("a.txt", b"a\0b", "a.txt: binary content"),
        ("a.txt", b" \n", "a.txt: empty"),
        ("a.py", b"def f(:\n", "a.py: not Python 3 source (line 1)"),
        ("a.json", b"{", "a.json: not JSON"),
        ("a.json", b"{}", "a.json: JSON, but no torch.profiler trace"),
        ("a.json", b'{"traceEvents": [{"ph": "X", "cat": "kernel", "dur": 0}]}', "a.json: the trace holds no kernel"),
        ("a.json", b'{"key_averages": [{"name": "x", "self_cpu_us": 0}]}', "a.json: the table holds no row"),
        ("Makefile", b"all:", "Makefile: no loader for files without extension"),
    ],
)
def test_unreadable(name: str, data: bytes, expected: str) -> None:
    with pytest.raises(UnreadableDocumentError) as caught:
        load(Path(name), data, name)
    assert str(caught.value).startswith(expected)
    assert "\n" not in str(caught.value)


def test_markdown_of_others_is_taken_as_it_is() -> None:
    document = load(Path("a.md"), b"---\nlayout: post\nmoves: nonsense\n---\n# Manual\n\nText.\n", "a.md")
    assert (document.kind, document.title, document.targets, document.fields) == ("", "Manual", (), {})


def test_carriage_returns_are_line_ends() -> None:
    assert [u.first for u in load(Path("a.txt"), b"one\r\n\r\ntwo\r\n", "a.txt").units] == [1, 3]


def test_advice_is_never_lost_for_want_of_a_kind() -> None:
    """Moves as ours are written, in a document that does not say its kind, would be ignored."""
    text = "---\ntitle: A\nmoves:\n  - when: {diagnosis: spill}\n    do: {knob: B, set: 1}\n    why: x\n---\n# A\n\nText.\n"
    with pytest.raises(FrontMatterError, match=r"a\.md: kind: missing"):
        load(Path("a.md"), text.encode(), "a.md")
    with pytest.raises(FrontMatterError, match=r"a\.md: moves: expected a list, got int"):
        load(Path("a.md"), b"---\ntitle: A\nkind: guidance\ntargets: [any]\nmoves: 3\n---\n# A\n\nText.\n", "a.md")


def test_a_few_lines_of_aliases_do_not_become_gigabytes() -> None:
    lines = ["results:", " - &a0 [1, 2, 3, 4, 5, 6, 7, 8, 9]"]
    lines += [f" - &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 12)]
    text = "---\ntitle: A\nkind: guidance\ntargets: [any]\n" + "\n".join(lines) + "\n---\n# A\n\nText.\n"
    with pytest.raises(FrontMatterError, match="more than 10000 values"):
        load(Path("a.md"), text.encode(), "a.md")


@pytest.mark.parametrize("name", ["a.json", "a.py"])
def test_deep_nesting_is_unreadable(name: str) -> None:
    with pytest.raises(UnreadableDocumentError):
        load(Path(name), b"[" * 100_000 + b"]" * 100_000, name)
