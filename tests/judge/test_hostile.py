"""Nothing that a candidate contains or sends makes the judge raise: each costs one verdict, and the next candidate is judged as usual."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from evaluators.candidate import Candidate
from evaluators.judge.judge import Judge
from evaluators.judge.processes import replies
from evaluators.judge.settings import JudgeSettings
from tests.judge.conftest import CPU, MODEL, native, row_sum_spec
from tests.languages.test_untrusted import UNREADABLE

SETTINGS = JudgeSettings(seeds=2, pairs=5, batch_ms_cpu=2.0, timing_budget_s=0.5, compile_mode="off", run_s=20.0)

FORGE = '''
os = torch.os
struct = torch.sys.modules["struct"]


def forge(body, *more):
    """Write a message of one's own to every socket there is."""
    for fd in os.listdir("/proc/self/fd"):
        try:
            if os.readlink("/proc/self/fd/" + fd).startswith("socket:"):
                os.write(int(fd), struct.pack("<I", len(body)) + body)
        except OSError:
            pass
'''


def forger(body: bytes, at_import: bool = True) -> Candidate:
    """A right candidate that also sends ``body``, when it is imported or in each call."""
    text = MODEL.replace("\n\nclass", FORGE + (f"\n\nforge({body!r})\n" if at_import else "") + "\n\nclass", 1)
    if not at_import:
        text = text.replace("        return y", f"        forge({body!r})\n        return y")
    return native(body=text)


FORGED = {
    "a number for a list": b'{"missing": 5}',
    "nested thousands deep": b"[" * 50_000,
    "an object nested thousands deep": b'{"a":' * 20_000,
    "no object": b"[]",
    "no JSON": b"\xff\xfe\x00",
    "a refusal that is no text": b'{"refused": 7, "message": []}',
    "a surrogate": b'{"missing": ["\\ud800"]}',
    "a long number": b'{"missing": ' + b"9" * 9000 + b"}",
}


@pytest.fixture(scope="module")
def judge() -> Iterator[Judge]:
    with Judge(row_sum_spec(), CPU, SETTINGS) as found:
        yield found


@pytest.mark.parametrize("name", FORGED)
def test_forged_messages_are_tampering(judge: Judge, name: str) -> None:
    found = judge.evaluate(forger(FORGED[name]), timed=False)
    assert (found.status, found.fitness) == ("tampering", 0.0), found.message
    json.dumps(found.to_dict()).encode()


@pytest.mark.parametrize(
    "body",
    [
        b'{"results": {"0": {"tree": {"tensor": 0}, "outputs": 3}}}',
        b'{"results": []}',
        b'{"tree": 1, "outputs": []}',
        b"{}",
    ],
)
def test_replies_sent_ahead_of_the_work_are_tampering(judge: Judge, body: bytes) -> None:
    found = judge.evaluate(forger(body, at_import=False))
    assert (found.status, found.fitness) == ("tampering", 0.0), found.message


@pytest.mark.parametrize("name", UNREADABLE)
def test_unreadable_sources_are_rejected(judge: Judge, name: str) -> None:
    found = judge.evaluate(Candidate("x", "cpp", UNREADABLE[name][0], "manual"), timed=False)
    assert found.status == "source_rejected", found.message
    json.dumps(found.to_dict()).encode()


@pytest.mark.parametrize("terms", [200, 480, 700, 900, 980])
def test_sources_that_parse_but_are_too_deep_to_walk_are_rejected(judge: Judge, terms: int) -> None:
    """Somewhere between a parser's limit and that of the functions that walk what was parsed."""
    source = "x = " + "+".join(["1"] * terms) + "\n" + native().source
    found = judge.evaluate(Candidate("x", "cpp", source, "manual"), timed=False)
    assert found.status in ("source_rejected", "correct", "load_error"), found.message


@pytest.mark.parametrize("depth", [40, 300, 2000])
def test_deeply_nested_results_are_refused(judge: Judge, depth: int) -> None:
    body = MODEL.replace("        return y", f"        for _ in range({depth}):\n            y = [y]\n        return y")
    found = judge.evaluate(native(body=body), timed=False)
    assert found.status in ("tampering", "crash", "wrong_shape", "wrong_dtype"), found.message


def test_messages_of_exceptions_are_made_printable(judge: Judge) -> None:
    body = MODEL.replace("        return y", '        raise ValueError("\\x1b[31mred\\ud800 \\x07bell")')
    found = judge.evaluate(native(body=body), timed=False)
    assert found.status == "crash"
    assert "red" in found.message
    assert not set("\x1b\x07\ud800") & set(found.message)


def test_a_failure_of_the_judge_is_a_verdict_and_the_next_one_is_right(
    judge: Judge, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last boundary: what nobody foresaw is recorded as the judge's own trouble."""
    with monkeypatch.context() as patch:
        patch.setattr("evaluators.judge.session.Session.correctness", lambda *_: 1 // 0)
        found = judge.evaluate(native(), timed=False)
    assert found.status == "infrastructure"
    assert "ZeroDivisionError" in found.message
    assert judge.evaluate(native(), timed=False).status == "correct"


plain: Any = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(["tensor", "list", "dict", "value", "0", "name", "shape", "at", "tree"]), inner, max_size=4
        )
    ),
    max_leaves=20,
)
fields = st.dictionaries(
    st.sampled_from(
        [
            "missing",
            "tree",
            "outputs",
            "results",
            "operators",
            "kernels",
            "events_ms",
            "refused",
            "message",
            "isolation",
        ]
    ),
    plain,
    max_size=4,
)


@settings(max_examples=300, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.sampled_from(["hello", "load", "case", "run", "time", "collect", "events", "resources", "check_ahead"]), fields
)
def test_any_reply_is_read_or_malformed(op: str, reply: dict[str, Any]) -> None:
    """Whatever arrives: plain data of the expected form comes out, or one exception that the judge expects."""
    try:
        found = replies.read(op, reply)
    except replies.Malformed:
        return
    json.dumps(found).encode()
