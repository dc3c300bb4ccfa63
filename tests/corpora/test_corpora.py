"""The shipped pages: every one parses, says where its figures come from, and gives only advice that can be acted on."""

from __future__ import annotations

from collections import Counter
from importlib.resources import files
from pathlib import Path

import pytest

from evaluators.ir.pattern import PATTERNS
from knowledge.exemplars import Exemplar, load
from knowledge.frontmatter import FrontMatter, parse
from knowledge.moves import Move, parse_moves

CORPORA = Path(str(files("corpora")))
FOLDERS = {"hardware": "hardware", "constraints": "constraints", "guidance": "guidance", "traces": "trace"}
PAGES = sorted(p for folder in FOLDERS for p in (CORPORA / folder).rglob("*.md"))
FAMILIES = {
    "any", "cpu", "cpu-x86-64", "gpu", "nvidia", "nvidia-ampere", "nvidia-hopper", "nvidia-blackwell", "nvidia-a100",
    "nvidia-h100", "nvidia-h200", "nvidia-b200", "amd", "amd-cdna3", "amd-cdna4", "amd-mi300x", "amd-mi350x",
}  # fmt: skip
DIAGNOSES = {
    "memory_bound", "compute_bound", "latency_bound", "launch_bound", "low_occupancy", "spill", "compile_error",
    "mismatch", "runtime_error", "timeout", "unknown",
}  # fmt: skip
PHASES = {"draft", "debug", "improve", "crossover"}
MAX_LINES = 120


def name(path: Path) -> str:
    return str(path.relative_to(CORPORA))


def page(path: Path) -> FrontMatter:
    return parse(path.read_text(encoding="utf-8"), name(path))


def moves(path: Path) -> tuple[Move, ...]:
    return parse_moves(page(path).fields.get("moves"), name(path))


@pytest.fixture(scope="module")
def exemplars() -> list[Exemplar]:
    found = [load(p) for p in sorted((CORPORA / "kernels").rglob("*.md"))]
    if not found:
        pytest.skip("corpora/kernels holds no exemplar, so there is no knob a move could name")
    return found


@pytest.mark.parametrize("path", PAGES, ids=name)
def test_page_says_what_it_is_for_whom_and_from_where(path: Path) -> None:
    """Title, kind by folder, known target families, at least one source, known patterns and diagnoses."""
    fields = page(path).fields
    assert fields["title"]
    assert fields["kind"] == FOLDERS[path.relative_to(CORPORA).parts[0]]
    assert set(fields["targets"]) <= FAMILIES
    assert fields.get("sources"), "no sources"
    assert set(fields.get("patterns", ())) <= set(PATTERNS)
    assert set(fields.get("diagnoses", ())) <= DIAGNOSES
    assert "---" not in fields["title"]


@pytest.mark.parametrize("path", PAGES, ids=name)
def test_unverified_figures_are_listed_briefly(path: Path) -> None:
    """A figure that its writer could not read in its source is named in a few words, each once, so that readers can tell."""
    fields = page(path).fields
    if "unverified" not in fields:
        return
    notes = fields["unverified"]
    assert notes, "an empty list says nothing; leave it out"
    assert len(set(notes)) == len(notes) <= 8
    assert all(len(note.split()) >= 3 and len(note) <= 160 for note in notes), notes


@pytest.mark.parametrize("path", PAGES, ids=name)
def test_page_is_short_and_has_a_body(path: Path) -> None:
    """One topic, read in one sitting: a page has text of its own and at most 120 lines."""
    text = path.read_text(encoding="utf-8")
    assert text.count("\n") <= MAX_LINES
    assert len(page(path).body.split()) >= 60


@pytest.mark.parametrize("path", PAGES, ids=name)
def test_move_conditions_can_come_true(path: Path, exemplars: list[Exemplar]) -> None:
    """A condition on a misspelt diagnosis, pattern, phase or exemplar would silently never hold."""
    for move in moves(path):
        assert set(move.when.get("diagnosis", ())) <= DIAGNOSES, move
        assert set(move.when.get("pattern", ())) <= set(PATTERNS), move
        assert set(move.when.get("phase", ())) <= PHASES, move
        assert set(move.when.get("exemplar", ())) <= {e.name for e in exemplars}, move
        assert {"diagnosis", "phase"} & set(move.when), f"{move}: neither symptom nor phase"


