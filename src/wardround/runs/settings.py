"""The settings of a run as one tree: everything that decides its results, as data that is written into its manifest.

The sections are declared by the rooms that heed them; here they are put together, and read from a file, from Python and
from the command line by one and the same names: ``budget.turns``, ``agent.retrosum.window``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields, is_dataclass, replace
from pathlib import Path
from typing import Any, Literal, get_origin

from wardround.agents import ADDITIONS, AGENTS, AgentName, Budget, Method, get_method
from wardround.core import SettingField, UserError, check_settings, derive_seed, leaves, refuse_unknown, setting, strict
from wardround.core.executors import EXECUTORS
from wardround.core.settings import flat, merged, nested
from wardround.memory import MemorySettings
from wardround.models import ModelOptions, NamedModel
from wardround.predictors import PredictorSettings
from wardround.runs.presets import PRESETS
from wardround.tasks.scoring import ScoringSettings
from wardround.tools import Aids
from wardround.tools.imaging import ImageSettings
from wardround.tools.knowledge import KnowledgeSettings
from wardround.tools.retrieval import RetrievalSettings
from wardround.tools.toolset import USUAL

AGENT = "agent"
_SEPARATOR = "|"
Split = Literal["train", "dev", "test"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlayedSection:
    """What is played: agents x models x tasks x samples x epochs."""

    preset: str | None = setting(
        None, "begin with a paper's published settings (wardround list presets)", flag="--preset"
    )
    benchmark: str = setting("", "folder of a built benchmark", unit="folder", flag="--benchmark")
    store: str = setting(
        "", "folder of the store it was built from; none where cases are told in words", unit="folder", flag="--store"
    )
    tasks: tuple[str, ...] = setting((), "only these tasks", flag="--task")
    split: Split = setting("test", "which samples", flag="--split")
    strata: tuple[str, ...] = setting((), "only these strata")
    limit: int | None = setting(None, "at most this many samples per task", unit="samples", least=1, flag="--limit")
    samples: tuple[str, ...] = setting((), "only these samples, by id")
    agents: tuple[str, ...] = setting(
        ("react",), "agents (wardround list agents), e.g. retrosum or react+ether", flag="--agent"
    )
    models: tuple[str, ...] = setting(
        ("offline",), "models (wardround list models), e.g. openai/<name>, or names of [models.NAME]", flag="--model"
    )
    epochs: int = setting(1, "repeats of every sample, each with its seed", least=1, flag="--epochs")
    seed: int = setting(0, "seed of everything random", flag="--seed")
    max_cost: float | None = setting(
        None,
        "hand out no more episodes when the recorded cost reaches this",
        unit="US dollars",
        above=0,
        flag="--max-cost",
    )
    executor: str = setting("processes", "where episodes are played: processes (of this machine) or ray (a cluster)")
    permitted_endpoints: tuple[str, ...] = setting(
        (), "record text may be sent there (you declare it)", unit="URLs", flag="--permit-endpoint"
    )
    toolset: str = setting(USUAL, "which tools are offered (wardround list toolsets)")
    tools: tuple[str, ...] = setting((), "tools to offer beside those of the toolset (wardround list tools)")
    context_policy: str | None = setting(
        None, "what leaves the prompt where room is short, instead of each agent's own"
    )
    plugins: tuple[str, ...] = setting((), "Python files that register what is named here", unit="files")

    def __post_init__(self) -> None:
        check_settings(self)
        EXECUTORS.get(self.executor)
        for name in ("tasks", "strata", "agents", "models", "samples"):
            values: tuple[str, ...] = getattr(self, name)
            if len(set(values)) < len(values):
                raise UserError(f"{name} names one of them twice: {', '.join(values)}")
        for value in (*self.agents, *self.models, *self.tasks):
            if _SEPARATOR in value:
                raise UserError(
                    f"{value!r} cannot name an agent, a model or a task: {_SEPARATOR!r} separates the parts of a key"
                )


# Variants: an agent under several names in one run, each with settings of its own.
#
# [agent.narrow]
# method = "retrosum"
# window = 3


METHOD = "method"
"""What a section of settings says that makes a variant of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """An agent by a name of a run's own: what it is made of (``retrosum``, ``react+ether``), and its settings."""

    method: str
    settings: Any

    def spelling(self, additions: tuple[str, ...]) -> str:
        """Return the registered name of it with what a run adds to it besides."""
        own = AgentName.parse(self.method)
        return str(AgentName(method=own.method, additions=(*own.additions, *additions)))

    def note(self, name: str) -> str:
        """Say in one line what it is, with the settings that are not as declared."""
        declared = asdict(_method(self.method).settings())
        other = {key: value for key, value in asdict(self.settings).items() if declared[key] != value}
        said = ", ".join(f"{key} = {value}" for key, value in other.items()) or "its settings as declared"
        return f"{name} is {self.method} with {said}"

    def to_json(self) -> dict[str, Any]:
        """Return its section as it is written."""
        return {METHOD: self.method, **asdict(self.settings)}


