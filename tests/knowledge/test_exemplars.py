"""Exemplars: parsing, constraints, and that every packaged document is well formed."""

from __future__ import annotations

from pathlib import Path

import pytest

from evaluators.ir.pattern import PATTERNS
from knowledge import corpus
from knowledge.errors import ExemplarNotFoundError, ExpressionError, FrontMatterError
from knowledge.exemplars import load, load_all, parse_exemplar
from knowledge.loaders import load as load_document

TEXT = """---
title: Rows
kind: kernel
exemplar: rows
language: cpp
patterns: [row_norm]
targets: [cpu]
knobs:
  unroll: {values: [1, 2, 4], default: 2}
constraints: ["unroll * 8 <= cols"]
---
Before.

```skeleton
for ({{ i }}) {
}
```

After.
"""


def test_parse() -> None:
    e = parse_exemplar(TEXT, "rows.md")
    assert (e.name, e.language, e.patterns, e.targets) == ("rows", "cpp", ("row_norm",), ("cpu",))
    assert e.skeleton == "for ({{ i }}) {\n}\n"
    assert "skeleton" not in e.body
    assert e.body.startswith("Before.")
    assert e.body.endswith("After.\n")
    assert e.defaults == {"unroll": 2}
    assert e.admits({"unroll": 4}, {"cols": 32})
    assert not e.admits({"unroll": 3}, {"cols": 32}), "3 is not in the space"
    assert e.violated({"unroll": 4}, {"cols": 16}) == ["unroll * 8 <= cols"]
    with pytest.raises(ExpressionError, match=r"rows\.md: constraints: .*unknown name 'cols'"):
        e.violated({"unroll": 4}, {})


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("exemplar: rows\n", "exemplar: rows\nshape: x\n", "rows.md: shape: unknown field"),
        ("language: cpp\n", "", "rows.md: language: missing"),
        ("default: 2", "default: 3", "rows.md: knobs.unroll.default: 3 is not one of"),
        ("values: [1, 2, 4]", "values: 4", "rows.md: knobs.unroll.values: expected a list"),
        ("unroll * 8 <= cols", "unroll.real", "rows.md: constraints[0]:"),
        ("```skeleton", "```cpp", "rows.md: body: expected one fenced block"),
        ("kind: kernel", "kind: guidance", "rows.md: kind: an exemplar is of kind 'kernel'"),
    ],
)
def test_malformed(old: str, new: str, expected: str) -> None:
    with pytest.raises(FrontMatterError) as caught:
        parse_exemplar(TEXT.replace(old, new), "rows.md")
    assert str(caught.value).startswith(expected)


def test_load_by_path_and_by_document_name(tmp_path: Path) -> None:
    (tmp_path / "rows.md").write_text(TEXT)
    (tmp_path / "notes.md").write_text("# Notes\n")
    assert [e.name for e in load_all(tmp_path)] == ["rows"]
    assert load(tmp_path / "rows.md").name == "rows"
    for e in load_all():
        assert load(e.document) == e
    with pytest.raises(ExemplarNotFoundError, match=r"nope\.md"):
        load("corpora/kernels/nope.md")


def test_packaged_exemplars() -> None:
    names = [(e.language, e.name) for e in load_all()]
    assert len(set(names)) == len(names)
    for e in load_all():
        assert set(e.patterns) <= set(PATTERNS), e.document


def test_every_packaged_document_loads() -> None:
    files = [p for folder in corpus.default_paths() for p in folder.rglob("*.md")]
    assert files
    for path in files:
        document = load_document(path, path.read_bytes(), corpus.document_name(path))
        assert document.kind, document.name
        assert document.units, document.name
        assert set(document.patterns) <= set(PATTERNS), document.name
