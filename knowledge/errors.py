"""Named errors of the knowledge package. Each message says what is wrong, where, and what to do."""

from __future__ import annotations


class KnowledgeError(Exception):
    """Base of every error raised by this package."""


class FrontMatterError(KnowledgeError):
    """A document's front matter is malformed: ``file: field: what``."""

    def __init__(self, file: str, field: str, what: str) -> None:
        super().__init__(f"{file}: {field}: {what}")
        self.file, self.field, self.what = file, field, what


class ExpressionError(KnowledgeError):
    """A constraint expression cannot be parsed, uses something outside the allowed grammar, or cannot be evaluated."""


class ExemplarNotFoundError(KnowledgeError):
    """No exemplar document under that path or name."""


class StoreUnavailableError(KnowledgeError):
    """The run store's database cannot be opened."""

    def __init__(self, url: str, what: str) -> None:
        super().__init__(
            f"run store {url}: {what}; check KERNELEVOLVE_STORE and KERNELEVOLVE_HOME, and that the place can be written"
        )


class ObjectsUnavailableError(KnowledgeError):
    """The object store cannot be opened."""

    def __init__(self, url: str, what: str) -> None:
        super().__init__(
            f"object store {url}: {what}; set KERNELEVOLVE_OBJECTS to a folder or a URL whose fsspec package is installed, or unset it"
        )


class StoreVersionError(KnowledgeError):
    """The run store was written by a newer version of this program."""

    def __init__(self, found: int, known: int) -> None:
        super().__init__(
            f"the run store has schema version {found}, this program knows {known}: upgrade kernelevolve, or use another KERNELEVOLVE_HOME"
        )


class RunNotFound(KnowledgeError):
    """No run, or more than one, answers to that id."""

    def __init__(self, run_id: str, matches: tuple[str, ...] = ()) -> None:
        what = f"fits {len(matches)} runs ({', '.join(matches[:4])})" if matches else "is not in the store"
        super().__init__(f"run {run_id!r} {what}; `kernelevolve list` shows the runs")


class CandidateNotFoundError(KnowledgeError):
    """No candidate of that id."""

    def __init__(self, candidate_id: str) -> None:
        super().__init__(
            f"candidate {candidate_id!r} is not in the store; `kernelevolve show RUN` lists a run's candidates"
        )


class ObjectNotFoundError(KnowledgeError):
    """An object the store refers to is missing."""

    def __init__(self, ref: str, where: str) -> None:
        super().__init__(f"object {ref[:12]}… is not in {where}; was the objects folder moved away from its store.db?")


class ObjectDamagedError(KnowledgeError):
    """An object's bytes no longer match its reference."""

    def __init__(self, ref: str, path: str) -> None:
        super().__init__(
            f"object {ref[:12]}… at {path} is damaged (its hash differs); restore it from a backup or delete the run"
        )


class UnreadableDocumentError(KnowledgeError):
    """A file that cannot become a document: ``file: what``. The rest of a corpus is ingested."""

    def __init__(self, file: str, what: str) -> None:
        super().__init__(f"{file}: {what}")
        self.file, self.what = file, what


class EmbeddingModelError(KnowledgeError):
    """The store was filled with another embedding model, or the model cannot be loaded."""


class StoreDamagedError(KnowledgeError):
    """A file of the knowledge store cannot be read. Everything in it can be made again from the documents."""

    def __init__(self, place: str, what: str) -> None:
        super().__init__(
            f"knowledge store {place} is damaged ({what}); delete that folder and run `kernelevolve ingest` (and again for documents of "
            "your own)"
        )


class StoreBusyError(KnowledgeError):
    """Another process is writing to the store."""
