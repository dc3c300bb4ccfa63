"""The budget is never exceeded, what must be there is there, passages go by rank, and all that was cut is on record."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.errors import SettingsError
from agent.prompts.budget import LEAST, Section, allot, estimate_tokens, fit, shorten

texts = st.text(max_size=300) | st.lists(st.text(max_size=20), max_size=30).map("\n".join)
kinds = st.sampled_from(["fixed", "source", "optional"])


@st.composite
def section_lists(draw: st.DrawFn) -> list[Section]:
    out = []
    for i in range(draw(st.integers(1, 8))):
        kind = draw(kinds)
        heading = draw(st.sampled_from(["", "## Known", "## Tried"])) if kind == "optional" else ""
        before, after = (draw(st.sampled_from(["", "intro\n```python\n"])), "\n```") if kind == "source" else ("", "")
        out.append(Section(f"s{i}", kind, draw(texts), before, after, draw(st.integers(0, 5)), heading, (f"c{i}",)))
    return out


@given(section_lists(), st.integers(1, 1200))
def test_whatever_the_parts_the_budget_holds_and_nothing_goes_missing_silently(
    parts: list[Section], tokens: int
) -> None:
    try:
        found = fit(parts, tokens)
    except SettingsError as error:
        least = int(str(error).split("at least ")[1].split()[0])
        assert least > tokens
        assert estimate_tokens(fit(parts, least).text) <= least  # the number it asks for is enough
        return
    assert estimate_tokens(found.text) <= tokens
    by_name = {s.name: s for s in parts}
    cut = {c.name: c.how for c in found.cut}
    for s in parts:
        if s.kind == "fixed":
            assert s.text in found.text
        elif s.kind == "source":
            assert s.before in found.text
            assert (s.text in found.text) or cut[s.name] == "shortened"
        else:
            assert (s.name in found.kept) != (cut.get(s.name) == "left out")
            assert s.name not in found.kept or s.text in found.text
    assert list(found.kept) == [s.name for s in parts if s.name in found.kept]
    assert set(found.chunk_ids) == {c for n in found.kept for c in by_name[n].chunk_ids}
    shortened = "shortened" in cut.values()
    assert not (shortened and any(by_name[n].kind == "optional" for n in found.kept))  # sources are shortened last


def test_passages_get_room_by_rank_and_a_long_one_does_not_keep_shorter_ones_out() -> None:
    parts = [
        Section("third", "optional", "c" * 30, rank=3, heading="## H"),
        Section("first", "optional", "a" * 30, rank=1, heading="## H"),
        Section("second", "optional", "b" * 900, rank=2, heading="## H"),
        Section("task", "fixed", "task"),
    ]
    found = fit(parts, 50)
    assert found.kept == ("third", "first", "task")
    assert found.text.count("## H") == 1
    assert [str(c) for c in found.cut] == ["second: left out (about 322 tokens)"]
    assert fit(parts, 20).kept == ("first", "task")
    assert "## H" not in fit(parts, 5).text


@given(st.integers(0, 10_000), st.lists(st.integers(0, 4000), min_size=1, max_size=6))
def test_shares_leave_short_items_whole(room: int, sizes: list[int]) -> None:
    shares = allot(room, sizes)
    assert sum(shares) <= room
    assert all(0 <= share <= size for share, size in zip(shares, sizes, strict=True))
    if sum(sizes) <= room:
        assert shares == sizes
    cut = [share for share, size in zip(shares, sizes, strict=True) if share < size]
    assert not cut or all(share <= min(cut) + len(sizes) for share in shares)


@given(texts, st.integers(LEAST, 400))
def test_a_shortened_source_fits_and_says_what_is_missing(text: str, limit: int) -> None:
    short = shorten(text, limit)
    assert len(short.encode()) <= limit
    assert short == text or "left out here" in short


def test_a_shortened_source_keeps_whole_lines_of_both_ends() -> None:
    lines = [f"line {i}" for i in range(100)]
    kept = shorten("\n".join(lines), 300).split("\n")
    marker = next(i for i, line in enumerate(kept) if "left out" in line)
    assert kept[:marker] == lines[:marker]
    assert kept[marker + 1 :] == lines[-(len(kept) - marker - 1) :]


def test_a_budget_too_small_for_the_fixed_parts_names_the_setting() -> None:
    with pytest.raises(SettingsError, match="setting prompt_tokens: 3 should be at least 108"):
        fit([Section("task", "fixed", "x" * 300)], 3)
