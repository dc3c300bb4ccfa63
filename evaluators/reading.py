"""Read YAML strictly: a repeated key is an error, ``1e-5`` is a number, and mistakes are reported in one line."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

from evaluators.errors import EvaluatorError, SpecError


class _Loader(yaml.SafeLoader):
    """SafeLoader that refuses repeated keys. PyYAML keeps the last one silently."""


def _mapping(loader: _Loader, node: yaml.MappingNode) -> dict[Any, Any]:
    seen: set[Any] = set()
    for key_node, _ in node.value:
        key = loader.construct_object(key_node, deep=True)
        if not isinstance(key, str | int | float | bool):
            raise yaml.constructor.ConstructorError(None, None, "a key is not plain text", key_node.start_mark)
        if key in seen:
            raise yaml.constructor.ConstructorError(None, None, f"key {key!r} appears twice", key_node.start_mark)
        seen.add(key)
    return loader.construct_mapping(node, deep=True)


_Loader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, _mapping)
# YAML 1.1 reads 1e-5 as text, as it has no dot.
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"^[-+]?\d+(\.\d*)?[eE][-+]?\d+$"), list("-+0123456789")
)


def read_yaml(path: Path, error: type[EvaluatorError] = SpecError) -> Any:
    """Content of a YAML file. Raises ``error`` with file, line and what is wrong."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as e:
        reason = e.strerror if isinstance(e, OSError) else "it is not UTF-8 text"
        raise error(f"{path}: cannot be read: {reason}") from e
    try:
        return yaml.load(text, Loader=_Loader)
    except yaml.MarkedYAMLError as e:
        mark = e.problem_mark or e.context_mark
        line = f"line {mark.line + 1}: " if mark else ""
        raise error(f"{path}: {line}{e.problem or e.context}; fix the YAML there") from e
    except yaml.YAMLError as e:
        raise error(f"{path}: is not YAML: {' '.join(str(e).split())}") from e
    except (RecursionError, MemoryError) as e:
        raise error(f"{path}: is nested too deeply to be read; write it flatter") from e
