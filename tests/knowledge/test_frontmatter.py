"""Front matter: round trip of valid documents; every malformed one gives a single line that names file and field."""

from __future__ import annotations

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from knowledge.errors import FrontMatterError
from knowledge.frontmatter import KINDS, parse

WORD = st.text("abcdefgh-_0123", min_size=1, max_size=8).filter(lambda s: s.strip("-_") and not s.startswith("-"))
LIST = st.lists(WORD, min_size=1, max_size=3)


@given(
    title=WORD,
    kind=st.sampled_from(KINDS),
    targets=LIST,
    extra=st.dictionaries(st.sampled_from(["languages", "operators", "patterns", "diagnoses", "sources"]), LIST),
    body=st.text(max_size=200).map(lambda s: s.replace("\r", "")),
)
def test_round_trip(title: str, kind: str, targets: list[str], extra: dict[str, list[str]], body: str) -> None:
    fields = {"title": f"T {title}", "kind": kind, "targets": targets, **extra}
    fields = {k: [f"v{x}" for x in v] if isinstance(v, list) else v for k, v in fields.items()}
    block = f"---\n{yaml.safe_dump(fields)}---\n"
    front = parse(block + body, "a.md")
    assert front.fields == fields
    assert front.body == body
    assert front.lines == block.count("\n")


@given(st.text(max_size=300))
def test_any_text_parses_or_names_the_file(text: str) -> None:
    front, problem = None, ""
    try:
        front = parse(text, "a.md")
    except FrontMatterError as error:
        problem = str(error)
    if front is not None:
        assert text.endswith(front.body)
    else:
        assert problem.startswith("a.md: ")
        assert "\n" not in problem


HEAD = "title: T\nkind: guidance\ntargets: [any]\n"


@pytest.mark.parametrize(
    ("block", "expected"),
    [
        ("title: T\nkind: guidance\n", "a.md: targets: missing"),
        ("kind: guidance\ntargets: [any]\n", "a.md: title: missing"),
        ("title: T\nkind: novel\ntargets: [any]\n", "a.md: kind: 'novel' is not one of"),
        (HEAD + "pattern: x\n", "a.md: pattern: unknown field; did you mean 'patterns'?"),
        (HEAD + "patterns: {a: 1}\n", "a.md: patterns: expected a list"),
        (HEAD + "sources: [a: b]\n", "a.md: sources: expected text"),
        (HEAD + "title: [\n", "a.md: front matter: line "),
        ("- a\n", "a.md: front matter: expected 'name: value'"),
    ],
)
def test_malformed(block: str, expected: str) -> None:
    with pytest.raises(FrontMatterError) as caught:
        parse(f"---\n{block}---\nbody\n", "a.md")
    assert str(caught.value).startswith(expected)
    assert "\n" not in str(caught.value)


def test_unclosed() -> None:
    with pytest.raises(FrontMatterError, match="no closing"):
        parse("---\ntitle: T\nbody\n", "a.md")


def test_a_rule_or_foreign_front_matter_is_plain_markdown() -> None:
    assert parse("---\n\nA rule above.\n", "a.md").fields == {}
    assert parse("---\nlayout: post\ntags: [x]\n---\nbody\n", "a.md").fields == {"layout": "post", "tags": ["x"]}


def test_every_fault_is_named_at_once() -> None:
    block = "kind: guidence\ncolour: red\npatterns: {a: 1}\nsources: [null]\n"
    with pytest.raises(FrontMatterError) as caught:
        parse(f"---\n{block}---\nbody\n", "a.md")
    text = str(caught.value)
    assert "\n" not in text
    for part in (
        "colour: unknown field",
        "patterns: expected a list",
        "sources: expected text",
        "title: missing",
        "targets: missing",
        "kind: 'guidence' is not one of hardware",
        "did you mean 'guidance'?",
    ):
        assert part in text