def is_variant(section: Any) -> bool:
    """Whether a section of ``agent`` in a file makes a variant."""
    return isinstance(section, Mapping) and METHOD in section


def read_variant(name: str, body: Mapping[str, Any], sections: Mapping[str, Any], where: str) -> Variant:
    """Read one; what it does not say is as in the section of its method among ``sections``. UserError names what is
    wrong: a name that is taken, a method that is not there, a setting that it has not."""
    place = f"{where} [agent.{name}]"
    if name in AGENTS or name in (method.section_name for method in AGENTS.registered):
        raise UserError(f"{place}: {name!r} is an agent of its own; give the variant another name")
    if not name or any(mark in name for mark in "+|"):
        raise UserError(f"{place}: a variant's name holds neither '+' nor '|'")
    spelling = body[METHOD]
    if not isinstance(spelling, str):
        raise UserError(f"{place}: {METHOD} names an agent (wardround list agents), not {spelling!r}")
    method = _method(spelling)
    own = {key: value for key, value in body.items() if key != METHOD}
    common = sections.get(method.section_name, {})
    return Variant(method=spelling, settings=strict(method.settings, merged(common, own), place))


def _method(spelling: str) -> Method:
    parsed = AgentName.parse(spelling)
    for addition in parsed.additions:
        ADDITIONS.get(addition)
    return AGENTS.get(parsed.method)


# All sections as one tree.


LIMITS = ("run.max_cost", "run.executor")
"""Settings that decide how far a run goes, or where, and no result: one that is resumed may have others than it began
with."""

