"""The knowledge base: ingest and search."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from agent.cli.exits import USAGE, CommandError, one_line
from agent.figures import count

if TYPE_CHECKING:
    from retrieval.passage import Passage
    from retrieval.retrieve import Retriever

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
    """Load documents into the knowledge base.

    Unchanged content costs nothing and is never stored twice. What cannot be read is named and skipped, and the exit code is 2.
    """
    _check_kinds([kind] if kind else [])
    for path in paths or []:
        if not path.exists():
            raise CommandError(f"{path}: no such file or folder")
    _check_family(target)
    from agent.cli.console import Activity, print_json, stderr, stdout
    from knowledge.ingest import ingest as load
    from knowledge.store import KnowledgeStore

    store = KnowledgeStore.open()
    with Activity(stderr(), "reading") as activity:
        summary = load(paths, store, target=target, kind=kind, progress=activity.progress, dry_run=dry_run)
    if as_json:
        print_json(asdict(summary) | {"dry_run": dry_run})
    else:
        verb = "would store" if dry_run else "stored"
        changes = f"{summary.replaced} of them replaced, {summary.removed} removed, {summary.unchanged} unchanged"
        stdout().print(
            f"{verb} {count(summary.documents, 'document')} as {count(summary.chunks, 'passage')}; {changes} ({summary.seconds:.1f} s)",
            soft_wrap=True,
        )
    for skipped in summary.skipped:
        print(f"error: skipped {one_line(skipped.reason)}", file=sys.stderr)
    if summary.skipped:
        raise typer.Exit(USAGE)


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
    """Ask the knowledge base.

    Shows ranked passages, each with its source and why it ranked: `meaning` is the likeness of its text to the query (cosine, 1 is the
    same), `words` how many rare words they share (BM25, 0 is none), `fit` what its front matter says for or against it with this target and
    language. The order comes from the three ranks together. Passages that are near the query in neither meaning nor words are not shown.
    """
    if not query.strip():
        raise CommandError("the query is empty; say what to look for")
    _check_kinds(kind or [])
    families: tuple[str, ...] = ()
    if target is not None:
        from evaluators import targets

        families = targets.load(target).families
    from agent.cli.console import print_json, stdout
    from knowledge.store import KnowledgeStore
    from retrieval.passage import Query
    from retrieval.relevance import relevant
    from retrieval.retrieve import Retriever

    retriever = Retriever(KnowledgeStore.open())
    if language is not None:
        _check_language(language, retriever)
    question = Query(
        text=query,
        families=families,
        languages=(language,) if language else (),
        kinds=tuple(kind or ()),
        phase="search",
    )
    # More than asked for: what is kept is chosen by relevance, not by rank alone.
    found = [p for p in retriever.retrieve(question, k=4 * k + 20) if relevant(p)][:k]
    unknown = retriever.unknown(query)
    if as_json:
        print_json([asdict(p) for p in found])
        return
    console = stdout()
    if unknown and found:
        console.print(f"[dim]no passage holds {_listed(unknown)}[/]\n", soft_wrap=True)
    if not found:
        words = f"; no passage holds {_listed(unknown)}" if unknown else ""
        narrowed = ", or leave out --target, --language or --kind" if target or language or kind else ""
        console.print(
            f"Nothing relevant found{words}. Try other words{narrowed}; `kernelevolve ingest PATH` adds documents.",
            soft_wrap=True,
        )
    for rank, passage in enumerate(found, 1):
        _show(console, rank, passage, full)


def _show(console: object, rank: int, passage: Passage, full: bool) -> None:
    from rich.console import Console
    from rich.markup import escape

    from retrieval.explain import why

    assert isinstance(console, Console)
    console.print(f"[bold]{rank}. {escape(passage.title)}[/]  [dim]{passage.kind}  {why(passage)}[/]")
    console.print(f"   [cyan]{escape(passage.document)}[/] {escape(passage.locator)}  [dim]{passage.chunk_id[:12]}[/]")
    lines = passage.text.strip().splitlines()
    shown = lines if full else lines[:6]
    for line in shown:
        console.print(f"   {line}", markup=False, soft_wrap=True)
    if len(lines) > len(shown):
        console.print(f"   [dim]… {len(lines) - len(shown)} more lines (--full)[/]")
    console.print()


def _listed(words: list[str]) -> str:
    return ", ".join(f"'{word}'" for word in words)


def _check_language(name: str, retriever: Retriever) -> None:
    """Refuse a language that neither this program writes nor any document is about: its filter would hide without a word."""
    from evaluators import languages
    from evaluators.suggest import suggest

    known = sorted({*languages.names(), *(x for c in retriever.store.snapshot().chunks for x in c.languages)})
    if name not in known:
        raise CommandError(f"unknown language {name!r}; {suggest(name, known)}")


def _check_kinds(kinds: list[str]) -> None:
    for kind in kinds:
        if kind not in KINDS:
            raise CommandError(f"unknown kind {kind!r}; it is one of {', '.join(KINDS)}")


def _check_family(name: str | None) -> None:
    """Refuse a target or family no target belongs to: nothing would ever find the documents."""
    if name is None:
        return
    from evaluators import targets

    known = {f for t in targets.names() for f in targets.load(t).families} | {"any"}
    if name not in known:
        raise CommandError(f"unknown target or family {name!r}; known are {', '.join(sorted(known))}")
