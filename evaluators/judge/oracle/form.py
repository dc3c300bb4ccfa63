"""Whether a result has the reference's form: structure, shapes, dtypes, devices, and memory of its own for each element."""

from __future__ import annotations

from typing import Any

from evaluators.judge.memory import wire
from evaluators.judge.oracle import cases


def form_problem(case: cases.Case, reply: dict[str, Any], device: str) -> tuple[str, str] | None:
    """Status and message where a result's form, shapes, dtypes or devices are not the reference's; the reply is not trusted further."""
    try:
        if "unsupported" in reply:
            return "wrong_dtype", str(reply["unsupported"])[:300]
        if wire.skeleton(reply["tree"]) != wire.skeleton(case.result_tree):
            return (
                "wrong_shape",
                f"forward's result has another form than the reference's ({len(case.outputs)} tensor(s))",
            )
        for index, (found, want) in enumerate(zip(reply["outputs"], case.outputs, strict=True)):
            shape, dtype = list(want.shape), wire.name(want.dtype)
            if found["shape"] != shape:
                return "wrong_shape", f"output {index} has shape {found['shape']}, expected {shape}"
            if found["dtype"] != dtype:
                return "wrong_dtype", f"output {index} has dtype {found['dtype']}, expected {dtype}"
            if found["device"] != device:
                return "wrong_dtype", f"output {index} is on {found['device']}, expected {device}"
            if "stride" in found and wire.overlaps(shape, found["stride"]) and not case.overlapping[index]:
                return (
                    "wrong_shape",
                    f"output {index} is a view with strides {found['stride']} in which elements share memory (expand?); the "
                    "reference's elements each have their own: write them all",
                )
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError):
        return "tampering", "the worker's reply about its outputs is malformed"
    return None