SECTIONS: Mapping[str, type] = {
    "run": PlayedSection,
    "model": ModelOptions,
    "budget": Budget,
    "retrieval": RetrievalSettings,
    "memory": MemorySettings,
    "knowledge": KnowledgeSettings,
    "aids": Aids,
    "images": ImageSettings,
    "scoring": ScoringSettings,
    "predictors": PredictorSettings,
}
"""The sections whose settings are known beforehand; ``models`` and ``agent`` have one for each name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSettings:
    """Settings of one run.

    ``model`` holds for every model, ``models`` for those with a name of their own. ``agent`` holds the sections of the
    methods by name, those of all agents of the run, its variants and what else was said.
    """

    run: PlayedSection = PlayedSection()
    model: ModelOptions = ModelOptions()
    models: Mapping[str, NamedModel] = field(default_factory=dict)
    budget: Budget = Budget()
    agent: Mapping[str, Any] = field(default_factory=dict)
    retrieval: RetrievalSettings = RetrievalSettings()
    memory: MemorySettings = MemorySettings()
    knowledge: KnowledgeSettings = KnowledgeSettings()
    aids: Aids = Aids()
    images: ImageSettings = ImageSettings()
    scoring: ScoringSettings = ScoringSettings()
    predictors: PredictorSettings = PredictorSettings()

    @classmethod
    def read(cls, body: Mapping[str, Any], where: str = "settings") -> RunSettings:
        """Make the tree of nested tables, strictly: an unknown name is an error with the nearest. ``where`` names the
        place in errors. What is not said is as in the preset that ``run.preset`` names, else as declared."""
        preset = body.get("run", {}).get("preset")
        body = body if preset is None else merged(PRESETS.get(preset).body, body)
        refuse_unknown(body, (one.name for one in fields(cls)), where)
        plain: dict[str, Any] = {
            name: strict(kind, body[name], f"{where} [{name}]") for name, kind in SECTIONS.items() if name in body
        }
        common = body.get("model", {})
        models = {
            name: strict(NamedModel, {**common, **own}, f"{where} [models.{name}]")
            for name, own in body.get("models", {}).items()
        }
        run = plain.get("run", PlayedSection())
        return cls(**plain, models=models, agent=_agent_sections(run, body.get("agent", {}), where))

    @classmethod
    def of(cls, **named: Any) -> RunSettings:
        """Make the tree by short names, the last part of each: ``RunSettings.of(benchmark="bench", turns=20)``.

        A name that several methods have (``window``) is set for all of them; whole sections go by their name
        (``aids=Aids.none()``). Raises UserError for a name that is unknown or stands in several other sections.
        """
        return cls.read(by_short_names(named, cls(), agent_classes()))

    def changed(self, **named: Any) -> RunSettings:
        """Return the tree with some settings changed, by short names as in :meth:`of`."""
        return RunSettings.read(merged(self.to_json(), by_short_names(named, self, agent_classes())))

    def to_json(self) -> dict[str, Any]:
        """Return nested JSON-ready tables; :meth:`read` reads them."""
        agents = {
            name: held.to_json() if isinstance(held, Variant) else asdict(held) for name, held in self.agent.items()
        }
        return dict(_plain(asdict(self) | {"agent": agents}))

    def resolved(self) -> RunSettings:
        """Return the same settings with absolute paths, so that a run can be resumed from any folder."""
        run, bank = self.run, self.memory.bank
        store = run.store and _absolute(run.store)
        where = {"benchmark": _absolute(run.benchmark), "store": store}
        run = replace(run, **where, plugins=tuple(map(_absolute, run.plugins)))  # type: ignore[arg-type]
        banks = {agent: _absolute(own) for agent, own in self.memory.banks.items()}
        memory = replace(self.memory, bank=None if bank is None else _absolute(bank), banks=banks)
        agent = {name: _with_absolute_files(section) for name, section in self.agent.items()}
        knowledge, images = self.knowledge.resolved(), self.images.resolved()
        return replace(self, run=run, memory=memory, knowledge=knowledge, images=images, agent=agent)

    def changes_of_preset(self) -> dict[str, Any] | None:
        """Return what differs from the preset these settings began with, by name; None where they began with none."""
        if self.run.preset is None:
            return None
        published, held = flat(PRESETS.get(self.run.preset).body), flat(self.to_json())
        return {name: held[name] for name, value in published.items() if name in held and held[name] != value}

    @property
    def is_text_cases(self) -> bool:
        """Whether its samples are text cases, which have no store."""
        return not self.run.store

    @property
    def budget_tokens(self) -> int:
        """The context budget of a run that was made."""
        if self.budget.context_tokens is None:
            raise ValueError("the context budget is settled when a run is made; these settings are of none")
        return self.budget.context_tokens

    def model_named(self, name: str) -> NamedModel:
        """Return what is set of one of the run's models: its own, else what holds for all."""
        known = self.models.get(name)
        return NamedModel(name=name, **asdict(self.model)) if known is None else known

    def spelling(self, agent: str) -> str:
        """Return what one of the run's agents is made of by registered names: its own name, but for a variant."""
        parsed = AgentName.parse(agent)
        held = self.agent.get(parsed.method)
        return held.spelling(parsed.additions) if isinstance(held, Variant) else agent

    def section_of(self, agent: str) -> str:
        """Return the name of the section that holds the settings of one of the run's agents."""
        name = AgentName.parse(agent).method
        return name if isinstance(self.agent.get(name), Variant) else get_method(agent).section_name

    def of_agent(self, agent: str) -> Any:
        """Return the settings of one of the run's agents."""
        held = self.agent.get(self.section_of(agent))
        if isinstance(held, Variant):
            return held.settings
        return get_method(agent).settings() if held is None else held

    def variant_notes(self) -> dict[str, str]:
        """Say of every variant among the run's agents what it is, by its name."""
        names = dict.fromkeys(AgentName.parse(agent).method for agent in self.run.agents)
        return {name: held.note(name) for name in names if isinstance(held := self.agent.get(name), Variant)}

    def model_sizes(self) -> dict[str, float]:
        """Return how large the run's models are, in billions of parameters, of those of which it is said."""
        said = {name: self.model_named(name).parameters for name in self.run.models}
        return {name: size for name, size in said.items() if size is not None}

    def model_notes(self) -> dict[str, str]:
        """Say of every model whose weights saw the data what its figures are worth."""
        seen = [name for name in self.run.models if self.model_named(name).saw_data]
        return {
            name: f"{name}: these weights saw this data set, so its figures are not of unseen patients" for name in seen
        }