@pytest.mark.parametrize("path", PAGES, ids=name)
def test_move_can_be_carried_out_by_some_exemplar(path: Path, exemplars: list[Exemplar]) -> None:
    """A move names an exemplar of its pattern, or changes a knob of an exemplar which its own conditions admit."""
    for move in moves(path):
        admitted = [e for e in exemplars if _admits(move, e)]
        if move.exemplar is not None:
            aim = [e for e in exemplars if e.name == move.exemplar]
            assert aim, f"{move}: no such exemplar"
            assert _same_language(move, aim[0]), move
            wanted = (
                set(move.when.get("pattern", PATTERNS)) if "exemplar" not in move.when else _patterns(move, admitted)
            )
            assert wanted & set(aim[0].patterns), f"{move}: {move.exemplar} schedules none of {sorted(wanted)}"
        else:
            able = [e for e in admitted if move.knob in e.knobs]
            assert able, f"{move}: no exemplar that its conditions admit has the knob {move.knob}"
            assert any(_changes(move, e) for e in able), f"{move}: changes nothing anywhere"
        for knob in move.unless:
            assert any(knob in e.knobs for e in admitted), f"{move}: unless names no knob: {knob}"


@pytest.mark.parametrize("path", PAGES, ids=name)
def test_every_named_exemplar_is_reached_by_its_move(path: Path, exemplars: list[Exemplar]) -> None:
    """Where a move lists several patterns or exemplars, each of them has a schedule with that knob: no dead entry in a list."""
    for move in moves(path):
        for exemplar in move.when.get("exemplar", ()):
            one = next(e for e in exemplars if e.name == exemplar)
            assert move.knob is None or move.knob in one.knobs, f"{move}: {exemplar} has no knob {move.knob}"
        if move.knob is not None:
            for pattern in move.when.get("pattern", ()):
                able = [e for e in exemplars if _admits(move, e) and pattern in e.patterns and move.knob in e.knobs]
                assert able, f"{move}: no {pattern} exemplar with {move.knob}"


def test_titles_are_unique() -> None:
    """Titles cite passages: two pages of one title could not be told apart."""
    twice = [t for t, n in Counter(page(p).fields["title"] for p in PAGES).items() if n > 1]
    assert not twice


@pytest.mark.parametrize(
    ("family", "least"),
    [
        ("cpu-x86-64", 6),
        ("nvidia-hopper", 6),
        ("nvidia-ampere", 10),
        ("nvidia-blackwell", 10),
        ("amd-cdna3", 2),
        ("amd-cdna4", 2),
    ],
)
def test_each_architecture_has_hardware_pages(family: str, least: int) -> None:
    """Retrieval filters by family, so an architecture without pages of its own would get only general advice."""
    assert sum(family in page(p).fields["targets"] for p in PAGES if page(p).fields["kind"] == "hardware") >= least


def _same_language(move: Move, exemplar: Exemplar) -> bool:
    return exemplar.language in move.when.get("language", (exemplar.language,))


def _admits(move: Move, exemplar: Exemplar) -> bool:
    return (
        _same_language(move, exemplar)
        and exemplar.name in move.when.get("exemplar", (exemplar.name,))
        and bool(set(move.when.get("pattern", exemplar.patterns)) & set(exemplar.patterns))
    )


def _patterns(move: Move, admitted: list[Exemplar]) -> set[object]:
    return {p for e in admitted for p in e.patterns} & set(move.when.get("pattern", PATTERNS))


def _changes(move: Move, exemplar: Exemplar) -> bool:
    """Whether the move changes the knob from at least one value of its list; a draft's setting may equal the default."""
    assert move.knob is not None
    return any(
        move.apply({**exemplar.defaults, move.knob: v}, exemplar.knobs) for v in exemplar.knobs[move.knob].values
    )
