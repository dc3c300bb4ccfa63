"""What the machine refuses (no room on the disk, a folder that cannot be written, a damaged file) in words a person can act on."""

from __future__ import annotations

import errno
import os

_ADVICE = {
    errno.ENOSPC: "make room there; `kernelevolve resume` goes on with a run",
    errno.EDQUOT: "make room there; `kernelevolve resume` goes on with a run",
    errno.EFBIG: "a limit on the size of files is set (ulimit -f); raise it",
    errno.EROFS: "choose a folder that can be written with {home}",
    errno.EACCES: "allow it, or choose another folder with {home}",
    errno.EPERM: "allow it, or choose another folder with {home}",
    errno.EMFILE: "raise the limit (ulimit -n)",
    errno.ENFILE: "close other programs",
    errno.ENOMEM: "close other programs, or use smaller sizes",
    errno.EIO: "look after the disk",
    errno.ENAMETOOLONG: "use a shorter name or folder",
}
_HOME = "choose another data folder with {home}"
_DATABASE = {
    "database or disk is full": _ADVICE[errno.ENOSPC],
    "disk I/O error": "look whether the disk is full or broken",
    "readonly database": _ADVICE[errno.EROFS],
    "unable to open database file": _ADVICE[errno.EACCES],
    "database is locked": "another process works on it; try again when it has finished",
    "disk image is malformed": "the file is damaged: restore it from a backup, or move it away to start afresh",
    "file is not a database": "the file is damaged: restore it from a backup, or move it away to start afresh",
}


def refusal(error: BaseException) -> str | None:
    """One line: what, why, what to do. None for an error that is not the machine's."""
    from evaluators.home import VARIABLE, home

    if isinstance(error, OSError) and error.errno is not None:
        place = os.fsdecode(error.filename) if isinstance(error.filename, str | bytes) else ""
        advice = _ADVICE.get(error.errno)
        if advice is None and place and place.startswith(str(home())):
            advice = _HOME
        if advice is None:
            return None
        what = (error.strerror or type(error).__name__).lower()
        return f"{place or f'writing below {home()}'}: {what}; {advice.format(home=VARIABLE)}"
    if type(error).__name__ in ("OperationalError", "DatabaseError"):
        text = str(getattr(error, "orig", None) or error)
        found = next((part for part in _DATABASE if part in text), None)
        if found is not None:
            return f"run store in {home()}: {found}; {_DATABASE[found].format(home=VARIABLE)}"
    return None
