"""The knowledge base: ingest and search."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from agent.cli.exits import CommandError

if TYPE_CHECKING:
    from retrieval.passage import Passage

KINDS = ("hardware", "constraints", "guidance", "kernel", "trace", "lesson")


def register(app: typer.Typer) -> None:
    """Add this group's commands."""
    app.command()(ingest)
    app.command()(search)


def ingest(
    paths: Annotated[
        list[Path] | None,
        typer.Argument(help="Files or folders; none means the corpus that ships.", show_default=False),
    ] = None,
    target: Annotated[
        str | None, typer.Option(help="Target or family the documents are about, where they do not say.")
    ] = None,
    kind: Annotated[str | None, typer.Option(help=f"{', '.join(KINDS)}: where the documents do not say.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would change; write nothing.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON on stdout.")] = False,
) -> None:
    """Load documents into the knowledge base. Unchanged content costs nothing and is never stored twice."""
    _check_kinds([kind] if kind else [])
    for path in paths or []:
        if not path.exists():
            raise CommandError(f"{path}: no such file or folder")
    from agent.cli.console import print_json, stderr, stdout
    from knowledge.corpus import default_paths
    from knowledge.ingest import ingest as load
    from knowledge.store import KnowledgeStore

    store = KnowledgeStore.open()
    console = stderr()
    with console.status("reading") if console.is_terminal else _silence() as status:

        def progress(*about: object) -> None:
            if status is not None:
                status.update(" ".join(str(a) for a in about))

        summary = load(paths or default_paths(), store, target=target, kind=kind, progress=progress, dry_run=dry_run)
    if as_json:
        print_json(asdict(summary))
    else:
        stdout().print(f"{'would be: ' if dry_run else ''}{summary}", markup=False)


def search(
    query: Annotated[str, typer.Argument(help="What to look for, in words or code.", show_default=False)],
    target: Annotated[str | None, typer.Option(help="Only what applies to this target.")] = None,
    language: Annotated[str | None, typer.Option(help="Only what applies to this language.")] = None,
    kind: Annotated[
        list[str] | None,
        typer.Option(help=f"Only this kind, one of {', '.join(KINDS)}; may be repeated.", show_default=False),
    ] = None,
    k: Annotated[int, typer.Option("-k", min=1, max=100, help="How many passages.")] = 6,
    full: Annotated[bool, typer.Option("--full", help="Whole passages instead of their beginnings.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON on stdout.")] = False,
) -> None:
    """Ask the knowledge base: ranked passages, each with its source and why it ranked."""
    if not query.strip():
        raise CommandError("the query is empty; say what to look for")
    _check_kinds(kind or [])
    families: tuple[str, ...] = ()
    if target is not None:
        import evaluators.targets as catalogue

        families = catalogue.load(target).families
    from retrieval.retrieve import Retriever

    from agent.cli.console import print_json, stdout
    from knowledge.store import KnowledgeStore
    from retrieval.passage import Query

    question = Query(text=query, families=families, languages=(language,) if language else (), kinds=tuple(kind or ()))
    found = Retriever(KnowledgeStore.open()).retrieve(question, k=k)
    if as_json:
        print_json([asdict(p) for p in found])
        return
    console = stdout()
    if not found:
        console.print(
            "Nothing found. `kernelevolve ingest` loads the corpus that ships; `kernelevolve doctor` shows the store's state."
        )
    for rank, passage in enumerate(found, 1):
        _show(console, rank, passage, full)


def _show(console: object, rank: int, passage: Passage, full: bool) -> None:
    from rich.console import Console
    from rich.markup import escape

    assert isinstance(console, Console)
    scores = "  ".join(f"{name} {value:.3f}" for name, value in passage.scores.items())
    console.print(f"[bold]{rank}. {escape(passage.title)}[/]  [dim]{passage.kind}  {passage.score:.3f}[/]")
    console.print(
        f"   [cyan]{escape(passage.document)}[/] {escape(passage.locator)}  [dim]{passage.chunk_id[:12]}  {scores}[/]"
    )
    lines = passage.text.strip().splitlines()
    shown = lines if full else lines[:6]
    for line in shown:
        console.print(f"   {line}", markup=False, soft_wrap=True)
    if len(lines) > len(shown):
        console.print(f"   [dim]… {len(lines) - len(shown)} more lines (--full)[/]")
    console.print()


def _check_kinds(kinds: list[str]) -> None:
    for kind in kinds:
        if kind not in KINDS:
            raise CommandError(f"unknown kind {kind!r}; it is one of {', '.join(KINDS)}")


def _silence() -> object:
    from contextlib import nullcontext

    return nullcontext()
