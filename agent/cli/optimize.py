"""optimize and resume: one search."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from agent.cli.options import Profile, Proposer
from agent.cli.runs import RUN, resolve

if TYPE_CHECKING:
    from agent.settings import RunSettings

QUIET = Annotated[bool, typer.Option("--quiet", "-q", help="No progress; only the result.")]
JSON = Annotated[
    bool, typer.Option("--json", help="Print the result as one JSON object on stdout; progress goes to stderr.")
]
SECONDS = Annotated[
    float | None, typer.Option(min=1, help="Stop searching after this many seconds.", show_default=False)
]
TARGET = Annotated[str, typer.Option(help="Target name (see `targets`); auto is the device of this machine.")]
DTYPE = Annotated[str | None, typer.Option(help="float32, bfloat16, float16 or float64, instead of the spec's own.")]
PROFILE = Annotated[
    Profile | None, typer.Option(help="Which of the spec's sizes.  [default: the target's kind]", show_default=False)
]
EVALUATIONS = Annotated[int, typer.Option("-n", "--evaluations", min=1, help="Candidates to judge at most.")]
PROPOSER = Annotated[
    Proposer, typer.Option(help="Who writes candidates; auto is builtin, and llm too where an endpoint is configured.")
]
MODEL = Annotated[str | None, typer.Option(help="Model the endpoint should use, for llm.", show_default=False)]
LANGUAGE = Annotated[
    list[str] | None,
    typer.Option(help="Write only in this language; may be repeated.  [default: the target's]", show_default=False),
]
POLICY = Annotated[str, typer.Option(help="What to go on from: greedy or beam.")]
MEMORY = Annotated[str, typer.Option(help="What a new candidate sees: inherit, siblings, combine or clean.")]
SEED = Annotated[int, typer.Option(min=0, help="Seed of everything random in the search.")]


def register(app: typer.Typer) -> None:
    """Add this group's commands."""
    app.command()(optimize)
    app.command()(resume)


def optimize(
    spec: Annotated[
        str,
        typer.Argument(
            metavar="SPEC",
            help="A spec that ships (see `specs`), a YAML spec, a KernelBench file, or an operator such as aten::softmax.int.",
            show_default=False,
        ),
    ],
    target: TARGET = "auto",
    dtype: DTYPE = None,
    profile: PROFILE = None,
    evaluations: EVALUATIONS = 24,
    seconds: SECONDS = None,
    policy: POLICY = "greedy",
    memory: MEMORY = "inherit",
    drafts: Annotated[int, typer.Option(min=1, help="Independent first candidates.")] = 4,
    proposer: PROPOSER = Proposer.auto,
    model: MODEL = None,
    language: LANGUAGE = None,
    start_from: Annotated[
        Path | None,
        typer.Option(
            metavar="KERNEL.py",
            help="An existing kernel to improve (docs/candidates.md has the form).",
            show_default=False,
        ),
    ] = None,
    seed: SEED = 0,
    as_json: JSON = False,
    quiet: QUIET = False,
) -> None:
    """Search for a correct kernel that is faster than PyTorch.

    The baseline is the stronger of PyTorch eager and torch.compile. Writes the best kernel and a report into the run's
    folder. Exits 0 where a correct kernel was found (the recommendation may still be to keep PyTorch), 4 where none was.
    """
    from agent.cli.reading import read_kernel
    from agent.cli.session import prepare, search
    from agent.settings import RunSettings

    start = read_kernel(start_from) if start_from else None
    start_language = None
    if start is not None:
        from evaluators.languages import guess

        start_language = guess(start)
    settings = RunSettings(
        evaluations=evaluations,
        seconds=seconds,
        policy=policy,
        memory=memory,
        drafts=drafts,
        proposers=proposers_of(proposer, model),
        model=model,
        languages=tuple(language or ()),
        start_from=start,
        start_language=start_language,
        seed=seed,
    )
    job = prepare(spec, target, dtype, profile.value if profile else None, settings)
    search(job, as_json=as_json, quiet=quiet, notice=notice(proposer, settings))


def resume(run: RUN, as_json: JSON = False, quiet: QUIET = False) -> None:
    """Go on with a run that was interrupted or killed. Nothing judged is lost or judged again."""
    from agent.cli.session import proceed
    from knowledge.runs.store import RunStore

    store = RunStore()
    proceed(resolve(run, store), store, as_json=as_json, quiet=quiet)


def proposers_of(choice: Proposer, model: str | None = None) -> tuple[str, ...]:
    """Proposer names behind the choice. Raises CommandError where a language model is asked for and none can be reached.

    A key alone, which may be there for other programs, does not make a model take part: ``auto`` also wants to know which one.
    """
    from agent.cli.session import endpoint, names_model, require_endpoint

    if choice == Proposer.auto:
        return ("builtin", "llm") if endpoint() and names_model(model) else ("builtin",)
    if choice == Proposer.llm:
        require_endpoint()
    return (choice.value,)


def notice(choice: Proposer, settings: RunSettings) -> str:
    """The line that says why no language model takes part; empty where one does, or none was asked for."""
    if choice == Proposer.auto and settings.proposers == ("builtin",):
        from agent.cli.session import endpoint

        lacks = (
            "no model named (--model or KERNELEVOLVE_MODEL)"
            if endpoint()
            else "no LLM endpoint (OPENAI_API_KEY or OPENAI_BASE_URL)"
        )
        return f"{lacks}: the built-in proposer writes the kernels"
    return ""
