"""What a run is made of: everything that decides its results, as data that is written into its manifest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from math import inf
from pathlib import Path
from typing import Any

from wardround.agents import AGENTS, Method
from wardround.core import Price, UserError, derive_seed
from wardround.memory import MemorySettings
from wardround.models import TOOL_CALLS
from wardround.retrieval import RetrievalSettings
from wardround.tools import Aids

_SEPARATOR = "|"
_ABSENT_BEFORE = frozenset({"episode_seconds", "samples", "aids", "plugins", "tools", "context_policy"})
"""Settings that came later, and mean when absent what was done before there were any."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSettings:
    """Settings of one run: agents x models x tasks x samples x epochs.

    ``context_tokens`` and ``turns`` are every agent's budget, so that all rows of a table have one; None is made the
    context of the benchmark's paper when the run is made. ``episode_seconds`` (None: all it takes) is each episode's
    wall time; ``limit`` caps the samples per task (None: all). ``api_key_variable`` names an environment variable; the
    key itself is never written down. ``bank`` is a file of experiences, read as it stands when the run starts;
    ``encoder`` makes the keys they are found by, and the vectors of charts' events; ``retrieval`` says how those are
    searched. From ``window`` to ``final_summary``: see the methods. ``samples`` names
    the only ones, where it names any; ``aids``: see :class:`wardround.tools.Aids`. ``tool_calls``: how served
    models are asked for tool calls, see :mod:`wardround.models.schema_calls`. ``plugins`` are files that register
    what is named here; ``tools`` are offered beside the usual ones; ``context_policy`` replaces every agent's own.
    """

    benchmark: str
    store: str
    tasks: tuple[str, ...] = ()
    split: str = "test"
    strata: tuple[str, ...] = ()
    limit: int | None = None
    agents: tuple[str, ...] = ("react",)
    models: tuple[str, ...] = ("offline",)
    base_url: str | None = None
    api_key_variable: str | None = None
    permitted_endpoints: tuple[str, ...] = ()
    price: tuple[float, ...] = ()
    epochs: int = 1
    seed: int = 0
    turns: int = 100
    episode_seconds: float | None = None
    context_tokens: int | None = None
    result_tokens: int = 2_000
    reply_tokens: int = 4_096
    temperature: float | None = 0.7
    top_p: float | None = 0.8
    bank: str | None = None
    encoder: str = "lexical"
    encoder_url: str | None = None
    window: int = 10
    window_share: float = 0.7
    k: int = 1
    advice: int = 3
    candidates: int = 2
    refinements: int = 2
    trials: int = 2
    final_summary: bool = False
    retrieval: RetrievalSettings = field(default_factory=RetrievalSettings)
    samples: tuple[str, ...] = ()
    aids: Aids = field(default_factory=Aids)
    tool_calls: str = "native"
    plugins: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    context_policy: str | None = None

    def __post_init__(self) -> None:
        for method in AGENTS.registered:
            self.own_settings(method)
        _ = self.recall
        for name in ("epochs", "turns", "context_tokens", "result_tokens", "reply_tokens", "limit"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise UserError(f"{name} must be at least 1, not {value!r}")
        for name in ("tasks", "strata", "agents", "models", "samples"):
            values: tuple[str, ...] = getattr(self, name)
            if len(set(values)) < len(values):
                raise UserError(f"{name} names one of them twice: {', '.join(values)}")
        for value in (*self.agents, *self.models, *self.tasks):
            if _SEPARATOR in value:
                raise UserError(
                    f"{value!r} cannot name an agent, a model or a task: {_SEPARATOR!r} separates the parts of a key"
                )
        if self.tool_calls not in TOOL_CALLS:
            raise UserError(f"tool_calls must be one of {', '.join(TOOL_CALLS)}, not {self.tool_calls!r}")
        if self.price and (len(self.price) not in (2, 3) or not all(0 <= value < inf for value in self.price)):
            raise UserError("price takes input,output[,cached] in US dollars per million tokens")
        if self.episode_seconds is not None and not 0 < self.episode_seconds < inf:
            raise UserError(f"episode_seconds must be above 0, not {self.episode_seconds!r}")
        if self.temperature is not None and not 0 <= self.temperature < inf:
            raise UserError(f"temperature must be 0 or more, not {self.temperature!r}")
        if self.top_p is not None and not 0 < self.top_p <= 1:
            raise UserError(f"top_p must be above 0 and at most 1, not {self.top_p!r}")

    @property
    def budget_tokens(self) -> int:
        """The context budget of a run that was made."""
        if self.context_tokens is None:
            raise ValueError("the context budget is settled when a run is made; these settings are of none")
        return self.context_tokens

    def own_settings(self, method: Method) -> object:
        """Return the settings of a method; raises UserError where one is out of range."""
        names = [field.name for field in fields(method.settings)]
        return method.settings(**{name: getattr(self, name) for name in names if hasattr(self, name)})

    @property
    def recall(self) -> MemorySettings:
        """How much of the bank an episode is served."""
        return MemorySettings(bank=self.bank, k=self.k, advice=self.advice)

    def to_json(self) -> dict[str, Any]:
        """Return a JSON-ready dict."""
        return {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()}

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> RunSettings:
        """Read what :meth:`to_json` wrote; unknown names are an error."""
        known = {field.name for field in fields(cls)}
        unknown = sorted(set(body) - known)
        if unknown:
            raise UserError(f"unknown run settings: {', '.join(unknown)}; known are {', '.join(sorted(known))}")
        values: dict[str, Any] = {name: tuple(v) if isinstance(v, list) else v for name, v in body.items()}
        if "retrieval" in values:
            values["retrieval"] = RetrievalSettings(**values["retrieval"])
        values["aids"] = Aids(**values["aids"]) if "aids" in values else Aids.none()  # a run from before there were any
        return cls(**values)

    @classmethod
    def unsaid(cls, body: Mapping[str, Any]) -> list[str]:
        """Name the settings that what was written does not say: today's defaults are not what such a run began with."""
        wanted = {field.name for field in fields(cls)} - _ABSENT_BEFORE
        inside = {f"retrieval.{field.name}" for field in fields(RetrievalSettings)}
        said = body.keys() | {f"retrieval.{name}" for name in body.get("retrieval", {})}
        return sorted(wanted - said) or sorted(inside - said)

    def resolved(self) -> RunSettings:
        """Return the same settings with absolute paths, so that a run can be resumed from any folder."""
        benchmark, store = (str(Path(path).resolve()) for path in (self.benchmark, self.store))
        bank = None if self.bank is None else str(Path(self.bank).resolve())
        plugins = tuple(str(Path(path).resolve()) for path in self.plugins)
        return replace(self, benchmark=benchmark, store=store, bank=bank, plugins=plugins)

    @property
    def known_price(self) -> Price | None:
        """The price to account with, or None when nobody said one."""
        if not self.price:
            return None
        return Price(input=self.price[0], output=self.price[1], cached=self.price[2] if len(self.price) > 2 else None)


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class EpisodeKey:
    """Names one episode of a run. As text: ``react|offline|diagnoses|<sample>|0``."""

    agent: str
    model: str
    task: str
    sample: str
    epoch: int

    def __str__(self) -> str:
        return _SEPARATOR.join((self.agent, self.model, self.task, self.sample, str(self.epoch)))

    @classmethod
    def parse(cls, text: str) -> EpisodeKey:
        """Inverse of ``str``. Only a sample's id may hold a separator: it is what lies between the others."""
        agent, model, task, rest = text.split(_SEPARATOR, 3)
        sample, epoch = rest.rsplit(_SEPARATOR, 1)
        return cls(agent=agent, model=model, task=task, sample=sample, epoch=int(epoch))

    def seed(self, run_seed: int) -> int:
        """Seed of this episode: the same for every agent and model, so that comparisons are paired."""
        return derive_seed(run_seed, self.task, self.sample, self.epoch)
