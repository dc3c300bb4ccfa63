"""Exit codes, and the one place where an exception becomes a line on stderr and a code."""

from __future__ import annotations

import os
import sys

from agent.cli.world import refusal

OK = 0
FAILURE = 1
USAGE = 2
MISSING = 3
NONE_CORRECT = 4
INTERRUPTED = 5
NOBODY = 6
FLAWED = 7

LONGEST = 1000
"""Characters of an error line: what it quotes may be megabytes."""

MEANING = {
    OK: "done",
    FAILURE: "something failed inside (KERNELEVOLVE_DEBUG=1 shows the traceback), or another process works on the run",
    USAGE: "wrong usage: unknown option, spec, target, run or file, or one that cannot be read",
    MISSING: "something this needs is not here: a compiler, a device, an LLM endpoint that answers, room on the disk",
    NONE_CORRECT: "no correct candidate: none was found in the budget, the one judged is not correct, or there is nothing to generate",
    INTERRUPTED: "interrupted; `kernelevolve resume RUN` continues",
    NOBODY: "no candidate at all: every proposer failed; the last line says why (for a language model's endpoint it is 3)",
    FLAWED: "`lint` found an error in a spec",
}

_CODES = {
    "DataFolderError": USAGE,
    "SpecError": USAGE,
    "TargetError": USAGE,
    "UnknownLanguage": USAGE,
    "TraceError": USAGE,
    "SourceRejected": USAGE,
    "FrontMatterError": USAGE,
    "ExpressionError": USAGE,
    "ExemplarNotFoundError": USAGE,
    "UnreadableDocumentError": USAGE,
    "RunNotFound": USAGE,
    "CandidateNotFoundError": USAGE,
    "SettingsError": USAGE,
    "ArmsError": USAGE,
    "PlanError": USAGE,
    "EmptyStoreError": MISSING,
    "ObjectsUnavailableError": MISSING,
    "StoreDamagedError": MISSING,
    "StoreUnavailableError": MISSING,
    "ToolMissing": MISSING,
    "EmbeddingModelError": MISSING,
    "EndpointMissing": MISSING,
}
"""By class name, looked up along the class's bases, so that a package's errors need not be imported to be recognised."""

_PACKAGES = ("evaluators.", "knowledge.", "retrieval.", "agent.")


class CommandError(Exception):
    """What a command itself refuses: the message is the line the user reads, ``code`` the exit code."""

    def __init__(self, message: str, code: int = USAGE) -> None:
        super().__init__(message)
        self.code = code


class Interrupted(CommandError):
    """Ctrl-C during a run. ``run_id`` is None where the run had not been recorded yet."""

    def __init__(self, run_id: str | None) -> None:
        how = f"`kernelevolve resume {run_id}` continues where it stopped" if run_id else "nothing was recorded yet"
        super().__init__(f"interrupted; {how}", INTERRUPTED)


def code_of(error: BaseException) -> int | None:
    """The exit code of a named error, or of something the machine refuses; None where the error is neither (a bug)."""
    if isinstance(error, CommandError):
        return error.code
    if isinstance(error, KeyboardInterrupt):
        return INTERRUPTED
    for base in type(error).__mro__:
        if base.__name__ in _CODES and base.__module__.startswith(_PACKAGES):
            return _CODES[base.__name__]
    if type(error).__module__.startswith(_PACKAGES):
        return FAILURE
    return MISSING if refusal(error) else None


def one_line(text: str) -> str:
    """Text folded to a single line, so that scripts and logs can rely on one error being one line; of a long one both ends are kept."""
    line = " ".join(text.split())
    return line if len(line) <= LONGEST else f"{line[: LONGEST - 300]} […] {line[-290:]}"


def report(error: BaseException) -> int:
    """Print ``error: …`` on stderr and return the exit code. Re-raises instead when KERNELEVOLVE_DEBUG is set."""
    if os.environ.get("KERNELEVOLVE_DEBUG"):
        raise error
    code = code_of(error)
    message = refusal(error) or str(error)
    if code is None:
        code = FAILURE
        message = f"{type(error).__name__}: {message} (unexpected; KERNELEVOLVE_DEBUG=1 shows the traceback)"
    print(f"error: {one_line(message) or type(error).__name__}", file=sys.stderr)
    return code


def table() -> str:
    """The exit codes as aligned text, for the help and the documentation."""
    return "\n".join(f"  {code}  {meaning}" for code, meaning in MEANING.items())
