"""What a misspelt name probably meant."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

_SPOKEN = {
    "fp16": "float16", "half": "float16", "f16": "float16", "bf16": "bfloat16", "fp32": "float32", "f32": "float32",
    "single": "float32", "float": "float32", "fp64": "float64", "f64": "float64", "double": "float64", "tf32": "tensor_float32",
    "fp8": "float8", "gaussian": "normal", "random": "uniform", "cuda": "gpu",
}  # fmt: skip
"""What people call things, where that resembles another name more or none at all."""


def suggest(word: str, known: Iterable[str]) -> str:
    """``did you mean 'x'?`` where something close is known, else the list of what is.

    Close is a usual short name (fp16), a name of which the word is a part (h100), and then one with nearly the same letters.
    """
    options = list(known)
    plain = word.lower()
    part = plain.replace("_", "-")
    parts = [o for o in options if len(part) > 2 and part in o.lower().replace("_", "-").split("-")]
    close = (
        [o for o in options if o in (plain, _SPOKEN.get(plain))]
        or parts
        or difflib.get_close_matches(word, options, n=1)
    )
    return f"did you mean {' or '.join(map(repr, close))}?" if close else f"known are {', '.join(options)}"
