"""Chunking: nothing is lost or reordered, windows are kept, ids are stable, code stays whole where it fits."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knowledge.chunking import LETTERS, SPECIAL_TOKENS, chunk
from knowledge.documents import Chunk, Document, Unit
from knowledge.loaders import c_source, markdown, plain, python_source

LINE = st.sampled_from(
    ["# One", "## Two words", "### Three", "", "", "```", "```python", "~~~", "- item", "def f(x):", "    return x", "| a | b |",
     "a paragraph of several plain words that goes on for a while and then some more", "x" * 300, "éü 日本語 text", "\tindented"]
)  # fmt: skip
TEXT = st.one_of(st.lists(LINE, max_size=40).map("\n".join), st.text(max_size=300)).map(lambda s: s.replace("\r", "\n"))


def count(text: str) -> int:
    return len(text.split())


def squeezed(text: str) -> str:
    return "".join(text.split())


def chunks_of(text: str, window: int = 40) -> list[Chunk]:
    units = tuple(markdown.units_of(text, 1))
    return chunk(Document("doc.md", "guidance", "Title", units), count, window)


@given(TEXT)
def test_no_text_is_lost_or_reordered(text: str) -> None:
    assert squeezed("".join(c.text for c in chunks_of(text))) == squeezed(text)


@given(TEXT)
def test_windows_and_ids(text: str) -> None:
    chunks = chunks_of(text)
    assert len({c.id for c in chunks}) == len(chunks)
    assert chunks == chunks_of(text)
    for c in chunks:
        assert count(c.searched) + SPECIAL_TOKENS <= 40 or count(c.text) <= 40 // 3
        assert c.lines[0] <= c.lines[1]


@given(TEXT)
def test_locators_point_at_the_lines(text: str) -> None:
    lines = text.split("\n")
    for c in chunks_of(text, window=400):
        assert squeezed(c.text) in squeezed("\n".join(lines[c.lines[0] - 1 : c.lines[1]]))


@given(TEXT)
def test_a_line_above_changes_places_but_not_ids(text: str) -> None:
    before = chunks_of(text)
    after = chunks_of("\n" + text)
    assert [c.id for c in after] == [c.id for c in before]
    assert [c.lines[0] for c in after] == [c.lines[0] + 1 for c in before]


def test_ids_depend_on_front_matter_and_document() -> None:
    document = Document("doc.md", "guidance", "Title", tuple(plain.load("some text", "doc.md").units))
    ids = {
        chunk(d, count, 40)[0].id
        for d in (document, replace(document, fields={"title": "x"}), replace(document, name="other.md"))
    }
    assert len(ids) == 3


def test_headings_separate_and_lead() -> None:
    text = "# Top\n\n## First\n\nalpha\n\nbeta\n\n## Second\n\ngamma\n"
    found = [(c.locator, squeezed(c.text)) for c in chunks_of(text)]
    assert found == [("Top > First", "#Top##Firstalphabeta"), ("Top > Second", "##Secondgamma")]


def test_functions_in_a_fence_stay_whole() -> None:
    bodies = [f"def f{i}(x):\n    y = x + {i}\n    z = y * 2\n\n    return z" for i in range(6)]
    text = "# Code\n\n```python\n" + "\n\n".join(bodies) + "\n```\n"
    texts = [c.text for c in chunks_of(text, window=30)]
    assert len(texts) > 1
    for body in bodies:
        assert any(body in t for t in texts)


PYTHON = '''"""Summary line.

More."""

import triton

# About f.
@triton.jit
def f(x):
    return x


class K:
    """Doc."""

    size = 3

    def run(self):
        return f(self.size)


LAST = 1
'''


def test_python_splits_by_function() -> None:
    document = python_source.load(PYTHON, "k.py")
    assert document.title == "k.py: Summary line."
    assert document.languages == ("triton",)
    assert [u.locator for u in document.units] == ["module", "f", "K", "K.run", "module"]
    assert document.units[1].text.startswith("# About f.\n@triton.jit")
    assert squeezed("".join(u.text for u in document.units)) == squeezed(PYTHON)


CPP = """// A kernel; not a "brace {
#include <cmath>
namespace ke {
static float half(float x) { return x / 2; }

template <int N>
void rows(const char *s = "}{", char c = '{') {
  for (;;) { /* } */ }
}
}  // namespace ke
extern "C" {
void run(float *a) {
  a[0] = R"(})"[0];
}
}
struct Shape {
  int n;
};
"""


def test_cpp_splits_by_function() -> None:
    document = c_source.load(CPP, "k.cpp")
    assert document.languages == ("cpp",)
    assert [u.locator for u in document.units if u.locator != "file"] == ["half", "rows", "run", "Shape"]
    assert squeezed("".join(u.text for u in document.units)) == squeezed(CPP)
    rows = next(u for u in document.units if u.locator == "rows")
    assert rows.text.startswith("template <int N>")
    assert rows.text.rstrip().endswith("}")


@given(
    st.lists(st.sampled_from([*CPP.split("\n"), '"', "'", "/*", "*/", "{", "}", "};", 'R"(']), max_size=25).map(
        "\n".join
    )
)
def test_cpp_loses_nothing_whatever_the_braces(text: str) -> None:
    assert squeezed("".join(u.text for u in c_source.load(text, "k.cpp").units)) == squeezed(text)


@pytest.mark.parametrize(
    "line", ["a" * 300_000, "word " * 60_000, "ab+/" * 75_000], ids=["one word", "words", "base64"]
)
def test_one_endless_line_is_cut_into_short_passages(line: str) -> None:
    """A model that counts a long word as one token would make one passage of it; nothing is counted through again and again."""
    counted = 0

    def count(text: str) -> int:
        nonlocal counted
        counted += len(text)
        return len(text.split())

    document = Document("a.txt", "guidance", "a", (Unit("", 1, line),))
    chunks = chunk(document, count, 128)
    assert "".join(c.text for c in chunks).replace(" ", "") == line.replace(" ", "")
    assert max(len(c.text) for c in chunks) <= 128 * LETTERS
    assert counted < 20 * len(line)
