"""Specs with one fault each, small enough that a whole examination takes a fraction of a second."""

from __future__ import annotations

from typing import Any

from evaluators.lint.checks import Asked, examine_all
from evaluators.lint.finding import Finding
from evaluators.spec.kernel_spec import InputSpec, KernelSpec

X = InputSpec("x", (16, 24))


def planted(body: str, *inputs: InputSpec, init: str = "", args: str = "", **fields: Any) -> KernelSpec:
    """A spec whose ``forward`` is ``body`` and whose constructor also runs ``init``."""
    inputs = inputs or (X,)
    names = args or ", ".join(i.name for i in inputs)
    lines = [
        "import torch",
        "import torch.nn as nn",
        "import torch.nn.functional as F",
        "",
        "",
        "class Model(nn.Module):",
        "    def __init__(self):",
        "        super().__init__()",
        *(f"        {line}" for line in init.splitlines()),
        "",
        f"    def forward(self, {names}):",
        *(f"        {line}" for line in body.splitlines()),
    ]
    return KernelSpec("planted", "yaml", "\n".join(lines) + "\n", inputs=inputs, **fields)


def problem(body: str, inputs: str, init: str = "pass", **fields: Any) -> KernelSpec:
    """The same as a KernelBench file, whose ``get_inputs`` returns ``inputs``."""
    spec = planted(body, init=init)
    text = spec.reference + f"\n\ndef get_inputs():\n    return [{inputs}]\n\n\ndef get_init_inputs():\n    return []\n"
    return KernelSpec("problem", "kernelbench", text, inputs=None, mode="train", **fields)


class Said:
    """What an examination in this process said."""

    def __init__(self, spec: KernelSpec, memory: int = 0, seconds: float = 60.0, repair: bool = True) -> None:
        self.findings: list[Finding] = []
        self.repair = ""
        self.repaired: KernelSpec | None = None
        self.remaining: list[Finding] = []
        self.sizes: dict[str, Any] = {}
        examine_all(Asked(spec, "a device", memory, seconds, repair=repair), self._take)

    def _take(self, message: dict[str, Any]) -> None:
        if "finding" in message:
            self.findings.append(Finding(**message["finding"]))
        self.sizes = message.get("sizes", self.sizes)
        if "repair" in message:
            self.repair = message["repair"]
            self.repaired = KernelSpec.from_json(message["spec"]) if "spec" in message else None
            self.remaining = [Finding(**f) for f in message.get("remaining", [])]

    def kinds(self, *severities: str) -> set[str]:
        """Kinds found, of the severities named (all where none is)."""
        return {f.kind for f in self.findings if not severities or f.severity in severities}

    def one(self, kind: str) -> Finding:
        """The first finding of a kind."""
        found = [f for f in self.findings if f.kind == kind]
        assert found, f"no {kind} among {[(f.kind, f.message) for f in self.findings]}"
        return found[0]
