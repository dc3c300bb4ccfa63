"""The judge without a search around it: one file, one verdict."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from evaluators import languages
from evaluators.candidate import Candidate
from evaluators.judge.judge import Judge
from evaluators.judge.settings import JudgeSettings
from evaluators.verdict import Evaluation


def judge_file(
    candidate_path: str | Path,
    problem_ref: str,
    target: str = "auto",
    *,
    language: str | None = None,
    dtype: str | None = None,
    settings: JudgeSettings | None = None,
    timed: bool = True,
    on_wait: Callable[[str], None] | None = None,
) -> Evaluation:
    """Judge the candidate in a file against a problem (anything ``evaluators.spec.load`` accepts).

    A C++ candidate may come without its loader. Raises the package's named errors where file, problem (its reference included) or
    target are no good; a bad candidate is a verdict, not an error.
    """
    from evaluators import spec as specs
    from evaluators import targets
    from evaluators.errors import SourceRejected, SpecError
    from evaluators.trial import tried

    path = Path(candidate_path)
    try:
        source = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise SpecError(f"{path}: the candidate cannot be read: {error}") from None
    place = targets.load(target)
    spec = specs.load(problem_ref, dtype=dtype, profile="cpu" if place.kind == "cpu" else "gpu")
    try:
        language = language or languages.guess(source)
    except SourceRejected as error:
        return Evaluation(path.stem, place.name, "source_rejected", 0.0, message=str(error))
    tried(spec, place)  # a reference that does not work is no verdict on the candidate
    candidate = Candidate(path.stem, language, languages.finished(source, language), "manual")
    with Judge(spec, place, settings, on_wait) as judge:
        return judge.confirm(candidate) if timed else judge.evaluate(candidate, timed=False)
