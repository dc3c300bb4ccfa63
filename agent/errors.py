"""Named errors of the agent package. Each message says what is wrong, where, and what to do."""

from __future__ import annotations

from collections.abc import Sequence

from evaluators.suggest import suggest


class AgentError(Exception):
    """Base of every error raised by this package."""


def is_named(error: BaseException) -> bool:
    """Whether an error is one of the project's own, whose message says what is wrong and what to do."""
    return type(error).__module__.startswith(("agent.", "retrieval.", "knowledge.", "evaluators."))


def told(error: BaseException) -> str:
    """An error in one line for the user: a named one in its own words, any other one as the fault inside that it is."""
    text = " ".join(str(error).split())
    if is_named(error):
        return text or type(error).__name__
    return f"a fault inside ({type(error).__name__}{': ' * bool(text)}{text}); KERNELEVOLVE_DEBUG=1 shows the traceback"


class EmitError(AgentError):
    """A loop-IR construct that a language emitter cannot express; the message names it."""


class ProposerError(AgentError):
    """A proposer could not propose. The message says what to do."""


class NothingToPropose(ProposerError):
    """A proposer can do nothing for this spec, however often it is asked. The message says why, and what to do instead."""


class EndpointMissing(ProposerError):
    """A language model was asked for and it is not said where it is, or which one."""


class ReplyError(ProposerError):
    """A language model's server did not give a whole reply. ``retry_after`` is in seconds; None where asking again would not help."""

    def __init__(self, message: str, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class SettingsError(AgentError):
    """A run setting has a value that cannot be used."""

    def __init__(self, name: str, value: object, need: str) -> None:
        super().__init__(f"setting {name}: {value!r} should be {need}")
        self.name = name


class UnknownSetting(SettingsError):
    """A run setting of a name that there is not."""

    def __init__(self, name: str, known: Sequence[str]) -> None:
        AgentError.__init__(self, f"unknown setting {name!r}; {suggest(name, known)}")
        self.name = name


class RunBusyError(AgentError):
    """Another process is working on the run."""

    def __init__(self, run_id: str) -> None:
        super().__init__(f"run {run_id} is being worked on by another process; wait for it, or end it and resume")


class RunStalled(AgentError):
    """The state machine came to a halt without ending the run."""

    def __init__(self, run_id: str, status: str) -> None:
        super().__init__(
            f"run {run_id} came to a halt while {status}; `kernelevolve resume {run_id}` goes on, and `kernelevolve show {run_id}` has "
            "what was found"
        )


class RunInterrupted(KeyboardInterrupt):
    """The user stopped a run; everything judged so far is kept."""

    def __init__(self, run_id: str) -> None:
        super().__init__(f"interrupted; `kernelevolve resume {run_id}` continues where it stopped")
        self.run_id = run_id
