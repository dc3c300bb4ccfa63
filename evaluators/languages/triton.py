"""Triton for GPUs: the candidate is plain Python with ``@triton.jit`` kernels, compiled just in time where the device is present.

Where it is absent, numerics run in Triton's interpreter and launches are compiled ahead of time (``triton_ahead``).
"""

from __future__ import annotations

import ast
from dataclasses import replace

from evaluators.errors import SourceRejected
from evaluators.languages.base import Build, Language, Review
from evaluators.languages.review import dotted, parse, review
from evaluators.languages.sightings import in_python
from evaluators.target import Target


def check(source: str) -> Review:
    """Static review; raises :class:`SourceRejected`, also where the module holds no Triton kernel."""
    found, tree = review(source), parse(source)
    if not _kernels(tree):
        raise SourceRejected(
            "the module defines no @triton.jit function: a candidate in Triton must launch a kernel of its own"
        )
    return replace(found, sightings=in_python(tree))


def build(source: str, target: Target) -> Build:
    """Nothing to compile before the worker runs it."""
    return Build(source)


def _kernels(tree: ast.Module) -> list[str]:
    """Names of functions with a ``triton.jit`` decorator (plain, called, or imported as ``jit``)."""
    names = []
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            for decorator in node.decorator_list:
                target = decorator.func if isinstance(decorator, ast.Call) else decorator
                if dotted(target) in ("triton.jit", "jit", "triton.language.jit"):
                    names.append(node.name)
    return names


LANGUAGE = Language("triton", check, build)
