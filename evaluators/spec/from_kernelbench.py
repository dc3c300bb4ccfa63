"""A KernelBench problem file (``Model``, ``get_inputs``, ``get_init_inputs``) to the normal form."""

from __future__ import annotations

import ast
from pathlib import Path

from evaluators.errors import SpecError
from evaluators.spec.kernel_spec import FloatType, KernelSpec

NEEDED = ("Model", "get_inputs", "get_init_inputs")


def load_kernelbench(path: Path, dtype: FloatType | None = None) -> KernelSpec:
    """Normal form of a problem file. Nothing is executed. The model runs in train mode, as KernelBench runs it.

    Raises SpecError for a file that cannot be read or parsed, or that lacks one of the three definitions.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as e:
        reason = e.strerror if isinstance(e, OSError) else "it is not UTF-8 text"
        raise SpecError(f"{path}: cannot be read: {reason}") from e
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError) as e:
        line = f"line {e.lineno}: {e.msg}" if isinstance(e, SyntaxError) else str(e)
        raise SpecError(f"{path}: {line}; fix the Python there") from e
    defined = {n.name for n in tree.body if isinstance(n, ast.ClassDef | ast.FunctionDef)}
    for name in NEEDED:
        if name not in defined:
            raise SpecError(
                f"{path}: {name}: is not defined; a KernelBench file defines Model, get_inputs() and get_init_inputs() "
                "(write a YAML spec for a plain function)"
            )
    doc = next((ast.get_docstring(n) for n in tree.body if isinstance(n, ast.ClassDef) and n.name == "Model"), None)
    return KernelSpec(
        name=path.stem,
        source="kernelbench",
        reference=text,
        dtype=dtype or "float32",
        mode="train",
        description=(doc or "").strip().split("\n")[0],
        origin=str(path),
    )
