"""One question to an OpenAI-compatible server, one whole answer or a named error; asked again where that can help."""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any, Literal

from agent.errors import EndpointMissing, ReplyError, SettingsError
from agent.prompts.budget import estimate_tokens
from agent.prompts.quoting import one_line
from agent.settings import RunSettings

ATTEMPTS = 5
"""Times one question is sent at most."""
MOST_TOKENS = 10_000_000
"""Tokens of one prompt or reply beyond which a server's count is no count."""
LONGEST_WAIT = 600.0
"""Seconds a server may ask to wait before it is given up."""

Wait = Callable[[float], None]


@dataclass(frozen=True)
class Endpoint:
    """Where the model is. ``base_url`` None is the library's default server; ``model`` None asks the server which one it has."""

    base_url: str | None
    api_key: str
    model: str | None

    @property
    def where(self) -> str:
        """For messages."""
        return self.base_url or "the default OpenAI endpoint"


@dataclass(frozen=True)
class Answer:
    """What the server said. Token counts are the server's, or estimated from the texts where ``counted`` is ``estimate``."""

    text: str
    finish_reason: str
    model: str
    prompt_tokens: int
    completion_tokens: int
    counted: Literal["server", "estimate"]
    seconds: float


def configured(settings: RunSettings) -> Endpoint:
    """The endpoint of the environment. Raises :class:`EndpointMissing` that says what to set; nothing is contacted."""
    key, base = os.environ.get("OPENAI_API_KEY"), os.environ.get("OPENAI_BASE_URL")
    model = settings.model or os.environ.get("KERNELEVOLVE_MODEL") or os.environ.get("OPENAI_MODEL")
    if not (key or base):
        raise EndpointMissing(
            "the llm proposer needs an endpoint: set OPENAI_API_KEY, or OPENAI_BASE_URL=http://host:port/v1 for another server "
            "(a local one needs no key); or use --proposer builtin"
        )
    if not (model or base):
        raise EndpointMissing(
            "the llm proposer needs a model: give --model NAME, or set KERNELEVOLVE_MODEL or OPENAI_MODEL"
        )
    return Endpoint(base or None, key or "none", model or None)


def prices(settings: RunSettings) -> tuple[float, float] | None:
    """Dollars per million prompt and completion tokens, from the settings, else the environment; None where unknown.

    Raises :class:`agent.errors.SettingsError` where only one is given, or a budget in dollars has no prices to go by.
    """
    found = [_price("price_in", settings.price_in), _price("price_out", settings.price_out)]
    if found[0] is not None and found[1] is not None:
        return found[0], found[1]
    if found != [None, None]:
        name = "price_in" if found[0] is None else "price_out"
        raise SettingsError(name, None, f"given too (KERNELEVOLVE_{name.upper()}): one price alone gives no cost")
    if settings.dollars is not None:
        raise SettingsError(
            "dollars",
            settings.dollars,
            "given with prices: set KERNELEVOLVE_PRICE_IN and KERNELEVOLVE_PRICE_OUT, dollars per million tokens",
        )
    return None


def _price(name: str, given: float | None) -> float | None:
    text = os.environ.get(f"KERNELEVOLVE_{name.upper()}")
    if given is not None or not text:
        return given
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < float("inf"):
        raise SettingsError(f"KERNELEVOLVE_{name.upper()}", text, "dollars per million tokens, a number from 0")
    return value


def ask(endpoint: Endpoint, prompt: str, max_tokens: int, seconds: float, wait: Wait = time.sleep) -> Answer:
    """Send one prompt until an answer comes, at most :data:`ATTEMPTS` times with growing pauses, or those the server asks for.

    ``seconds`` limits each attempt. ``wait`` sleeps, and may raise to stop. Raises :class:`agent.errors.ReplyError`.
    """
    for attempt in range(1, ATTEMPTS + 1):
        try:
            return _within(seconds, lambda: _send(endpoint, prompt, max_tokens, seconds), endpoint)
        except ReplyError as error:
            if error.retry_after is None or attempt == ATTEMPTS:
                tries = f" ({attempt} attempts)" if attempt > 1 else ""
                raise ReplyError(f"{error}{tries}") from error
            if error.retry_after > LONGEST_WAIT:
                raise ReplyError(f"{error}; it asks to wait {error.retry_after:.0f} s: try again then") from error
            wait(max(error.retry_after, 2.0 ** (attempt - 1) * random.uniform(0.5, 1.0)))
    raise AssertionError("unreachable")


def only_model(endpoint: Endpoint) -> str:
    """The model of a server that has one. Raises :class:`EndpointMissing` naming those there are."""
    from openai import OpenAI, OpenAIError

    try:
        with OpenAI(base_url=endpoint.base_url, api_key=endpoint.api_key, max_retries=1, timeout=20) as client:
            names = [m.id for m in client.models.list().data or []]
    except (OpenAIError, ValueError, TypeError, AttributeError) as error:
        raise EndpointMissing(
            f"{endpoint.where} does not say which models it has ({one_line(str(error), 120)}): give --model NAME, or set KERNELEVOLVE_MODEL"
        ) from error
    if len(names) != 1:
        some = ", ".join(names[:12]) or "none"
        raise EndpointMissing(
            f"{endpoint.where} has several models: give --model NAME, or set KERNELEVOLVE_MODEL; there are: {some}"
        )
    return names[0]


