"""What users run to see whether the judge works on their machine."""

from __future__ import annotations

from evaluators.judge import selfcheck


def test_every_probe_gets_its_verdict_on_this_processor() -> None:
    assert selfcheck.main(["--no-compile", "--target", "cpu-x86-64"]) == 0
