"""What a run opens by name: models, knowledge, protocols, and the data-use guard."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from wardround.agents import AgentSpec
from wardround.clinical.protocols import GlobalProtocol, read_protocol
from wardround.core import UserError, leaves
from wardround.models import (
    DataUseGuard,
    Endpoint,
    Model,
    ModelConfig,
    ModelSettings,
    NamedModel,
    find_model,
    open_model,
)
from wardround.records import Roles, Store
from wardround.runs.folder import RunFolder
from wardround.runs.settings import EpisodeKey, RunSettings, Variant
from wardround.tasks.benchmarks import Benchmark, split_of
from wardround.tools import TOOLS, open_toolset
from wardround.tools.knowledge import Knowledge

# The protocols that a run's agents are given, and whom they may not be shown about.


TRAINING = "train"


def must_not_be_taught_by(settings: RunSettings, store: Store, benchmark: Benchmark, keys: Sequence[str]) -> None:
    """Raise UserError where a protocol was induced from people whom this run asks about."""
    induced = [one for one in protocols_of(settings) if one.induced is not None]
    if not induced:
        return
    asked = {EpisodeKey.parse(key).sample for key in keys}
    people = {sample.person for sample in benchmark.all_samples if sample.id in asked}
    for protocol in induced:
        taught = sum(_taught(protocol, store, person) for person in people)
        if taught:
            raise UserError(
                f"the protocol {protocol.name!r} was induced from people of this split: {taught} of {len(people)} whom "
                "this run asks about were in its training; run it on others (--split test of the same seed)"
            )


def protocols_of(settings: RunSettings) -> Iterator[GlobalProtocol]:
    """Yield the protocols that the run's methods are set to."""
    for held in settings.agent.values():
        section = held.settings if isinstance(held, Variant) else held
        files = [leaf.default for leaf in leaves(section) if leaf.name == "protocol" and leaf.default]
        yield from (read_protocol(Path(path)) for path in files)


def _taught(protocol: GlobalProtocol, store: Store, person: int) -> bool:
    origin = protocol.induced
    if origin is None or origin.source != store.spec.name:
        return False
    return split_of(person, origin.seed, origin.fractions) == TRAINING


# The data-use guard of a run: which endpoints its store's records may be sent to.


def data_use_guard(settings: RunSettings, store: Store) -> DataUseGuard:
    """Return the guard for everything a run sends anywhere: prompts to models, chart texts to encoders."""
    return DataUseGuard(sensitivity=store.spec.sensitivity, permitted=settings.run.permitted_endpoints)


# The models of a run, opened by the names it gives them: each with its own endpoint, price and sampling.


def open_models(settings: RunSettings, store: Store, concurrency: int = 1) -> dict[str, Model]:
    """Open every model of a run, and the one that walks its memory, behind the data-use guard of its store's source;
    those at one URL share an endpoint."""
    guard = data_use_guard(settings, store)
    retriever = settings.memory.graph.retriever
    names = dict.fromkeys((*settings.run.models, *([] if retriever is None else [retriever])))
    named = {name: settings.model_named(name) for name in names}
    served = {name: one for name, one in named.items() if find_model(one.name)[0].served}
    if settings.model.base_url is not None and not served:
        raise UserError(f"--base-url needs a model named openai/<name>, not {', '.join(settings.run.models)}")
    endpoints: dict[tuple[str, str | None], Endpoint] = {}
    return {name: _opened(one, guard, endpoints, concurrency, store.spec.roles) for name, one in named.items()}


def open_named_model(settings: RunSettings, store: Store, name: str) -> Model:
    """Open one model beside those that play, by its name: with its own endpoint and price, behind the same guard."""
    return _opened(settings.model_named(name), data_use_guard(settings, store), {}, 1, store.spec.roles)


def open_image_model(settings: RunSettings, guard: DataUseGuard, roles: Roles, name: str, url: str | None) -> Model:
    """Open a model that reads images for a tool: as ``models.NAME`` says of it, with its key and price; without such a
    section by its URL alone, or, where there is none, at the run's endpoint and price."""
    one = settings.model_named(name)
    if url is not None:
        one = replace(one, base_url=url) if name in settings.models else NamedModel(name=name, base_url=url)
    return _opened(one, guard, {}, 1, roles)


def _opened(
    one: NamedModel,
    guard: DataUseGuard,
    endpoints: dict[tuple[str, str | None], Endpoint],
    concurrency: int,
    roles: Roles,
) -> Model:
    """Open one; ``endpoints`` are those open so far."""
    config = ModelConfig(**asdict(one), guard=guard, roles=roles)
    if not find_model(one.name)[0].served or one.base_url is None:
        return open_model(replace(config, base_url=None))
    place = (one.base_url, one.api_key_variable)
    if place not in endpoints:
        key = _key(one.api_key_variable, "--api-key-variable")
        endpoints[place] = Endpoint(one.base_url, guard=guard, api_key=key, max_concurrent=concurrency)
    return open_model(replace(config, endpoint=endpoints[place]))


def _key(variable: str | None, named_by: str) -> str | None:
    if variable is None:
        return None
    key = os.environ.get(variable)
    if not key:
        raise UserError(  # its name is not repeated: whoever misread the option has put the key itself there
            f"the environment variable that {named_by} names is not set; it takes a variable's name, not a key"
        )
    return key


def candidates_for(settings: RunSettings, key: EpisodeKey) -> ModelSettings:
    """Return what the model of an episode is asked with."""
    one = settings.model_named(key.model)
    base = ModelSettings(temperature=one.temperature, top_p=one.top_p, presence_penalty=one.presence_penalty)
    return replace(base, max_output_tokens=settings.budget.reply_tokens, seed=key.seed(settings.run.seed) % 2**31)


# The knowledge of a run: what its manifest says of its corpora, that these are the same, and its way to the web.


_READING = frozenset({"knowledge", "web"})
"""The categories of tools that read corpora."""
_PAGES = "pages"
"""The folder of a run in which fetched pages are kept."""


def corpora_facts(settings: RunSettings, agents: Iterable[AgentSpec], store: Store) -> dict[str, Any] | None:
    """Return what the manifest says of the corpora that a run's tools may read; None where none of them does.

    Raises UserError for knowledge that cannot be opened, before anything is paid for.
    """
    more = {*settings.run.tools, *(name for agent in agents for name in agent.more_tools)}
    offered = (*open_toolset(settings.run.toolset).tools, *map(TOOLS.get, more))
    if not any(tool.category in _READING for tool in offered):
        return None
    knowledge = _opened_library(settings, store, None)
    try:
        return dict(knowledge.library.facts())
    finally:
        knowledge.close()


def open_knowledge(folder: RunFolder, store: Store) -> Knowledge:
    """Open what a run may read. UserError: its corpora are no longer those that its manifest describes."""
    facts: Mapping[str, Any] | None = folder.manifest.get("corpora")
    if facts is None:
        return Knowledge()
    knowledge = _opened_library(folder.settings, store, folder.path / _PAGES)
    now = knowledge.library.facts()
    changed = [name for name, fact in facts.items() if dict(now.get(name, {})) != dict(fact)]
    if changed:
        raise UserError(
            f"the corpus {changed[0]!r} is not what it was when this run began (documents were added, or it was "
            "removed): start a new run"
        )
    return knowledge


def _opened_library(settings: RunSettings, store: Store, pages: Path | None) -> Knowledge:
    guard, key = (
        data_use_guard(settings, store),
        _key(settings.knowledge.provider_key_variable, "knowledge.provider_key_variable"),
    )
    return Knowledge.open(settings.knowledge, guard=guard, api_key=key, pages=pages)
