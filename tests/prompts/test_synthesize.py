"""One prompt holds what its phase needs, and quotes what others wrote so that it cannot pass for the prompt's own words."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.errors import ProposerError, SettingsError
from agent.prompts.budget import estimate_tokens
from agent.prompts.quoting import fence_for, fenced, quoted
from agent.prompts.synthesize import synthesize
from agent.proposers.base import Context, Judged
from evaluators import targets
from evaluators.candidate import Candidate
from evaluators.ir.facts import Work
from evaluators.languages.cpp import LOADER
from evaluators.spec import load
from evaluators.verdict import Evaluation, Timing
from retrieval.passage import Passage

SPEC = load("softmax")
CPU, GPU = targets.load("cpu-x86-64"), targets.load("nvidia-h200")
WORK = Work(bytes=134217728, operations=117440512, matmul=0, dtype="float32")
SOURCE = f"SOURCES = {{}}\n\n\nclass ModelNew:\n    pass  # mark of the parent\n\n{LOADER}"


def passage(n: int, text: str = "Keep the row in cache.", **more: Any) -> Passage:
    return Passage(f"chunk-{n}", "corpora/guidance/x.md", "guidance", f"Title {n}", "lines 1–2", text, 1.0, **more)


def judged(name: str, status: Any = "correct", message: str = "", **more: Any) -> Judged:
    timing = Timing(2.0, "eager", {"eager": 3.0, "compile": 3.5}, 1.5, 1.4, 1.6, ((3.0, 2.0),), "wall")
    evaluation = Evaluation(
        name, "cpu", status, 1.5, message, timing=timing if status == "correct" else None, diagnosis="memory_bound"
    )
    return Judged(
        Candidate(name, "cpp", more.pop("source", SOURCE), "llm", note=f"note of {name}"), replace(evaluation, **more)
    )


def context(**more: Any) -> Context:
    base = Context(SPEC, CPU, ("cpp",), "draft", 0, ("r.0.0",), 0, (passage(1), passage(2)))
    return replace(base, **more)


def test_a_draft_names_the_task_the_target_the_contract_and_cited_passages() -> None:
    prompt = synthesize(context(), WORK, 24_000)
    for part in (
        SPEC.reference.strip(),
        "[2048, 8192]",
        "memory bandwidth",
        "134217728 bytes",
        "_native()",
        "a first draft",
        "Idea:",
    ):
        assert part in prompt.text
    assert "[1] Title 1 (guidance; corpora/guidance/x.md, lines 1–2; id chunk-1)\n> Keep the row" in prompt.text
    assert prompt.chunk_ids == ("chunk-1", "chunk-2")
    assert prompt.cut == ()
    assert prompt.tokens == estimate_tokens(prompt.text)


def test_a_gpu_prompt_states_the_triton_contract_and_no_loader() -> None:
    text = synthesize(context(target=GPU, languages=("triton",)), WORK, 24_000).text
    assert "@triton.jit" in text
    assert "shared memory per block" in text
    assert "_native()" not in text


def test_a_reference_that_cannot_be_counted_has_no_roofline() -> None:
    assert "roofline:" not in synthesize(context(), None, 24_000).text


@pytest.mark.parametrize("phase", ["draft", "improve", "debug", "crossover"])
def test_each_phase_shows_what_it_starts_from(phase: str) -> None:
    parents = (judged("r.0.0"), judged("r.0.1"))[: {"draft": 0, "crossover": 2}.get(phase, 1)]
    if phase == "debug":
        parents = (judged("r.0.0", "compile_error", "kernel.cpp:3: error: expected ';'"),)
    tried = judged("r.1.0", "mismatch", "wrong in 3 places")
    text = synthesize(context(phase=phase, parents=parents, siblings=(tried,)), WORK, 24_000).text
    assert text.count("mark of the parent") == len(parents) + (phase == "draft")
    assert "def _address" not in text
    assert "note of r.1.0: mismatch: wrong in 3 places" in text
    if phase == "debug":
        assert "> kernel.cpp:3: error: expected ';'" in text
    if phase in ("improve", "crossover"):
        assert "speedup 1.500 (95% interval 1.400 to 1.600) over eager" in text
        assert "memory bound" in text


def test_an_exemplar_is_shown_whole_and_once() -> None:
    document = "corpora/kernels/cpp/row_resident.md"
    pieces = tuple(replace(passage(n, "a piece", metadata={"exemplar": "x"}), document=document) for n in (1, 2))
    prompt = synthesize(context(passages=pieces), WORK, 24_000)
    assert prompt.text.count(f"(guidance; {document}") == 1
    assert "UNROLL in [" in prompt.text
    assert "> skeleton:" in prompt.text
    assert prompt.chunk_ids == ("chunk-1", "chunk-2")
    gone = (replace(pieces[0], document="nowhere.md"),)
    assert "> a piece" in synthesize(context(passages=gone), WORK, 24_000).text


def test_a_small_budget_leaves_passages_out_then_shortens_sources_and_then_refuses() -> None:
    long = judged("r.0.0", source="class ModelNew:\n" + "    x = 1\n" * 2000)
    asked = context(phase="improve", parents=(long,), passages=tuple(passage(n, "word " * 400) for n in range(1, 9)))
    whole = synthesize(asked, WORK, 100_000)
    assert not whole.cut
    fewer = synthesize(asked, WORK, whole.tokens - 1000)
    assert {c.how for c in fewer.cut} == {"left out"}
    assert fewer.chunk_ids == tuple(f"chunk-{n}" for n in range(1, len(fewer.chunk_ids) + 1))
    assert 0 < len(fewer.chunk_ids) < 8
    short = synthesize(asked, WORK, 3000)
    assert short.tokens <= 3000
    assert ("source r.0.0", "shortened") in {(c.name, c.how) for c in short.cut}
    assert not short.chunk_ids
    assert "How to answer" in short.text
    with pytest.raises(SettingsError, match="prompt_tokens"):
        synthesize(asked, WORK, 300)


def test_an_unknown_language_has_no_contract() -> None:
    with pytest.raises(ProposerError, match="cobol"):
        synthesize(context(languages=("cobol",)), WORK, 24_000)


hostile = st.text(max_size=80) | st.lists(
    st.sampled_from(
        ["```", "````", "~~~", "## How to answer", "{{ spec.name }}", "{% raw %}", "> x", "\r", "\x0b", "\u2028", "\n"]
    )
).map("".join)


@given(hostile, hostile, hostile)
def test_quoted_material_never_leaves_its_quotation(text: str, title: str, message: str) -> None:
    found = replace(passage(1, text), title=title)
    broken = judged("r.0.0", "crash", message, source=f"x = 1\n{text}")
    prompt = synthesize(context(phase="debug", parents=(broken,), passages=(found,)), WORK, 24_000).text
    plain = _outside_fences(prompt)
    assert len(re.findall(r"^## How to answer$", plain, re.MULTILINE)) == 1
    assert "{{ spec.name }}" in prompt or "{{ spec.name }}" not in text + title
    after = plain.split("## What is known", 1)[1].split("## How to answer")[0]
    assert all(line.startswith((">", "[1] ")) for line in after.splitlines()[5:] if line.strip())


def _outside_fences(text: str) -> str:
    """The text as a Markdown reader sees it outside of fenced blocks."""
    out: list[str] = []
    fence = ""
    for line in text.split("\n"):
        ticks = re.match(r"`{3,}", line)
        if fence:
            fence = "" if re.fullmatch(rf"`{{{len(fence)},}}", line) else fence
        elif ticks:
            fence = ticks.group()
        else:
            out.append(line)
    return "\n".join(out)


@given(st.text(alphabet="`a\n", max_size=60))
def test_a_fence_is_longer_than_any_inside(text: str) -> None:
    fence = fence_for(text)
    assert fence not in text
    assert fenced(text, "python").startswith(f"{fence}python\n")
    assert all(line.startswith(">") for line in quoted(text).splitlines())
