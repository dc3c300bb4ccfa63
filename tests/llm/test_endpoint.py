"""One question, one whole answer: every fault of a server ends in an answer after a retry, or in one line that says what to do."""

from __future__ import annotations

import time
from email.utils import formatdate
from typing import Any

import pytest

from agent.cli.exits import MISSING, code_of
from agent.errors import EndpointMissing, ReplyError, SettingsError
from agent.proposers import endpoint
from agent.proposers.endpoint import ATTEMPTS, Answer, Endpoint, ask, configured, only_model, prices
from agent.settings import RunSettings
from tests.llm.conftest import Response, Server, chat, failure


def put(server: Server, *script: Any, seconds: float = 20.0, waits: list[float] | None = None) -> Answer:
    server.script = list(script)
    waited: list[float] = [] if waits is None else waits
    return ask(Endpoint(server.url, "none", "m"), "question", 64, seconds, waited.append)


def test_an_answer_with_the_servers_own_counts(server: Server) -> None:
    answer = put(server, chat("hello", usage=(7, 3)))
    assert (answer.text, answer.finish_reason, answer.model) == ("hello", "stop", "served-model")
    assert (answer.prompt_tokens, answer.completion_tokens, answer.counted) == (7, 3, "server")
    (request,) = server.requests
    assert request["path"] == "/v1/chat/completions"
    assert request["model"] == "m"
    assert request["messages"] == [{"role": "user", "content": "question"}]
    assert request["max_completion_tokens"] == 64
    assert not request.get("stream")


def test_missing_usage_is_estimated_and_says_so(server: Server) -> None:
    answer = put(server, chat("hello", usage=None))
    assert answer.counted == "estimate"
    assert answer.prompt_tokens > 0
    assert answer.completion_tokens > 0


def counted(usage: Any) -> Response:
    return Response({**chat("hello", usage=None).payload, "usage": usage})


@pytest.mark.parametrize(
    "usage",
    [
        {"prompt_tokens": 10**30, "completion_tokens": 7, "total_tokens": 7},
        {"prompt_tokens": -5, "completion_tokens": -7, "total_tokens": -12},
        {"prompt_tokens": "5", "completion_tokens": None, "total_tokens": 7},
        {"prompt_tokens": float("nan"), "completion_tokens": float("inf")},
        {"prompt_tokens": True, "completion_tokens": [3]},
        {"prompt_tokens_details": "none", "completion_tokens_details": 3},
        "many",
        [1, 2],
        0,
    ],
    ids=repr,
)
def test_odd_counts_never_cost_a_good_reply(server: Server, usage: Any) -> None:
    """They are estimated instead: no budget is pushed down or used up by them, and one request is enough."""
    answer = put(server, counted(usage))
    assert answer.text == "hello"
    assert answer.counted == "estimate"
    assert 0 < answer.prompt_tokens < 100
    assert 0 < answer.completion_tokens < 100
    assert len(server.requests) == 1


def test_a_half_good_count_is_used_but_no_price_is_made_of_it(server: Server) -> None:
    answer = put(server, counted({"prompt_tokens": 40, "completion_tokens": -1}))
    assert (answer.prompt_tokens, answer.counted) == (40, "estimate")
    assert answer.completion_tokens > 0


def test_halves_of_characters_become_valid_text(server: Server) -> None:
    """A lone surrogate or NUL can be stored nowhere; two halves that belong together are one character."""
    answer = put(server, chat("a\ud83d b\ud83d\ude00 c\0", model="m\ud83d"))
    assert answer.text == "a\ufffd b\U0001f600 c\ufffd"
    assert answer.model == "m\ufffd"
    answer.text.encode()


def test_a_model_name_that_the_library_would_route_elsewhere_stays_on_chat(server: Server) -> None:
    server.script = [chat("x")]
    ask(Endpoint(server.url, "none", "gpt-5-codex"), "q", 8, 20)
    assert server.requests[0]["path"] == "/v1/chat/completions"


@pytest.mark.parametrize("status", [408, 409, 429, 500, 502, 503])
def test_passing_faults_are_retried_with_growing_pauses(server: Server, status: int) -> None:
    waits: list[float] = []
    assert put(server, failure(status), failure(status), chat("ok"), waits=waits).text == "ok"
    assert 0.5 <= waits[0] <= 1.0 <= waits[1] <= 2.0


@pytest.mark.parametrize(
    ("headers", "low", "high"),
    [
        ({"retry_after": "7"}, 7, 7),
        ({"retry_after_ms": "4500"}, 4.5, 4.5),
        ({"retry_after": "date"}, 100, 121),
        ({"retry_after": "soon"}, 0.5, 1),
    ],
)
def test_the_pause_a_server_asks_for_is_kept(server: Server, headers: dict[str, str], low: float, high: float) -> None:
    sent = {k: formatdate(time.time() + 120, usegmt=True) if v == "date" else v for k, v in headers.items()}
    waits: list[float] = []
    put(server, failure(429, **sent), chat("ok"), waits=waits)
    assert low <= waits[0] <= high


