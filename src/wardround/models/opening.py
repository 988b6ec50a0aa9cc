"""A model by the name a person gives on the command line."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from wardround.core import Price, UserError
from wardround.models.client import ChatModel
from wardround.models.endpoint import Endpoint
from wardround.models.guard import DataUseGuard
from wardround.models.offline import OfflineModel
from wardround.models.protocol import Model
from wardround.models.relay import RelayModel
from wardround.models.replay import ReplayModel
from wardround.models.retry import RetryPolicy
from wardround.models.schema_calls import with_tool_calls


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelEntry:
    """What can be opened. ``needs`` says what has to be given with it."""

    name: str
    description: str
    needs: str = ""


_ENTRIES = (
    ModelEntry(name="offline", description="Rule-based policy: a floor, not a language model; no network, no key."),
    ModelEntry(
        name="openai/<name>",
        description="A model behind any OpenAI-compatible server (vLLM, SGLang, llama.cpp, Ollama, a proxy, hosted).",
        needs="--base-url; --permit-endpoint for real records on another machine",
    ),
    ModelEntry(name="replay:<run or log>", description="Recorded replies only: a run again without its model."),
    ModelEntry(
        name="relay:<folder>",
        description="A person or a program plays the model: requests and replies are files in the folder.",
        needs="somebody who writes <n>.reply.json for each <n>.request.json",
    ),
)


def list_models() -> tuple[ModelEntry, ...]:
    """Everything ``open_model`` knows, in the order to show it."""
    return _ENTRIES


def open_model(
    name: str,
    *,
    base_url: str | None = None,
    api_key: str | None = None,
    price: Price | None = None,
    guard: DataUseGuard | None = None,
    retry: RetryPolicy | None = None,
    max_concurrent: int = 64,
    extra: Mapping[str, Any] | None = None,
    endpoint: Endpoint | None = None,
    relay_timeout_seconds: float = 3600.0,
    tool_calls: str = "native",
) -> Model:
    """Open a model. Without a guard the strictest one holds: record text stays on this machine.

    ``endpoint`` shares another model's endpoint, limit and breaker. Raises UserError for an unknown name, a missing
    option or an endpoint the guard does not allow. ``tool_calls``: how a served model is asked for them
    (``native``, ``schema``, ``auto``; see :mod:`wardround.models.schema_calls`).
    """
    backend, _, rest = name.partition("/")
    if backend == "openai" and rest:
        if endpoint is None:
            if base_url is None:
                raise UserError(f"{name} needs an endpoint: give --base-url, for example http://127.0.0.1:8000/v1")
            endpoint = Endpoint(
                base_url, guard=guard or DataUseGuard(), api_key=api_key, policy=retry, max_concurrent=max_concurrent
            )
        return with_tool_calls(ChatModel(rest, endpoint, price=price, extra=extra), tool_calls)
    if base_url is not None:
        raise UserError(f"{name} takes no --base-url; a served model is named openai/<name>")
    kind, _, place = name.partition(":")
    if kind == "replay" and place:
        return ReplayModel(Path(place))
    if kind == "relay" and place:
        return RelayModel(Path(place), timeout_seconds=relay_timeout_seconds)
    if name == "offline":
        return OfflineModel()
    known = [entry.name for entry in _ENTRIES]
    near = get_close_matches(name, known, n=1)
    hint = f"did you mean {near[0]}? " if near else ""
    raise UserError(f"unknown model {name!r}; {hint}known are {', '.join(known)}")
