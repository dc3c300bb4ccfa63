"""A small knowledge base: exemplars of three patterns in two languages, guidance, hardware and constraints for two
targets.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from knowledge.ingest import ingest
from knowledge.store import KnowledgeStore
from tests.knowledge.hashing import HashingEmbedder

PATTERNS = ("row_norm", "scan", "pointwise")
FAMILY = {"cpp": "cpu", "triton": "gpu"}


def write(folder: Path) -> None:
    """The documents."""
    for language, family in FAMILY.items():
        for pattern in PATTERNS:
            for variant in ("a", "b"):
                _put(
                    folder / "kernels" / language / f"{pattern}_{variant}.md",
                    f"title: {pattern} {variant}\nkind: kernel\ntargets: [{family}]\nlanguage: {language}\n"
                    f"exemplar: {pattern}_{variant}\npatterns: [{pattern}]\nknobs: {{}}\n",
                    f"A schedule of variant {variant}.\n\n```skeleton\nloop {variant}\n```\n",
                )
        for topic, diagnosis in (("registers", "spill"), ("bandwidth", "memory_bound"), ("masks", "mismatch")):
            _put(
                folder / "guidance" / language / f"{topic}.md",
                f"title: About {topic}\nkind: guidance\ntargets: [{family}]\nlanguages: [{language}]\n"
                f"diagnoses: [{diagnosis}]\nmoves:\n  - when: {{diagnosis: {diagnosis}, language: {language}}}\n"
                f"    do: {{knob: K, multiply: 2}}\n    why: it helps\n",
                f"# {topic}\n\nAdvice on {topic}.\n\n## More\n\nMore on {topic}.\n\n## Still\n\nStill more on {topic}.\n",
            )
        _put(
            folder / "guidance" / language / "start.md",
            f"title: First settings\nkind: guidance\ntargets: [{family}]\nlanguages: [{language}]\n"
            f"moves:\n  - when: {{phase: draft, language: {language}, pattern: scan}}\n    do: {{knob: K, set: 4}}\n    why: measured\n",
            "Where to start.\n",
        )
        for name in ("memory", "units"):
            _put(
                folder / "hardware" / family / f"{name}.md",
                f"title: {family} {name}\nkind: hardware\ntargets: [{family}]\n",
                f"# Facts\n\nFigures of {name}.\n",
            )
    for name in ("imports", "state"):
        _put(
            folder / "constraints" / f"{name}.md",
            f"title: {name}\nkind: constraints\ntargets: [any]\n",
            f"Rules on {name}.\n",
        )


def _put(path: Path, front: str, body: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"---\n{front}---\n{body}")


@pytest.fixture(scope="session")
def store(tmp_path_factory: pytest.TempPathFactory) -> KnowledgeStore:
    """The documents, ingested once."""
    folder = tmp_path_factory.mktemp("knowledge")
    write(folder / "c")
    store = KnowledgeStore.open(folder / "store", HashingEmbedder())
    assert not ingest([folder / "c"], store).skipped
    return store