def test_a_server_that_asks_for_an_hour_is_given_up_at_once(server: Server) -> None:
    with pytest.raises(ReplyError, match="asks to wait 3600 s"):
        put(server, failure(429, retry_after="3600"))
    assert len(server.requests) == 1


def test_faults_that_last_are_given_up_after_a_few_attempts(server: Server) -> None:
    with pytest.raises(ReplyError, match=rf"HTTP 500.*{ATTEMPTS} attempts"):
        put(server, failure(500))
    assert len(server.requests) == ATTEMPTS


@pytest.mark.parametrize(
    ("response", "advice"),
    [
        (failure(401, "bad key"), "OPENAI_API_KEY"),
        (failure(404, "no such model"), "--model"),
        (failure(400, "context length"), "prompt_tokens"),
        (failure(429, "spent", code="insufficient_quota"), "quota"),
    ],
)
def test_lasting_refusals_are_not_retried_and_say_what_to_do(server: Server, response: Response, advice: str) -> None:
    with pytest.raises(ReplyError, match=advice):
        put(server, response)
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    "broken",
    [
        Response(body=b'{"choices": [{"mess'),
        Response(body=b"<html>hello</html>", headers={"Content-Type": "text/html"}),
        Response(body=b""),
        Response({"choices": []}),
        Response({"choices": None}),
        Response({"object": "list"}),
        Response([1, 2]),
        Response({"choices": [{"index": 0, "finish_reason": "stop"}]}),
    ],
)
def test_answers_that_are_no_completion_are_retried_then_named(server: Server, broken: Response) -> None:
    assert put(server, broken, chat("ok")).text == "ok"
    with pytest.raises(ReplyError, match="/v1"):
        put(server, broken)


@pytest.mark.parametrize("slow", [Response(pause=30.0), Response({"choices": []}, trickle=60.0)])
def test_a_slow_answer_is_cut_off_even_where_bytes_trickle_in(
    server: Server, slow: Response, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(endpoint, "ATTEMPTS", 1)
    with pytest.raises(ReplyError, match=r"within 0\.5 s"):
        put(server, slow, seconds=0.5)


def test_a_cut_reply_keeps_its_finish_reason(server: Server) -> None:
    assert put(server, chat("half", finish="length")).finish_reason == "length"
    assert put(server, chat("half", finish=None)).finish_reason == ""


def test_a_server_that_is_not_there_is_named(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoint, "ATTEMPTS", 1)
    url = server.url
    server.close()
    with pytest.raises(ReplyError, match="cannot reach http://127"):
        ask(Endpoint(url, "none", "m"), "q", 8, 5)


def test_without_an_endpoint_or_model_the_message_says_what_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "KERNELEVOLVE_MODEL", "OPENAI_MODEL"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(EndpointMissing, match="OPENAI_BASE_URL=") as error:
        configured(RunSettings())
    assert code_of(error.value) == MISSING
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    with pytest.raises(EndpointMissing, match="--model"):
        configured(RunSettings())
    monkeypatch.setenv("OPENAI_MODEL", "third")
    assert configured(RunSettings()).model == "third"
    monkeypatch.setenv("KERNELEVOLVE_MODEL", "second")
    assert configured(RunSettings()).model == "second"
    assert configured(RunSettings(model="first")).model == "first"


def test_a_local_server_needs_no_key_and_names_its_only_model(server: Server) -> None:
    found = configured(RunSettings())
    assert (found.base_url, found.model) == (server.url, None)
    assert only_model(found) == "served-model"
    server.models = ["a", "b"]
    with pytest.raises(EndpointMissing, match="a, b"):
        only_model(found)


def test_prices_are_both_or_neither_and_a_dollar_budget_needs_them(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("KERNELEVOLVE_PRICE_IN", "KERNELEVOLVE_PRICE_OUT"):
        monkeypatch.delenv(name, raising=False)
    assert prices(RunSettings()) is None
    with pytest.raises(SettingsError, match="KERNELEVOLVE_PRICE_IN"):
        prices(RunSettings(dollars=1.0))
    with pytest.raises(SettingsError, match="price_out"):
        prices(RunSettings(price_in=1.0))
    monkeypatch.setenv("KERNELEVOLVE_PRICE_IN", "2")
    monkeypatch.setenv("KERNELEVOLVE_PRICE_OUT", "0")
    assert prices(RunSettings(dollars=1.0)) == (2.0, 0.0)
    monkeypatch.setenv("KERNELEVOLVE_PRICE_OUT", "free")
    with pytest.raises(SettingsError, match="KERNELEVOLVE_PRICE_OUT"):
        prices(RunSettings())
