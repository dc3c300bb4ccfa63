"""Exemplars: schedule skeletons in ``corpora/kernels/<language>/<name>.md``.

One document, two readers: a language model reads it as an example, the built-in proposer instantiates its skeleton.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any

from knowledge.errors import ExemplarNotFoundError, ExpressionError, FrontMatterError
from knowledge.expression import evaluate, parsed
from knowledge.frontmatter import parse
from knowledge.knobs import Knob, Value, parse_knobs
from knowledge.moves import Move, parse_moves

_SKELETON = re.compile(
    r"^(?P<fence>`{3,})[ \t]*skeleton[ \t]*\n(?P<text>.*?)^(?P=fence)[ \t]*$\n?", re.MULTILINE | re.DOTALL
)


@dataclass(frozen=True)
class Exemplar:
    """A schedule skeleton with its space. ``skeleton`` is a Jinja2 template (StrictUndefined) whose holes the
    language's emitter fills.

    ``patterns`` are names of ``evaluators.ir.pattern.PATTERNS``; ``constraints`` are expressions over knobs and the
    emitter's kernel facts (see :mod:`knowledge.expression`); ``body`` is the document's prose without the skeleton;
    ``document`` is its path as passages cite it.
    """

    name: str
    language: str
    patterns: tuple[str, ...]
    targets: tuple[str, ...]
    knobs: Mapping[str, Knob]
    constraints: tuple[str, ...]
    skeleton: str
    title: str
    body: str
    results: tuple[Any, ...] = ()
    moves: tuple[Move, ...] = ()
    operators: tuple[str, ...] = ()
    document: str = field(default="", compare=False)

    @property
    def defaults(self) -> dict[str, Value]:
        """Default value of every knob."""
        return {name: knob.default for name, knob in self.knobs.items()}

    def violated(self, knobs: Mapping[str, Any], facts: Mapping[str, Any]) -> list[str]:
        """The constraints that do not hold (empty: the knobs are admissible).

        Raises :class:`knowledge.errors.ExpressionError` naming the document where a constraint reads a name that is
        neither knob nor fact.
        """
        names = {**facts, **knobs}
        try:
            return [c for c in self.constraints if not evaluate(c, names)]
        except ExpressionError as error:
            raise ExpressionError(f"{self.document or self.name}: constraints: {error}") from None

    def admits(self, knobs: Mapping[str, Any], facts: Mapping[str, Any]) -> bool:
        """Whether ``knobs`` lie in the space and satisfy every constraint. Raises like :meth:`violated`."""
        inside = all(name in knobs and knobs[name] in knob.values for name, knob in self.knobs.items())
        return inside and not self.violated(knobs, facts)


def load(path: str | Path) -> Exemplar:
    """Exemplar at a file path, or at a document path as passages cite it (``corpora/kernels/cpp/row_norm.md``).

    Raises ``ExemplarNotFoundError`` or ``FrontMatterError``.
    """
    document = str(path)
    inside = document.removeprefix("corpora/")
    candidates = (Path(document), Path(str(files("corpora").joinpath(inside))))
    for file in candidates:
        if file.is_file():
            return parse_exemplar(file.read_text(encoding="utf-8"), document)
    raise ExemplarNotFoundError(f"{document}: no such exemplar, neither as a file nor inside the packaged corpora")


def load_all(folder: str | Path | None = None) -> list[Exemplar]:
    """Every exemplar under ``folder`` (default: the packaged ``corpora/kernels``), sorted by document path."""
    if folder is not None:
        return [load(p) for p in sorted(Path(folder).rglob("*.md")) if _is_exemplar(p)]
    root = Path(str(files("corpora")))
    found = sorted((root / "kernels").rglob("*.md"))
    return [load("corpora/" + p.relative_to(root).as_posix()) for p in found if _is_exemplar(p)]


def _is_exemplar(path: Path) -> bool:
    return "exemplar" in parse(path.read_text(encoding="utf-8"), str(path)).fields


def parse_exemplar(text: str, document: str) -> Exemplar:
    """Exemplar from a document's text; ``document`` names it in errors. Raises ``FrontMatterError``."""
    front = parse(text, document)
    fields = front.fields
    for name in ("kind", "exemplar", "language", "patterns", "knobs"):
        if name not in fields:
            raise FrontMatterError(document, name, "missing; an exemplar needs it")
    if fields["kind"] != "kernel":
        raise FrontMatterError(document, "kind", f"an exemplar is of kind 'kernel', not {fields['kind']!r}")
    skeletons = list(_SKELETON.finditer(front.body))
    if len(skeletons) != 1:
        raise FrontMatterError(document, "body", f"expected one fenced block ```skeleton, found {len(skeletons)}")
    knobs = parse_knobs(fields["knobs"], document)
    constraints = tuple(fields.get("constraints", ()))
    for i, constraint in enumerate(constraints):
        try:
            parsed(constraint)
        except ExpressionError as error:
            raise FrontMatterError(document, f"constraints[{i}]", str(error)) from None
    results = fields.get("results", [])
    if not isinstance(results, list):
        raise FrontMatterError(document, "results", f"expected a list, got {results!r}")
    hole = skeletons[0]
    return Exemplar(
        name=fields["exemplar"],
        language=fields["language"],
        patterns=tuple(fields["patterns"]),
        targets=tuple(fields["targets"]),
        knobs=knobs,
        constraints=constraints,
        skeleton=hole["text"],
        title=fields["title"],
        body=(front.body[: hole.start()] + front.body[hole.end() :]).strip() + "\n",
        results=tuple(results),
        moves=parse_moves(fields.get("moves"), document),
        operators=tuple(fields.get("operators", ())),
        document=document,
    )
