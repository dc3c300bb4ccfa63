"""The proposer on a real run store: replies are recorded before they are read, and never asked for twice."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agent.errors import ProposerError, RunInterrupted
from agent.proposers import llm
from agent.proposers.base import Context
from agent.proposers.llm import LLMProposer
from agent.settings import RunSettings
from evaluators.languages import get
from knowledge.runs.store import RunStore
from retrieval.passage import Passage
from tests.graph.toy import SPEC, TARGET
from tests.llm.conftest import Server, chat, failure
from tests.llm.test_extract import MODULE

GOOD = f"Idea: copy in one loop [1]\n```python\n{MODULE}```\n"


@pytest.fixture
def store(tmp_path: Path) -> RunStore:
    made = RunStore(f"sqlite:///{tmp_path / 'store.db'}", str(tmp_path / "objects"))
    made.create_run("r", SPEC, TARGET, {})
    return made


def context(store: RunStore, draws: int = 1, phase: str = "draft", **options: Any) -> Context:
    passage = Passage("chunk-1", "guide.md", "guidance", "A guide", "guide.md#1", "about", 1.0)
    return Context(
        spec=SPEC,
        target=TARGET,
        languages=("cpp",),
        phase=phase,
        step=0,
        ids=tuple(f"r.0.{d}" for d in range(draws)),
        seed=0,
        passages=(passage,),
        prompt="Write a kernel.",
        options={"store": store, "run_id": "r", "chunk_ids": ("chunk-1",), **options},
    )


def proposer(**settings: Any) -> LLMProposer:
    return LLMProposer(RunSettings(proposers=("llm",), **settings))


def test_a_reply_becomes_a_candidate_with_its_origin_and_cost(server: Server, store: RunStore) -> None:
    server.script = [chat(GOOD, usage=(1000, 500))]
    (made,) = proposer(price_in=2.0, price_out=10.0).propose(context(store), 1)
    get("cpp").check(made.source)
    assert (made.id, made.language, made.note, made.chunk_ids) == ("r.0.0", "cpp", "copy in one loop [1]", ("chunk-1",))
    assert made.prompt_ref
    assert store.objects.get_text(made.prompt_ref).startswith("Write a kernel.")
    assert made.reply_ref
    assert store.objects.get_text(made.reply_ref) == GOOD
    (cost,) = store.costs("r")
    assert (cost.prompt_tokens, cost.completion_tokens, cost.model) == (1000, 500, "served-model")
    assert cost.dollars == pytest.approx(0.007)
    assert server.requests[0]["messages"][0]["content"] == store.objects.get_text(made.prompt_ref)


def test_dollars_are_unknown_without_prices_or_without_the_servers_count(server: Server, store: RunStore) -> None:
    server.script = [chat(GOOD, usage=None)]
    proposer(price_in=2.0, price_out=10.0).propose(context(store), 1)
    server.script = [chat(GOOD)]
    proposer().propose(replace(context(store), step=1), 1)
    assert [c.dollars for c in store.costs("r")] == [None, None]
    assert [r.counted for r in store.replies("r")] == ["estimate", "server"]
    assert all(c.completion_tokens > 0 for c in store.costs("r"))


def test_a_recorded_reply_is_read_not_asked_for_again(
    server: Server, store: RunStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.script = [chat(GOOD)]

    def crash(*_: Any) -> None:
        raise RuntimeError("killed while reading")

    with monkeypatch.context() as patch:
        patch.setattr(llm, "candidate_of", crash)
        with pytest.raises(RuntimeError):
            proposer().propose(context(store), 1)
    assert len(store.replies("r")) == len(store.costs("r")) == 1  # recorded before it was read
    (made,) = proposer().propose(context(store), 1)
    assert made.note == "copy in one loop [1]"
    assert len(server.requests) == len(store.costs("r")) == 1


def test_a_cut_reply_is_recorded_and_asked_for_once_more_and_shorter(server: Server, store: RunStore) -> None:
    server.script = [chat(GOOD[:60], finish="length"), chat(GOOD)]
    (made,) = proposer().propose(context(store), 1)
    assert made.note == "copy in one loop [1]"
    assert [(r.attempt, r.finish_reason) for r in store.replies("r")] == [(0, "length"), (1, "stop")]
    assert len(store.costs("r")) == 2
    assert "Keep it short" in server.requests[1]["messages"][0]["content"]
    assert "Keep it short" not in server.requests[0]["messages"][0]["content"]


def test_two_cut_replies_fail_the_share_also_after_a_resume(server: Server, store: RunStore) -> None:
    server.script = [chat("half", finish="length")]
    for _ in range(2):
        with pytest.raises(ProposerError, match="reply_tokens"):
            proposer().propose(context(store), 1)
    assert len(server.requests) == 2


@pytest.mark.parametrize("finish", ["content_filter", None])
def test_a_reply_that_did_not_stop_is_not_used(server: Server, store: RunStore, finish: str | None) -> None:
    server.script = [chat(GOOD, finish=finish)]
    with pytest.raises(ProposerError, match="did not finish"):
        proposer().propose(context(store), 1)
    assert len(server.requests) == len(store.costs("r")) == 1


@pytest.mark.parametrize(
    "text", ["I am sorry, I cannot.", "", None, "```python\nclass ModelNew(\n```", "blah " * 1_000_000]
)
def test_a_reply_without_usable_code_is_a_candidate_that_the_judge_refuses(
    server: Server, store: RunStore, text: str | None
) -> None:
    from evaluators.errors import SourceRejected

    server.script = [chat(text)]
    (made,) = proposer().propose(context(store), 1)
    assert made.reply_ref
    assert store.objects.get_text(made.reply_ref) == (text or "")
    with pytest.raises(SourceRejected, match=r"no class ModelNew|syntax error"):
        get(made.language).check(made.source)


def test_draws_are_told_apart_and_a_late_failure_keeps_the_earlier_ones(server: Server, store: RunStore) -> None:
    server.script = [chat(GOOD), failure(401)]
    made = proposer().propose(context(store, draws=3), 3)
    assert [c.id for c in made] == ["r.0.0"]
    first, second = (r["messages"][0]["content"] for r in server.requests)
    assert "number 1" in first
    assert "number 2" in second


def test_a_pause_between_attempts_ends_when_the_run_is_stopped(server: Server, store: RunStore) -> None:
    stop = threading.Event()
    stop.set()
    server.script = [failure(503, retry_after="300")]
    with pytest.raises(RunInterrupted):
        proposer().propose(context(store, stop=stop), 1)
    assert not store.replies("r")


def test_the_only_model_of_a_server_is_found_and_used(server: Server, store: RunStore) -> None:
    server.models = ["just-this"]
    server.script = [chat(GOOD)]
    proposer().propose(context(store), 1)
    assert server.requests[0]["model"] == "just-this"


def test_without_a_prompt_or_a_store_nothing_is_sent(server: Server, store: RunStore) -> None:
    server.script = [chat(GOOD)]
    for broken in (replace(context(store), prompt=""), replace(context(store), options={})):
        with pytest.raises(ProposerError):
            proposer().propose(broken, 1)
    assert not server.requests
