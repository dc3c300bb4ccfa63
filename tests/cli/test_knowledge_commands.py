"""ingest and search as a person meets them, on a handful of documents with the real embedding model."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent.cli import exits
from tests.cli.conftest import Command

SPILLS = """---
title: Register spills
kind: guidance
targets: [nvidia]
languages: [triton]
---
Live values above the registers of a thread go to local memory: fewer live values, or more warps for the same tile.
"""


@pytest.fixture
def notes(command: Command, tmp_path: Path) -> Path:
    folder = tmp_path / "notes"
    folder.mkdir()
    (folder / "spills.md").write_text(SPILLS)
    (folder / "bread.md").write_text(
        "# Bread\n\nFlour, water, salt and a sourdough starter rest overnight before baking.\n"
    )
    shown = command("ingest", folder)
    assert shown.code == exits.OK
    assert "stored 2 documents as 2 passages" in shown.out
    return folder


def test_a_search_explains_its_scores_in_the_words_of_its_help(command: Command, notes: Path) -> None:
    shown = command("search", "register spills")
    assert "1. Register spills" in shown.out
    for word in ("meaning", "words", "fit"):
        assert f"`{word}`" in command("search", "--help").out
        assert f"{word} " in shown.out.splitlines()[0]


def test_what_has_nothing_to_do_with_the_query_is_not_shown(command: Command, notes: Path) -> None:
    shown = command("search", "register spills")
    assert "Bread" not in shown.out, "the second best of two is not an answer"
    nothing = command("search", "zebrafish embryo", "--target", "nvidia-h200")
    assert nothing.code == exits.OK
    assert "Nothing relevant found; no passage holds 'zebrafish', 'embryo'" in nothing.out
    assert "leave out --target" in nothing.out
    assert command("search", "zebrafish embryo", "--json").json == []


def test_words_that_no_passage_holds_are_named(command: Command, notes: Path) -> None:
    assert command("search", "zebrafish spills registers").out.startswith("no passage holds 'zebrafish'\n")


def test_a_language_that_nothing_is_about_is_refused(command: Command, notes: Path) -> None:
    shown = command("search", "spills", "--language", "fortran")
    assert shown.code == exits.USAGE
    assert "unknown language 'fortran'; known are cpp, triton" in shown.error
    assert command("search", "register spills", "--language", "triton").code == exits.OK


def test_nouns_fit_their_numbers(command: Command, notes: Path) -> None:
    (notes / "bread.md").write_text("# Bread\n\nRye.\n")
    assert "stored 1 document as 1 passage;" in command("ingest", notes).out
