"""The packaged model in numpy gives the vectors that sentence-transformers gives."""

from __future__ import annotations

import numpy as np
import pytest

from knowledge.embed import DEFAULT_MODEL, SentenceTransformerEmbedder, default, packaged
from knowledge.errors import EmbeddingModelError
from knowledge.minilm import MiniLM, gelu

TEXTS = [
    "softmax over rows",
    "def f(x): return x * 2  # __global__ void k(float4 *a)",
    "日本語 emoji 🎉 café ﬁ",
    "",
    *(f"row {i} of a long text about memory bandwidth " * i for i in (3, 9, 40)),
]


@pytest.mark.slow
def test_same_vectors_as_sentence_transformers() -> None:
    model = packaged()
    ours = model.encode(TEXTS)
    theirs = SentenceTransformerEmbedder(str(model.folder)).encode(TEXTS)
    assert np.abs(ours - theirs).max() < 1e-5
    assert np.allclose(np.linalg.norm(ours, axis=1), 1, atol=1e-5)


def test_meaning_is_found_and_batches_do_not_matter() -> None:
    model = packaged()
    texts = [
        "The cat sleeps on the sofa.",
        "Shared memory bank conflicts slow a kernel.",
        "Bake the bread for an hour.",
    ]
    together = model.encode(texts)
    assert np.abs(together - np.stack([model.encode([t])[0] for t in texts])).max() < 1e-5
    scores = together @ model.encode(["GPU on-chip memory access patterns"])[0]
    assert scores.argmax() == 1


def test_default_follows_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KERNELEVOLVE_EMBEDDING", raising=False)
    assert isinstance(default(), MiniLM)
    assert default().model_id == DEFAULT_MODEL
    monkeypatch.setenv("KERNELEVOLVE_EMBEDDING", "/nowhere/model")
    assert default().model_id == "/nowhere/model"


@pytest.mark.slow
def test_missing_model_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(EmbeddingModelError, match="cannot be loaded"):
        SentenceTransformerEmbedder("/nowhere/model").encode(["x"])


def test_gelu_is_accurate() -> None:
    from math import erf, sqrt

    x = np.linspace(-9, 9, 4001, dtype=np.float32)
    exact = np.array([v * 0.5 * (1 + erf(v / sqrt(2))) for v in x.astype(float)])
    assert np.abs(gelu(x.copy()) - exact).max() < 1e-6
