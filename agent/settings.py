"""RunSettings: what one search may spend and how it searches. Stored with the run, so that resuming needs no flags."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from agent.errors import SettingsError, UnknownSetting
from evaluators.suggest import suggest


@dataclass(frozen=True)
class RunSettings:
    """Settings of one run. Raises :class:`agent.errors.SettingsError` naming the field that is wrong.

    Budget (τ): the run ends at whichever comes first; ``None`` means no such limit.
    """

    evaluations: int = 24
    """Candidates judged at most; the confirmation of the winner comes on top."""
    seconds: float | None = None
    """Wall seconds spent searching, over all resumptions; looked at between candidates."""
    tokens: int | None = None
    """Prompt and completion tokens together."""
    dollars: float | None = None
    stagnation: int | None = 16
    """Evaluations in a row that bring no new best."""
    fitness: float | None = None
    """Speedup that is enough."""
    roofline: float | None = 0.95
    """Share of the roofline that is enough, 0 to 1."""

    policy: str = "greedy"
    """π: a name in ``agent.search.policies.POLICIES``."""
    beam: int = 3
    """Width of the beam policy."""
    memory: str = "inherit"
    """What a new candidate sees of the graph: a name in ``agent.search.memory.MEMORIES``."""
    drafts: int = 4
    """Independent first candidates."""
    draws: int = 1
    """Candidates per later step."""
    debug_tries: int = 2
    """Repairs in a row of one broken candidate."""
    patience: int = 6
    """Evaluations without a new best after which the search also crosses over and drafts afresh."""
    seed: int = 0

    languages: tuple[str, ...] = ()
    """Languages a candidate may use; empty means those of the target."""
    proposers: tuple[str, ...] = ("builtin",)
    model: str | None = None
    """Model of the LLM proposer; None means the endpoint's configured one."""
    prompt_tokens: int = 24_000
    """Budget of one synthesized prompt."""
    reply_tokens: int = 16_000
    """Tokens of one reply at most, thinking included."""
    request_seconds: float = 600.0
    """Longest wait for one reply of a language model."""
    price_in: float | None = None
    """Dollars per million prompt tokens; None means ``$KERNELEVOLVE_PRICE_IN``, else unknown."""
    price_out: float | None = None
    """Dollars per million completion tokens; None means ``$KERNELEVOLVE_PRICE_OUT``, else unknown."""
    answer_seconds: float | None = None
    """Longest wait for an answer to the manual proposer; None waits for as long as it takes."""
    passages: int = 12
    """Passages retrieved per step."""
    arms: Mapping[str, Any] = field(default_factory=dict)
    """Parts of retrieval switched on or off: fields of ``retrieval.retrieve.Arms``."""
    warm_start: int = 0
    """Winners of earlier runs on similar specs that the drafts may see."""
    start_from: str | None = None
    """Source of an existing kernel to improve; it is judged before anything is drafted."""
    start_language: str | None = None
    """Language of ``start_from``."""
    home: str | None = None
    """Data folder; None means ``$KERNELEVOLVE_HOME``."""

    def __post_init__(self) -> None:
        for name in ("evaluations", "beam", "drafts", "draws", "patience", "prompt_tokens", "reply_tokens"):
            self._need(name, getattr(self, name) >= 1, "at least 1")
        for name in ("debug_tries", "passages", "warm_start", "seed"):
            self._need(name, getattr(self, name) >= 0, "not negative")
        self._need("request_seconds", self.request_seconds > 0, "positive")
        for name in ("price_in", "price_out"):
            price = getattr(self, name)
            self._need(name, price is None or price >= 0, "dollars per million tokens, or none where unknown")
        for name in ("seconds", "tokens", "dollars", "stagnation", "fitness", "answer_seconds"):
            value = getattr(self, name)
            self._need(name, value is None or value > 0, "positive, or none for no limit")
        self._need("roofline", self.roofline is None or 0 < self.roofline <= 1, "between 0 and 1, or none")
        self._need("proposers", bool(self.proposers), "at least one proposer")
        self._need("proposers", len(set(self.proposers)) == len(self.proposers), "named once each")
        self._need("start_language", self.start_from is None or bool(self.start_language), "given with start_from")
        from agent.search.memory import MEMORIES
        from agent.search.policies import POLICIES

        for name, known in (("policy", POLICIES), ("memory", MEMORIES)):
            given = getattr(self, name)
            hint = suggest(str(given), known) if given not in known else ""
            self._need(name, given in known, f"one of {', '.join(known)}{f'; {hint}' * hint.startswith('did')}")

    def _need(self, name: str, holds: bool, what: str) -> None:
        if not holds:
            raise SettingsError(name, getattr(self, name), what)

    def to_dict(self) -> dict[str, Any]:
        """Plain dict, ready for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> RunSettings:
        """Inverse of :meth:`to_dict`, after JSON. Unknown fields raise :class:`agent.errors.SettingsError`."""
        known = {f.name: f for f in fields(cls)}
        for name in data:
            if name not in known:
                raise UnknownSetting(name, tuple(known))
        values: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in data.items()}
        try:
            return cls(**values)
        except TypeError as error:
            raise SettingsError("settings", dict(data), f"of the documented types ({error})") from error
