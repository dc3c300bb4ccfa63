"""A kernel of the corpora: a Markdown file with a spec, a candidate, and one paragraph that says what is honest about it.

The blocks of a file are ``yaml`` (the spec), or ``python spec`` (a KernelBench file); ``cpp`` (the text of ``kernel.cpp``), where the
kernel is native; and ``python`` (the module without SOURCES and loader, or the whole of a Triton module).
"""

from __future__ import annotations

import hashlib
import re
import tempfile
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from evaluators import targets
from evaluators.candidate import Candidate
from evaluators.languages import cpp
from evaluators.spec import load
from evaluators.spec.kernel_spec import KernelSpec
from evaluators.target import Target

ABSENT_GPU = "nvidia-h200"
"""What Triton kernels are compiled for and interpreted in place of, where this machine has no GPU."""
_BLOCK = re.compile(r"^```(yaml about|yaml|python spec|cpp|python)\n(.*?)^```$", re.M | re.S)


class EntryError(Exception):
    """A file of the corpora is not of the form described above."""


@dataclass(frozen=True)
class Entry:
    """One kernel with its spec: what is ``honest`` about it, its module's text, and its C++ text (``None`` for Triton)."""

    name: str
    honest: str
    spec_text: str
    kernelbench: bool
    python: str
    native: str | None

    @property
    def language(self) -> str:
        """``cpp`` or ``triton``."""
        return "triton" if self.native is None else "cpp"

    @property
    def digest(self) -> str:
        """Content hash of spec and kernel: a result is kept for as long as neither changes."""
        text = "\0".join([self.spec_text, self.python, self.native or ""])
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    @cached_property
    def spec(self) -> KernelSpec:
        """The spec in normal form, at the sizes of a CPU."""
        with tempfile.TemporaryDirectory(prefix="corpus-") as folder:
            path = Path(folder) / f"{self.name}.{'py' if self.kernelbench else 'yaml'}"
            path.write_text(self.spec_text)
            return replace(load(str(path)), origin="")

    def source(self) -> str:
        """The candidate module, complete."""
        return self.python if self.native is None else cpp.wrap({"kernel.cpp": self.native}, self.python)

    def candidate(self) -> Candidate:
        """The kernel as the judge takes it."""
        return Candidate(self.name, self.language, self.source(), "manual")

    def target(self) -> Target:
        """This machine's CPU for C++; for Triton this machine's GPU, or one that is absent where it has none."""
        if self.native is not None:
            return targets.load("cpu-x86-64")
        here = targets.load("auto")
        return here if here.kind == "gpu" else targets.load(ABSENT_GPU)


def parts(text: str) -> tuple[str, dict[str, str]]:
    """The paragraph before the first block, and the blocks by what they hold."""
    return " ".join(text.partition("```")[0].split()), dict(_BLOCK.findall(text))


def read(path: Path) -> Entry:
    """The entry in a file. Raises :class:`EntryError`."""
    prose, blocks = parts(path.read_text())
    kernelbench = "python spec" in blocks
    if not prose or "python" not in blocks or kernelbench == ("yaml" in blocks):
        raise EntryError(f"{path}: write a paragraph, one block 'yaml' or 'python spec', and a block 'python'")
    spec = blocks["python spec"] if kernelbench else blocks["yaml"]
    return Entry(path.stem, prose, spec, kernelbench, blocks["python"], blocks.get("cpp"))


def read_all(folder: Path) -> list[Entry]:
    """Every entry of a folder, by name."""
    return [read(path) for path in sorted(folder.glob("*.md"))]
