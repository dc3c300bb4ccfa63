"""The report of a run: complete, self-contained, safe to open, and honest about what it recommends."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from agent.report import load, module, write
from agent.report.changes import changes, readable
from agent.report.data import RunReport, lineage
from agent.report.page import render
from tests.report.synthetic_run import evaluation, record

RUN = "pointwise-1"


@pytest.fixture
def report(tmp_path: Path) -> RunReport:
    return load(RUN, record(tmp_path))


class _Balanced(HTMLParser):
    """Collects what a page loads and whether its elements nest."""

    VOID = frozenset({"meta", "br", "link", "img", "hr"})

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: set[str] = set()
        self.links: set[str] = set()
        self.external: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in self.VOID:
            self.open.append(tag)
        for key, value in attrs:
            if key == "id":
                self.ids.add(value or "")
            elif key == "href" and (value or "").startswith("#"):
                self.links.add((value or "")[1:])
            elif key in ("src", "href") or tag in ("script", "link", "iframe"):
                self.external.append(f"{tag} {key}={value}")

    def handle_endtag(self, tag: str) -> None:
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag


def _parsed(page: str) -> _Balanced:
    parser = _Balanced()
    parser.feed(page)
    assert parser.open == []
    return parser


def test_the_folder_holds_page_kernel_and_record(tmp_path: Path) -> None:
    page = write(RUN, record(tmp_path), tmp_path / "out")
    assert page.name == "report.html"
    assert sorted(p.name for p in page.parent.iterdir()) == ["best.py", "report.html", "run.json"]
    data = json.loads((page.parent / "run.json").read_text())
    assert data["recommendation"] == "kernel"
    assert len(data["nodes"]) == 11
    assert len(data["confirmation"]["timing"]["samples"]) == 40


def test_the_page_is_well_formed_loads_nothing_and_its_links_lead_somewhere(report: RunReport) -> None:
    page = _parsed(render(report))
    assert page.external == []
    assert page.links <= page.ids
    assert {n.candidate.id for n in report.nodes} <= page.ids


def test_the_page_shows_every_part(report: RunReport) -> None:
    page = render(report)
    for heading in (
        "Search tree",
        "Timing",
        "Roofline",
        "Accuracy",
        "How the best kernel came about",
        "Time and cost",
        "Environment",
    ):
        assert f">{heading}" in page
    for drawing in ("Speed-up per step", "Search tree", "Paired timing samples", "Times per call", "Roofline"):
        assert f'aria-label="{drawing}"' in page
    assert "guidance/memory.md" in page
    assert "NaN" not in page
    assert "nan" not in re.findall(r'[xy]\d?="(nan)"', page)


def test_what_a_candidate_says_cannot_become_markup(report: RunReport) -> None:
    bad = "<script>alert(1)</script>"
    node = report.nodes[2]
    assert node.evaluation is not None
    nodes = list(report.nodes)
    nodes[2] = replace(
        node, candidate=replace(node.candidate, source=bad, note=bad), evaluation=replace(node.evaluation, message=bad)
    )
    page = render(replace(report, nodes=tuple(nodes), spec=replace(report.spec, name=bad, reference=bad)))
    assert "<script" not in page


def test_only_a_confirmed_interval_above_one_is_recommended(tmp_path: Path) -> None:
    outcomes = {}
    for name, confirmed, finished in (
        ("gain", 2.4, True),
        ("tie", 1.01, True),
        ("loss", 0.9, True),
        ("pending", None, False),
    ):
        folder = tmp_path / name
        folder.mkdir()
        outcomes[name] = load(RUN, record(folder, confirmed=confirmed, finished=finished)).recommendation
    assert outcomes == {"gain": "kernel", "tie": "baseline", "loss": "baseline", "pending": "baseline"}


@pytest.mark.parametrize(
    ("ratio", "low", "high", "fitness", "words"),
    [
        (
            1.36,
            1.0006,
            1.98,
            1.36,
            "Keep PyTorch: the machine was too noisy to tell (1.36× over eager (95% interval 1.001 to 1.98)); run again when it is idle.",
        ),
        (1.36, 1.3, 1.4, 1.36, "Use the kernel: 1.36× over eager (95% interval 1.30 to 1.40)."),
        (1.01, 0.5, 2.9, 1.01, "too noisy to tell"),
        (11.2, 5.5, 32.1, 11.2, "too noisy to tell"),
        (0.5, 0.3, 0.9, 0.5, "it is slower. The samples scatter widely"),
        (1.01, 0.98, 1.04, 1.01, "which is not a gain: the interval reaches 1."),
        (0.28, 0.25, 0.3, 0.28, "it is slower."),
        (1.5, 1.4, 1.6, 0.0, "but it does not count."),
    ],
)
def test_the_sentence_agrees_with_its_figures(
    report: RunReport, ratio: float, low: float, high: float, fitness: float, words: str
) -> None:
    """A border just above 1 is not printed as 1.00 beside a recommendation; what is not recommended says why."""
    found = report.confirmation
    assert found is not None
    assert found.timing is not None
    timing = replace(found.timing, ratio=ratio, low=low, high=high, baseline="eager")
    message = "it does not count; more" if fitness == 0 else ""
    shown = replace(report, recorded=None, confirmation=replace(found, timing=timing, fitness=fitness, message=message))
    assert words in shown.sentence
    assert ("other work disturbed" in shown.sentence or "too noisy" in shown.sentence) == (high > 1.5 * low)
    assert (shown.recommendation == "inconclusive") == ("too noisy" in shown.sentence)
    assert (shown.recommendation == "kernel") == shown.sentence.startswith("Use the kernel")


def test_the_headline_is_the_fresh_measurement_not_the_lucky_one(report: RunReport) -> None:
    assert report.best is not None
    assert report.best.ratio == 2.44
    assert "2.38×" in report.sentence


@pytest.mark.parametrize("status", ["running", "interrupted"])
def test_a_run_that_judged_nothing_yet_gives_no_verdict(report: RunReport, status: str) -> None:
    begun = replace(report, status=status, nodes=(), best_id=None, confirmation=None, recorded=None, stop_reason="")
    assert begun.sentence == f"No verdict yet: nothing was judged so far, and the run is {status}."
    assert "No correct kernel" in replace(begun, status="finished").sentence


def test_an_absent_target_is_reported_as_not_timed(report: RunReport) -> None:
    checked = replace(evaluation("x", "correct", None, 0), status="checked")
    best = report.best
    assert best is not None
    nodes = tuple(replace(n, evaluation=checked) if n is best else n for n in report.nodes)
    untimed = replace(report, nodes=nodes, confirmation=None, recorded=None)
    assert untimed.recommendation == "untimed"
    assert "nothing was timed" in untimed.sentence
    twin = replace(checked, accuracy=report.verdict.accuracy, message="compiled, the same schedule checked at M=4")  # type: ignore[union-attr]
    by_twin = replace(
        untimed, nodes=tuple(replace(n, evaluation=twin) if n.evaluation is checked else n for n in nodes)
    )
    assert "whose schedule was checked numerically at smaller sizes compiles" in by_twin.sentence
    _parsed(render(untimed))


def test_a_run_without_any_correct_candidate_still_has_a_page(report: RunReport, tmp_path: Path) -> None:
    nodes = tuple(n for n in report.nodes if n.ratio is None)
    empty = replace(report, nodes=nodes, best_id=None, confirmation=None, recorded=None)
    assert empty.recommendation == "none"
    _parsed(render(empty))
    _parsed(render(replace(empty, nodes=())))
    with pytest.raises(ValueError, match="no correct candidate"):
        module(empty)


def test_the_kernel_module_says_what_it_is_and_parses(report: RunReport) -> None:
    text = module(report)
    compile(text, "best.py", "exec")
    assert text.startswith("# pointwise_chain for cpu-x86-64, float32")
    assert "NOT RECOMMENDED" not in text
    assert "NOT RECOMMENDED" in module(replace(report, recorded="baseline"))


def test_lineage_runs_from_a_root_to_the_best_and_shows_native_code_line_by_line(report: RunReport) -> None:
    chain = lineage(report)
    assert [n.ratio for n in chain] == [1.12, 1.74, 2.31, 2.44]
    steps = changes(report)
    assert steps[0].lines == ()
    assert [(s.added, s.removed) for s in steps[1:]] == [(2, 2)] * 3
    assert ("add", "+  const long block = 1280;") in steps[1].lines


@pytest.mark.parametrize("text", ["", "not python (", "SOURCES = {'a': 1}", "SOURCES = {'a': f()}", "x = 1\n"])
def test_any_text_can_be_made_readable(text: str) -> None:
    assert isinstance(readable(text), str)


def test_citations_name_title_and_document(report: RunReport) -> None:
    cited = report.nodes[0].citations
    assert [c.title for c in cited] == ["Passage 0 <b>", "Passage 2 <b>"]
    assert {c.document for c in cited} == {"guidance/memory.md"}
