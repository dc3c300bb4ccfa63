"""Read what the user names on the command line, refusing with one clear line."""

from __future__ import annotations

import ast
from pathlib import Path

from agent.cli.exits import CommandError


def read_kernel(path: Path) -> str:
    """Source of a kernel file, C++ with its loader.

    Raises CommandError where it cannot be read, does not parse, defines no ModelNew, or holds no kernel.
    """
    try:
        source = path.read_text(encoding="utf-8")
    except OSError as error:
        raise CommandError(f"{path}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise CommandError(f"{path}: is not UTF-8 text (byte {error.start})") from error
    try:
        module = ast.parse(source)
    except (SyntaxError, ValueError) as error:
        where = f"line {error.lineno}: " if isinstance(error, SyntaxError) and error.lineno else ""
        what = error.msg if isinstance(error, SyntaxError) else str(error)
        raise CommandError(f"{path}: {where}not Python: {what}") from error
    if not any(isinstance(s, ast.ClassDef) and s.name == "ModelNew" for s in module.body):
        raise CommandError(
            f"{path}: defines no class ModelNew; a kernel file is a module with `class ModelNew(torch.nn.Module)`"
        )
    from evaluators import languages
    from evaluators.errors import SourceRejected

    try:
        return languages.finished(source, languages.guess(source))
    except SourceRejected as error:
        raise CommandError(f"{path}: {error}") from error