def _within(seconds: float, call: Callable[[], Answer], endpoint: Endpoint) -> Answer:
    """The call's result within so many seconds. The library's own time-out starts anew with every byte, so that a server that trickles
    would hold the run; its thread is left to end by itself."""
    box: list[Answer | BaseException] = []

    def work() -> None:
        try:
            box.append(call())
        except BaseException as error:
            box.append(error)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(seconds + 1.0)
    if not box:
        raise ReplyError(f"{endpoint.where} gave no whole answer within {seconds:g} s", retry_after=0.0)
    if isinstance(box[0], BaseException):
        raise box[0]
    return box[0]


def _send(endpoint: Endpoint, prompt: str, max_tokens: int, seconds: float) -> Answer:
    import openai
    from langchain_core.messages import HumanMessage
    from langchain_openai import ChatOpenAI

    assert endpoint.model is not None
    arguments: dict[str, Any] = {
        "model": endpoint.model,
        "base_url": endpoint.base_url,
        "api_key": endpoint.api_key,
        "timeout": seconds,
        "max_retries": 0,  # `ask` retries, so that long pauses can be interrupted and are honoured in full
        "max_tokens": max_tokens,
        "use_responses_api": False,  # some model names would be routed to an interface that gateways do not have
    }

    class Chat(ChatOpenAI):
        """Whatever is odd about the counts must not cost the reply: they are kept out of the library's own arithmetic."""

        def _create_chat_result(self, response: Any, generation_info: dict[str, Any] | None = None) -> Any:
            if isinstance(response, openai.BaseModel):
                response = response.model_dump(warnings=False)
            if isinstance(response, dict):
                usage.append(response.pop("usage", None))
            return super()._create_chat_result(response, generation_info)

    usage: list[Any] = []
    model = Chat(**arguments)
    begin = time.monotonic()
    try:
        message = model.invoke([HumanMessage(prompt)])
    except openai.APIStatusError as error:
        raise _refused(endpoint, error) from error
    except openai.APITimeoutError as error:
        raise ReplyError(f"{endpoint.where} gave no answer within {seconds:g} s", retry_after=0.0) from error
    except openai.APIConnectionError as error:
        cause = one_line(str(error.__cause__ or error), 120)
        raise ReplyError(
            f"cannot reach {endpoint.where}: {cause}; check OPENAI_BASE_URL and the server", retry_after=0.0
        ) from error
    except (openai.OpenAIError, ValueError, TypeError, KeyError, IndexError, AttributeError) as error:
        what = one_line(f"{type(error).__name__}: {error}", 160)
        raise ReplyError(
            f"{endpoint.where} answered with something that is no chat completion ({what}); OPENAI_BASE_URL usually ends in /v1",
            retry_after=0.0,
        ) from error
    text = _valid(message.content if isinstance(message.content, str) else str(message.text))
    about = message.response_metadata
    asked, answered = _counts(usage[-1] if usage else None)
    counted = asked is not None and answered is not None and asked + answered > 0
    return Answer(
        text=text,
        finish_reason=_valid(str(about.get("finish_reason") or "")),
        model=_valid(str(about.get("model_name") or endpoint.model))[:200],
        prompt_tokens=asked or estimate_tokens(prompt),
        completion_tokens=answered if answered is not None and (answered or counted) else estimate_tokens(text),
        counted="server" if counted else "estimate",
        seconds=time.monotonic() - begin,
    )


def _counts(usage: Any) -> tuple[int | None, int | None]:
    """Prompt and completion tokens as a server counted them; None for what is no count."""

    def count(name: str) -> int | None:
        value = usage.get(name)
        good = isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MOST_TOKENS
        return int(value) if good else None

    if not isinstance(usage, dict):
        return None, None
    return count("prompt_tokens"), count("completion_tokens")


def _valid(text: str) -> str:
    """Text that can be stored anywhere: halves of surrogate pairs and NUL become the replacement character."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").replace("\0", "\ufffd")


def _refused(endpoint: Endpoint, error: Any) -> ReplyError:
    """An HTTP status as an error that says what to do, and whether and when to ask again."""
    status = int(error.status_code)
    said = one_line(str(getattr(error, "message", error)), 240)
    if status == 429 and getattr(error, "code", None) == "insufficient_quota":
        return ReplyError(f"{endpoint.where}: the account's quota is spent: {said}")
    if status in (408, 409, 429) or status >= 500:
        return ReplyError(f"{endpoint.where}: HTTP {status}: {said}", retry_after=_asked_wait(error.response.headers))
    advice = {
        401: "; check OPENAI_API_KEY",
        403: "; check OPENAI_API_KEY and that it may use this model",
        404: f"; check --model (now {endpoint.model}), and that OPENAI_BASE_URL ends as the server wants it, usually in /v1",
        413: "; lower prompt_tokens",
        400: "; if the prompt is too long for the model, lower prompt_tokens",
    }
    return ReplyError(f"{endpoint.where}: HTTP {status}: {said}{advice.get(status, '')}")


def _asked_wait(headers: Any) -> float:
    """Seconds that ``retry-after-ms`` or ``retry-after`` (seconds or a date) ask for; 0 where they ask for nothing."""
    try:
        if headers.get("retry-after-ms"):
            return max(0.0, float(headers["retry-after-ms"]) / 1000)
        text = headers.get("retry-after") or "0"
        if text.replace(".", "", 1).isdigit():
            return float(text)
        return max(0.0, parsedate_to_datetime(text).timestamp() - time.time())
    except (ValueError, TypeError):
        return 0.0