def short_settings(named: Mapping[str, Any]) -> dict[str, Any]:
    """Return nested tables of settings by short names, as :meth:`RunSettings.of` takes them; one text stands for a list
    of one."""
    lists = {leaf.name.rpartition(".")[2] for leaf in leaves(RunSettings()) if get_origin(leaf.kind) is tuple}
    return by_short_names(
        {name: (value,) if name in lists and isinstance(value, str) else value for name, value in named.items()},
        RunSettings(),
        agent_classes(),
    )


def agent_classes() -> dict[str, type]:
    """Return the sections of the methods that are registered, by name."""
    return {method.section_name: method.settings for method in AGENTS.registered}


def _agent_sections(run: PlayedSection, body: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Read what is said of methods, and add the sections of the run's agents that nothing is said of."""
    played = [AGENTS.get(name) for agent in run.agents if (name := AgentName.parse(agent).method) in AGENTS]
    known = agent_classes() | {method.section_name: method.settings for method in played}
    sections = {name: own for name, own in body.items() if not is_variant(own)}
    refuse_unknown(sections, known, f"{where} [agent]")
    said: dict[str, Any] = {name: strict(known[name], own, f"{where} [agent.{name}]") for name, own in sections.items()}
    varied = {name: read_variant(name, own, sections, where) for name, own in body.items() if is_variant(own)}
    rest = {method.section_name: method.settings() for method in played if method.section_name not in said}
    return dict(sorted((said | varied | rest).items()))


def _with_absolute_files(section: Any) -> Any:
    """A method's settings, or a variant of it, with its files by absolute paths."""
    if isinstance(section, Variant):
        return replace(section, settings=_with_absolute_files(section.settings))
    files = {leaf.name: leaf.default for leaf in leaves(section) if leaf.setting.unit == "file" and leaf.default}
    return replace(section, **{name: _absolute(path) for name, path in files.items()}) if files else section


def _absolute(path: str) -> str:
    return str(Path(path).resolve())


def _plain(value: Any) -> Any:
    """Tuples as lists, all the way down."""
    if isinstance(value, Mapping):
        return {name: _plain(one) for name, one in value.items()}
    return [_plain(one) for one in value] if isinstance(value, (list, tuple)) else value


# Short names of settings, the last part of each.


def all_leaves(tree: Any, agents: Mapping[str, type]) -> list[SettingField]:
    """List every setting there is: those of the tree's sections, and those of the methods."""
    found = [leaf for leaf in leaves(tree) if leaf.name.partition(".")[0] not in (AGENT, "models") and "." in leaf.name]
    for name, section in agents.items():
        found += leaves(section, f"{AGENT}.{name}.")
    return found


def by_short_names(named: Mapping[str, Any], tree: Any, agents: Mapping[str, type]) -> dict[str, Any]:
    """Return nested tables for settings given by the last part of their names, or by the name of a section."""
    sections = {one.name for one in fields(tree)}
    places: dict[str, list[str]] = {}
    for leaf in all_leaves(tree, agents):
        places.setdefault(leaf.name.rpartition(".")[2], []).append(leaf.name)
    refuse_unknown(named, (*places, *sections), "settings")
    body: dict[str, Any] = {}
    for name, value in named.items():
        held = _table(value)
        if name in sections and isinstance(held, Mapping):
            body = merged(body, {name: held})
        else:
            body = merged(body, nested(dict.fromkeys(_meant(name, places[name]), held)))
    return body


def _meant(name: str, places: Iterable[str]) -> list[str]:
    """Return the settings that a short name stands for: that of the run, the outermost one, or that of every method."""
    own = [place for place in places if place.startswith(f"{AGENT}.")]
    others = [place for place in places if place not in own]
    outer = [place for place in others if place.count(".") == min(other.count(".") for other in others)]
    if f"run.{name}" in outer:
        return [f"run.{name}"]
    if len(outer) > 1 or (outer and own):
        raise UserError(f"{name!r} is the name of several settings: {', '.join((*outer, *own))}; write one in full")
    return outer or own


def _table(value: Any) -> Any:
    """A section as a table, everything else as it is."""
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    if isinstance(value, Mapping):
        return {name: _table(one) for name, one in value.items()}
    return value


# An episode of a run.


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
