"""A loopback server that speaks the OpenAI chat protocol and answers as scripted, faults included."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest


@dataclass
class Response:
    """What one request gets. ``body`` is sent as it is, else JSON is made of ``payload``."""

    payload: Any = None
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes | None = None
    pause: float = 0.0
    trickle: float = 0.0
    """Seconds over which the body is dribbled, a byte at a time."""


def chat(
    text: str | None, finish: str | None = "stop", usage: tuple[int, int] | None = (100, 20), **more: Any
) -> Response:
    """A chat completion."""
    payload: dict[str, Any] = {
        "id": "c1",
        "object": "chat.completion",
        "created": 1,
        "model": "served-model",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": finish}],
    }
    if usage is not None:
        payload["usage"] = {"prompt_tokens": usage[0], "completion_tokens": usage[1], "total_tokens": sum(usage)}
    return Response({**payload, **more})


def failure(status: int, message: str = "no", code: str | None = None, **headers: str) -> Response:
    """An error in the protocol's form."""
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    return Response({"error": {"message": message, "code": code, "type": "x", "param": None}}, status, sent)


Script = Callable[[dict[str, Any]], Response]


class Server:
    """Answers each request with the next scripted response (the last one again and again); ``requests`` keeps what was asked."""

    def __init__(self) -> None:
        self.script: list[Response | Script] = []
        self.requests: list[dict[str, Any]] = []
        self.keys: list[str] = []
        self.models: list[str] = ["served-model"]
        self._lock = threading.Lock()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *_: Any) -> None:
                pass

            def do_GET(self) -> None:
                self._send(Response({"object": "list", "data": [{"id": m, "object": "model"} for m in outer.models]}))

            def do_POST(self) -> None:
                asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                with outer._lock:
                    outer.requests.append({**asked, "path": self.path})
                    outer.keys.append(self.headers.get("Authorization", ""))
                    step = outer.script.pop(0) if len(outer.script) > 1 else outer.script[0]
                self._send(step if isinstance(step, Response) else step(asked))

            def _send(self, response: Response) -> None:
                time.sleep(response.pause)
                body = response.body if response.body is not None else json.dumps(response.payload).encode()
                try:
                    self.send_response(response.status)
                    for name, value in {"Content-Type": "application/json", **response.headers}.items():
                        self.send_header(name, value)
                    self.send_header("Content-Length", str(len(body)))
                    self.end_headers()
                    if response.trickle:
                        for byte in body:
                            self.wfile.write(bytes([byte]))
                            self.wfile.flush()
                            time.sleep(response.trickle / len(body))
                    else:
                        self.wfile.write(body)
                except OSError:
                    pass  # the client gave up

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._http.daemon_threads = True
        self._http.block_on_close = False
        threading.Thread(target=self._http.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        """Base URL."""
        return f"http://127.0.0.1:{self._http.server_port}/v1"

    def close(self) -> None:
        """Stop serving."""
        self._http.shutdown()
        self._http.server_close()


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """A server, and an environment that names it as the only endpoint."""
    for name in (
        "OPENAI_API_KEY",
        "KERNELEVOLVE_MODEL",
        "OPENAI_MODEL",
        "OPENAI_ORG_ID",
        "OPENAI_PROXY",
        "KERNELEVOLVE_DEBUG",
    ):
        monkeypatch.delenv(name, raising=False)
    for name in ("KERNELEVOLVE_PRICE_IN", "KERNELEVOLVE_PRICE_OUT"):
        monkeypatch.delenv(name, raising=False)
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.setenv(name, "127.0.0.1")
    started = Server()
    monkeypatch.setenv("OPENAI_BASE_URL", started.url)
    yield started
    started.close()
