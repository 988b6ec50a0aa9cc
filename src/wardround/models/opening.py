"""A model by the name a person gives on the command line."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from wardround.core import Registry, UserError, find_backend, spelling
from wardround.models.client import ChatModel
from wardround.models.endpoint import Endpoint, RetryPolicy
from wardround.models.guard import DataUseGuard
from wardround.models.offline import OfflineModel
from wardround.models.protocol import Model
from wardround.models.relay import RelayModel
from wardround.models.replay import ReplayModel
from wardround.models.schema_calls import with_tool_calls
from wardround.models.settings import NamedModel
from wardround.records import Roles


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelConfig(NamedModel):
    """A model to open: its name and what is set of it, with what else its endpoint or its replies need.

    Without a guard the strictest one holds: record text stays on this machine. ``endpoint`` shares another model's
    endpoint, limit and breaker. ``roles`` are those of the source: the offline policy plans with them.
    ``rest`` is what its name goes on with.
    """

    rest: str = ""
    api_key: str | None = None
    guard: DataUseGuard = field(default_factory=DataUseGuard)
    retry: RetryPolicy | None = None
    max_concurrent: int = 64
    extra: Mapping[str, Any] | None = None
    endpoint: Endpoint | None = None
    relay_timeout_seconds: float = 3600.0
    roles: Roles | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelEntry:
    """One kind of model by name. ``takes`` is what its name goes on with, ``needs`` what has to be given with it.

    ``served``: behind an endpoint, so that ``--base-url`` is meant for it. ``recorded``: its replies are those of a
    run, made with that run's prompts.
    """

    name: str
    description: str
    open: Callable[[ModelConfig], Model]
    takes: str = ""
    rest_optional: bool = False
    needs: str = ""
    served: bool = False
    recorded: bool = False

    @property
    def spelling(self) -> str:
        """The spelling of its names."""
        return spelling(self)


MODELS: Registry[ModelEntry] = Registry("models", one="model", of=ModelEntry)
"""Every kind of model there is, by the first part of its names."""


def _open_served(opening: ModelConfig) -> Model:
    endpoint = opening.endpoint
    if endpoint is None:
        if opening.base_url is None:
            raise UserError(f"{opening.name} needs an endpoint: give --base-url, for example http://127.0.0.1:8000/v1")
        endpoint = Endpoint(
            opening.base_url,
            guard=opening.guard,
            api_key=opening.api_key,
            policy=opening.retry,
            max_concurrent=opening.max_concurrent,
        )
    model = ChatModel(opening.rest, endpoint, price=opening.known_price, extra=opening.extra, pictures=opening.pictures)
    return with_tool_calls(model, opening.tool_calls)


for _entry in (
    ModelEntry(
        name="offline",
        description="Rule-based policy: a floor, not a language model; no network, no key.",
        open=lambda opening: OfflineModel(opening.roles),
    ),
    ModelEntry(
        name="openai",
        takes="/<name>",
        description="A model behind any OpenAI-compatible server (vLLM, SGLang, llama.cpp, Ollama, a proxy, hosted).",
        needs="--base-url; --permit-endpoint for real records on another machine",
        open=_open_served,
        served=True,
    ),
    ModelEntry(
        name="replay",
        takes=":<run or log>",
        description="Recorded replies only: a run again without its model.",
        open=lambda opening: ReplayModel(Path(opening.rest)),
        recorded=True,
    ),
    ModelEntry(
        name="relay",
        takes=":<folder>",
        description="A person or a program plays the model: requests and replies are files in the folder.",
        needs="somebody who writes <n>.reply.json for each <n>.request.json",
        open=lambda opening: RelayModel(Path(opening.rest), timeout_seconds=opening.relay_timeout_seconds),
    ),
):
    MODELS.add(_entry.name, _entry)


def list_models() -> tuple[ModelEntry, ...]:
    """Every kind of model that is registered, in the order to show it."""
    return MODELS.registered


def find_model(name: str) -> tuple[ModelEntry, str]:
    """Return the entry behind a model's name and the rest of the name; UserError where there is none."""
    return find_backend(MODELS, name)


def open_model(model: str | ModelConfig) -> Model:
    """Open a model, by its name alone or with options. Raises UserError for an unknown name, a missing option or an
    endpoint the guard does not allow."""
    config = ModelConfig(name=model) if isinstance(model, str) else model
    entry, rest = find_model(config.name)
    if config.base_url is not None and not entry.served:
        raise UserError(f"{config.name} takes no --base-url; a served model is named openai/<name>")
    return entry.open(replace(config, rest=rest))
