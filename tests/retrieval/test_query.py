"""A query composed from context carries every filter, and of a message only what identifies the problem."""

from __future__ import annotations

from evaluators.spec.kernel_spec import KernelSpec
from evaluators.target import Target
from retrieval.query import build_query

SPEC = KernelSpec(name="row_softmax", source="yaml", reference="", description="softmax over the last axis")
TARGET = Target(
    name="nvidia-h200",
    kind="gpu",
    vendor="nvidia",
    architecture="hopper",
    families=("nvidia-h200", "nvidia-hopper", "nvidia", "gpu"),
    memory_bandwidth_gbs=4800,
    peak_tflops={},
    languages=("triton",),
    compute_units=132,
    warp_size=32,
    l2_bytes=1,
    shared_memory_bytes=1,
    memory_bytes=1,
)


def test_context_becomes_text_and_filters() -> None:
    query = build_query(SPEC, TARGET, ["triton"], "improve", "spill", ["exp"], ["row_norm", "row_norm"])
    assert query.families == TARGET.families
    assert (query.languages, query.patterns, query.operators) == (("triton",), ("row_norm",), ("exp",))
    assert (query.phase, query.diagnosis) == ("improve", "spill")
    for part in ("row softmax", "row normalisation", "triton", "nvidia-h200", "softmax over the last axis", "spills"):
        assert part in query.text


def test_messages_lose_addresses_and_paths() -> None:
    message = "/tmp/build/k.py:12: error at 0x7f00ab in tl.dot: shapes 123456 differ" + " x" * 1000
    query = build_query(SPEC, TARGET, ["triton"], "debug", "compile_error", message=message)
    assert "tl.dot" in query.text
    assert "0x7f" not in query.text
    assert "/tmp" not in query.text
    assert len(query.text) < 700
