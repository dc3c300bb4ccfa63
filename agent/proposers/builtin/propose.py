"""The built-in proposer: no language model, only the loop IR and what retrieval brought.

It may use an exemplar or a move only if a retrieved passage carries it, so that the knowledge base decides what can be
written. Drafts instantiate each fitting exemplar; improvements apply moves that match the parent's diagnosis, then take single steps
along the parent's knobs, preferring the direction of the last gain.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import Any, Protocol

from agent.proposers.base import Context, Judged
from agent.proposers.builtin import space
from agent.proposers.builtin.crossing import crossed
from agent.proposers.builtin.gains import effects, last_gain
from agent.proposers.builtin.plan import Choice, Knob, Plan, fingerprint, flatten, unflatten
from evaluators.candidate import Candidate, Twin
from evaluators.errors import TraceError
from evaluators.ir.kernel import Kernel, LibraryCall, Program
from evaluators.ir.pattern import classify
from evaluators.target import Target
from knowledge.exemplars import Exemplar, load, load_all
from knowledge.moves import Move, parse_moves
from retrieval.passage import Passage


class Emitter(Protocol):
    """What a language backend provides."""

    def render_module(self, program: Program, signature: tuple[str, ...], plan: Plan) -> str: ...

    def facts(self, kernel: Kernel, program: Program) -> Mapping[str, int | str]: ...


BACKENDS = {"cpp": "agent.proposers.builtin.cpp", "triton": "agent.proposers.builtin.triton"}
"""Language → the module that writes it."""


def emitter(language: str) -> Emitter | None:
    """The built-in backend of a language; ``None`` where it has none. A new backend is one line here."""
    import importlib

    name = BACKENDS.get(language)
    return None if name is None else importlib.import_module(name)


@dataclass(frozen=True)
class Advice:
    """A move with the passage that carries it."""

    move: Move
    passage: Passage


@dataclass(frozen=True)
class Proposal:
    """A plan worth trying, and why."""

    plan: Plan
    note: str
    phase: str
    parents: tuple[str, ...] = ()


class BuiltinProposer:
    """Implements ``agent.proposers.base.Proposer``."""

    name = "builtin"

    def propose(self, context: Context, n: int) -> list[Candidate]:
        """At most ``n`` new candidates, none of which repeats a plan already judged in this run.

        Raises NothingToPropose where the reference cannot be traced, where PyTorch does all of its work, or where no kernel can be written
        in the languages asked for; ProposerError where the first drafts can all not be expressed.
        """
        from agent.errors import EmitError, NothingToPropose, ProposerError
        from evaluators.trial import traced

        try:
            program = traced(context.spec)
        except TraceError as error:
            raise NothingToPropose(str(error)) from error
        if not program.kernels:
            raise NothingToPropose(_all_left(program))
        if not any(emitter(language) for language in context.languages):
            raise NothingToPropose(
                f"the builtin proposer writes {' and '.join(BACKENDS)}, not {', '.join(context.languages)}; use the llm or manual proposer"
            )
        unexpressed = ""
        tried = {_plan_key(j.candidate) for j in context.seen}
        out: list[Candidate] = []
        for language in context.languages:
            backend = emitter(language)
            if backend is None:
                continue
            work = Workbench(context, program, language, backend)
            for proposal in work.proposals():
                key = (language, fingerprint(proposal.plan))
                if key in tried:
                    continue
                tried.add(key)
                try:
                    source = work.render(program, proposal.plan)
                except EmitError as error:
                    unexpressed = unexpressed or str(error)
                    continue  # this exemplar cannot express that kernel; another may
                out.append(
                    Candidate(
                        id=context.ids[len(out)],
                        language=language,
                        source=source,
                        proposer=self.name,
                        parents=proposal.parents,
                        step=context.step,
                        phase=proposal.phase,
                        exemplar="+".join(c.exemplar.name for c in proposal.plan.values()),
                        knobs=flatten(proposal.plan),
                        chunk_ids=tuple(p.chunk_id for p in context.passages),
                        note=proposal.note,
                        twin=work.twin(proposal.plan),
                    )
                )
                if len(out) == n:
                    return out
        if unexpressed and not out and not context.seen:
            raise ProposerError(f"no retrieved exemplar can express this: {unexpressed}")
        return out


def _all_left(program: Program) -> str:
    left = sorted(
        {s.target.removeprefix("aten::").partition(".")[0] for s in program.steps if isinstance(s, LibraryCall)}
    )
    verb = "is" if len(left) == 1 else "are"
    return f"{', '.join(left)} {verb} left to PyTorch: there is nothing to generate; the llm or manual proposer may write a kernel for it"


def _plan_key(candidate: Candidate) -> tuple[str, Any]:
    return candidate.language, tuple(sorted(candidate.knobs.items()))


class Workbench:
    """One language's options for one program in one context."""

    def __init__(self, context: Context, program: Program, language: str, backend: Emitter) -> None:
        self.context, self.program, self.language = context, program, language
        self.backend = backend
        self.facts = self.facts_of(program)
        self.pattern = {k.name: classify(k) for k in program.kernels}
        self.rng = random.Random(f"{context.seed}/{context.step}/{language}")
        self.retrieved = _exemplars(context.passages, language)
        self.advice = [Advice(m, p) for p in context.passages for m in parse_moves(p.metadata.get("moves"), p.document)]
        self.order = sorted(self.facts, key=lambda name: -_points(program, name))

    def facts_of(self, program: Program) -> dict[str, dict[str, Any]]:
        """What constraints may read of each kernel: its own figures and the device's."""
        device = _device_facts(self.context.target)
        return {k.name: {**self.backend.facts(k, program), **device} for k in program.kernels}

    def render(self, program: Program, plan: Plan) -> str:
        """Source of a plan. Raises EmitError."""
        from evaluators.trial import signature

        return self.backend.render_module(program, signature(self.context.spec), plan)

    def twin(self, plan: Plan) -> Twin | None:
        """The plan at smaller sizes, where the target is not here to run the full ones."""
        from agent.proposers.builtin.twin import INTERPRETED, twin_of

        if self.context.target.present or self.language not in INTERPRETED:
            return None
        return twin_of(self.context.spec, self.program, plan, self.facts_of, self.render)

    def proposals(self) -> Iterator[Proposal]:
        """Plans in the order they are worth trying; the caller skips repeats and stops when it has enough.

        First drafts that have a fitting exemplar are not padded with random knobs: steps from measured candidates use the budget better. A
        crossover takes from both parents or is none: single steps from either are improvements.
        """
        parents = [j for j in self.context.parents if j.candidate.language == self.language]
        drafting = self.context.phase == "draft"
        if self.context.phase == "crossover":
            if len(parents) > 1:
                yield from self._crossed(parents[0], parents[1])
            return
        if not drafting:
            for parent in parents:
                yield from self._from_parent(parent)
        drafts = list(self._drafts())
        yield from drafts
        if drafting:
            for parent in parents:
                yield from self._from_parent(parent)
        if self.context.step > 0 or not drafts:
            yield from self._samples()

    def _fitting(self, kernel: str) -> list[Exemplar]:
        families = {*self.context.target.families, "any"}
        return [
            e
            for e in self.retrieved
            if self.pattern[kernel] in e.patterns and families & set(e.targets) and self._start(e, kernel) is not None
        ]

    def _start(self, exemplar: Exemplar, kernel: str) -> dict[str, Knob] | None:
        return space.repaired(exemplar, exemplar.defaults, self.facts[kernel])

    def _drafts(self) -> Iterator[Proposal]:
        """Every fitting exemplar on the heaviest kernel, first as retrieved advice would set it, then at its defaults."""
        options = {k: self._fitting(k) for k in self.facts}
        if not all(options.values()):
            return
        advised = {k: [self._advised(e, k) for e in options[k]] for k in options}
        plain = {k: [(Choice(e, self._start(e, k) or {}), "defaults") for e in options[k]] for k in options}
        for source in (advised, plain):
            for i in range(max(len(o) for o in source.values())):
                picks = {k: source[k][min(i, len(source[k]) - 1)] for k in self.facts}
                note = "; ".join(f"{choice.exemplar.name}: {why}" for choice, why in picks.values())
                yield Proposal({k: choice for k, (choice, _) in picks.items()}, note, "draft")

    def _advised(self, exemplar: Exemplar, kernel: str) -> tuple[Choice, str]:
        knobs = self._start(exemplar, kernel) or {}
        whys: list[str] = []
        for advice in self.advice:
            if "phase" not in advice.move.when or not advice.move.applies(
                self._situation(exemplar, kernel, "draft", "unknown"), knobs
            ):
                continue
            changed = advice.move.apply(knobs, exemplar.knobs)
            fixed = changed and space.repaired(exemplar, changed, self.facts[kernel])
            if fixed and fixed != knobs:
                knobs = fixed
                whys.append(_told(advice))
        return Choice(exemplar, knobs), ", ".join(whys) or "defaults"

    def _situation(self, exemplar: Exemplar, kernel: str, phase: str, diagnosis: str) -> dict[str, Any]:
        return {
            "diagnosis": diagnosis,
            "language": self.language,
            "pattern": self.pattern[kernel],
            "exemplar": exemplar.name,
            "phase": phase,
        }

    def _plan_of(self, judged: Judged, known: Mapping[str, Exemplar]) -> dict[str, Choice] | None:
        plan = unflatten(judged.candidate.knobs, known.values())
        return plan if plan is not None and set(plan) == set(self.facts) else None

    def _known(self) -> dict[str, Exemplar]:
        return {e.name: e for e in (*_shipped(self.language), *self.retrieved)}

    def _crossed(self, best: Judged, other: Judged) -> Iterator[Proposal]:
        known = self._known()
        mine, theirs = self._plan_of(best, known), self._plan_of(other, known)
        if mine is not None and theirs is not None:
            for plan, what in crossed(mine, theirs, self.order, self.facts):
                parents = (best.candidate.id, other.candidate.id)
                yield Proposal(plan, f"{what} (from {other.candidate.id})", "crossover", parents)

    def _from_parent(self, parent: Judged) -> Iterator[Proposal]:
        known = self._known()
        plan = self._plan_of(parent, known)
        if plan is None:
            return
        yield from self._moves(parent, plan, known)
        if parent.evaluation.status == "correct":
            yield from self._steps(parent, plan)

    def _moves(self, parent: Judged, plan: dict[str, Choice], known: Mapping[str, Exemplar]) -> Iterator[Proposal]:
        """Retrieved advice for the parent's diagnosis, on the heaviest kernel first."""
        phase = "improve" if parent.evaluation.status == "correct" else "debug"
        for kernel in self.order:
            choice = plan[kernel]
            situation = self._situation(choice.exemplar, kernel, phase, parent.evaluation.diagnosis)
            for advice in self.advice:
                if not advice.move.applies(situation, choice.knobs):
                    continue
                changed = self._apply(advice.move, choice, kernel, known)
                if changed is not None:
                    yield Proposal({**plan, kernel: changed}, _told(advice), phase, (parent.candidate.id,))

    def _apply(self, move: Move, choice: Choice, kernel: str, known: Mapping[str, Exemplar]) -> Choice | None:
        if move.exemplar is not None:
            other = next((e for e in self._fitting(kernel) if e.name == move.exemplar), None)
            start = other and self._start(other, kernel)
            return Choice(other, start) if other and start else None
        knobs = move.apply(choice.knobs, choice.exemplar.knobs)
        fixed = knobs and space.repaired(choice.exemplar, knobs, self.facts[kernel])
        return Choice(choice.exemplar, fixed) if fixed and fixed != choice.knobs else None

    def _steps(self, parent: Judged, plan: dict[str, Choice]) -> Iterator[Proposal]:
        """Single steps along one knob, the knobs that moved fitness most in this run first."""
        effect = effects(self.context.seen, self.language)
        direction = last_gain(self.context.seen, parent)
        for kernel in self.order:
            choice = plan[kernel]
            around = space.neighbours(choice.exemplar, choice.knobs, self.facts[kernel])
            self.rng.shuffle(around)

            def rank(item: tuple[str, Knob, dict[str, Knob]], kernel: str = kernel) -> tuple[int, float]:
                key = f"{kernel}.{item[0]}"
                return (0 if direction is not None and direction(key, item[1]) else 1), -effect.get(key, 0.05)

            for name, value, point in sorted(around, key=rank):
                note = f"{kernel}.{name} {choice.knobs[name]} → {value}"
                yield Proposal(
                    {**plan, kernel: Choice(choice.exemplar, point)}, note, "improve", (parent.candidate.id,)
                )

    def _samples(self) -> Iterator[Proposal]:
        """Random admissible points of fitting exemplars: the last resort, and the fuel of a long search."""
        options = {k: self._fitting(k) for k in self.facts}
        if not all(options.values()):
            return
        for _ in range(16):
            plan: dict[str, Choice] = {}
            for kernel, fitting in options.items():
                exemplar = self.rng.choice(fitting)
                knobs = space.sample(exemplar, self.facts[kernel], self.rng)
                plan[kernel] = Choice(exemplar, knobs or self._start(exemplar, kernel) or {})
            yield Proposal(plan, f"random knobs: {self._unusual(plan)}", "draft")

    def _unusual(self, plan: Plan) -> str:
        """Each kernel's schedule and the knobs that are not at their defaults."""
        told = []
        for kernel, choice in plan.items():
            usual = self._start(choice.exemplar, kernel) or {}
            odd = [f"{name} {value}" for name, value in choice.knobs.items() if value != usual.get(name)]
            told.append(f"{kernel} {choice.exemplar.name}{': ' * bool(odd)}{', '.join(odd)}")
        return "; ".join(told)


