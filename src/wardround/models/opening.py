"""A model by the name a person gives on the command line: where it is served, how it is called, how it is opened."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from math import inf
from pathlib import Path
from typing import Any

from wardround.core import Price, Registry, UserError, check_settings, find_backend, setting, spelling
from wardround.models.client import ChatModel
from wardround.models.endpoint import Endpoint, RetryPolicy
from wardround.models.guard import DataUseGuard
from wardround.models.offline import OfflineModel
from wardround.models.protocol import Model
from wardround.models.relay import RelayModel
from wardround.models.replay import ReplayModel
from wardround.models.schema_calls import ToolCalls, with_tool_calls
from wardround.models.wire import ShowPictures
from wardround.records import Roles


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelOptions:
    """Where a model is served and how it is called. The key itself is never written."""

    base_url: str | None = setting(
        None, "an OpenAI-compatible endpoint, e.g. http://127.0.0.1:8000/v1", unit="URL", flag="--base-url"
    )
    api_key_variable: str | None = setting(
        None,
        "environment variable that holds the endpoint's key",
        unit="name of a variable",
        flag="--api-key-variable",
    )
    tool_calls: ToolCalls = setting(
        "native",
        "how a served model gets tool calls: through the endpoint's tools, or described in the prompt with the "
        "reply bound to their schemas; auto finds out whether the server's template ignores tools",
    )
    pictures: ShowPictures = setting(
        "user",
        "where the server takes the pictures of tool results: in a user message behind them, in the tool message "
        "itself, or nowhere, with a line that lists the images",
    )
    price: tuple[float, ...] = setting((), "input,output[,cached]", unit="US dollars per million tokens")
    temperature: float | None = setting(
        0.7, "sampling temperature", source="RetroSum, appendix D.2", least=0, flag="--temperature"
    )
    top_p: float | None = setting(0.8, "nucleus sampling", source="RetroSum, appendix D.2", above=0, most=1)
    presence_penalty: float | None = setting(
        None,
        "what a token that was written already loses; none: the endpoint's own",
        source="released code of RetroSum: 1.0, and 0.0 for RetroSum without memory",
        least=-2,
        most=2,
    )

    saw_data: bool = setting(
        False,
        "these weights were trained on the data set that the questions are made of: noted beside every figure",
        source="ClinSeekAgent, section 3.2 (EHR-R1 was trained on the patients' own data set)",
    )

    parameters: float | None = setting(
        None,
        "how large the model is: what a report sets scores against",
        unit="billions of parameters",
        source="ClinSeekAgent, figure 2",
        above=0,
    )

    def __post_init__(self) -> None:
        check_settings(self)
        if self.price and (len(self.price) not in (2, 3) or not all(0 <= value < inf for value in self.price)):
            raise UserError("price takes input,output[,cached] in US dollars per million tokens")

    @property
    def known_price(self) -> Price | None:
        """The price to account with, or None when none is set."""
        if not self.price:
            return None
        return Price(input=self.price[0], output=self.price[1], cached=self.price[2] if len(self.price) > 2 else None)


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedModel(ModelOptions):
    """A model under the experiment's own name; unset options are those of all models."""

    name: str = setting("", "the model behind this name, e.g. openai/qwen3-4b")

    def __post_init__(self) -> None:
        ModelOptions.__post_init__(self)
        if not self.name:
            raise UserError('a named model needs the name of a model: name = "openai/qwen3-4b"')


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
