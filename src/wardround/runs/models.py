"""The models of a run, opened by the names it gives them: each with its own endpoint, price and sampling."""

from __future__ import annotations

import os
from dataclasses import replace

from wardround.core import UserError
from wardround.models import DataUseGuard, Endpoint, Model, ModelSettings, NamedModel, find_model, open_model
from wardround.records import Roles, Store
from wardround.runs.guard import data_use_guard
from wardround.runs.settings import EpisodeKey, RunSettings


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
    if not find_model(one.name)[0].served or one.base_url is None:
        return open_model(one.name, price=one.known_price, guard=guard, tool_calls=one.tool_calls, roles=roles)
    place = (one.base_url, one.api_key_variable)
    if place not in endpoints:
        key = _api_key(one.api_key_variable)
        endpoints[place] = Endpoint(one.base_url, guard=guard, api_key=key, max_concurrent=concurrency)
    return open_model(
        one.name,
        base_url=one.base_url,
        endpoint=endpoints[place],
        price=one.known_price,
        guard=guard,
        tool_calls=one.tool_calls,
        pictures=one.pictures,
    )


def _api_key(variable: str | None) -> str | None:
    if variable is None:
        return None
    key = os.environ.get(variable)
    if not key:
        raise UserError(  # its name is not repeated: whoever misread the option has put the key itself there
            "the environment variable that --api-key-variable names is not set; it takes a variable's name, not a key"
        )
    return key


def asked_with(settings: RunSettings, key: EpisodeKey) -> ModelSettings:
    """Return what the model of an episode is asked with."""
    one = settings.model_named(key.model)
    base = ModelSettings(temperature=one.temperature, top_p=one.top_p, presence_penalty=one.presence_penalty)
    return replace(base, max_output_tokens=settings.budget.reply_tokens, seed=key.seed(settings.run.seed) % 2**31)