def _device_facts(target: Target) -> dict[str, int]:
    """What constraints may say about the device: bytes of shared memory per block and of L2, compute units, warp width."""
    return {
        "shared_limit": target.shared_memory_bytes,
        "l2_bytes": target.l2_bytes,
        "units": target.compute_units,
        "warp": target.warp_size,
    }


def _told(advice: Advice) -> str:
    do = advice.move.do
    if "exemplar" in do:
        what = f"use {do['exemplar']}"
    else:
        action = next(a for a in ("set", "multiply", "add") if a in do)
        sign = {"set": "=", "multiply": "×", "add": "+"}[action]
        what = f"{do['knob']} {sign} {do[action]}"
    return f"{what} ({advice.move.why}; {advice.passage.document})"


def _exemplars(passages: Sequence[Passage], language: str) -> list[Exemplar]:
    """Exemplars that retrieved passages carry, best passage first."""
    out: dict[str, Exemplar] = {}
    for p in passages:
        if p.kind == "kernel" and p.metadata.get("language") == language and "exemplar" in p.metadata:
            name = str(p.metadata["exemplar"])
            if name not in out:
                out[name] = load(p.document)
    return list(out.values())


@lru_cache(maxsize=8)
def _shipped(language: str) -> tuple[Exemplar, ...]:
    """All exemplars of a language: only to read back what an earlier step of the run retrieved and used."""
    return tuple(e for e in load_all() if e.language == language)


def _points(program: Program, kernel: str) -> int:
    k = next(k for k in program.kernels if k.name == kernel)
    return prod(a.extent for a in k.rows) * max(prod(c.extent for c in p.cols) for p in k.passes)
