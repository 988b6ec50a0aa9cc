"""The chat-completions client: any OpenAI-compatible server is a model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from wardround.core import Price, PromptWithheld, ProviderError, content_hash
from wardround.models.endpoint import FILTER_CODES, Attempts, Endpoint, Fault
from wardround.models.protocol import Reply, Request
from wardround.models.schema import in_strict_form, refuses_form
from wardround.models.wire import (
    ReadReply,
    ShowPictures,
    as_too_long,
    encode_request,
    has_dots,
    read_reply,
    refuses_dots,
    with_own_names,
    without_dots,
)

_FILTER_STATUSES = (400, 403, 422, 451)
_SCHEMA_WORDS = ("response_format", "json_schema", "json schema", "guided", "structured", "grammar")


class ChatModel:
    """A model served behind ``/chat/completions``.

    ``served_name`` is what the server calls it; ``extra`` are fields added to every request body (for example
    ``{"chat_template_kwargs": {"enable_thinking": False}}``), and part of the model's identity. ``pictures``: in which
    messages the server takes those of tool results; anything but ``user`` is part of the identity too.
    """

    def __init__(
        self,
        served_name: str,
        endpoint: Endpoint,
        *,
        price: Price | None = None,
        extra: Mapping[str, Any] | None = None,
        pictures: ShowPictures = "user",
    ) -> None:
        self.name = f"openai/{served_name}"
        self.identity = f"{self.name}@{endpoint.base_url}"
        if extra:
            self.identity += f"#{content_hash(dict(extra))[:12]}"
        if pictures != "user":
            self.identity += f"#pictures-{pictures}"
        self._pictures: ShowPictures = pictures
        self.endpoint = endpoint
        self._served_name = served_name
        self._price = price
        self._extra = dict(extra or {})
        self._takes_schema = True
        self._takes_dots = True
        self._strict = False

    async def check(self) -> None:
        """Raise ProviderError when the endpoint cannot be reached, refuses the key, or serves no such model."""
        served = await self.endpoint.served_models()
        if served and self._served_name not in served:
            named = ", ".join(served[:8]) + (f" and {len(served) - 8} more" if len(served) > 8 else "")
            raise ProviderError(
                f"{self.endpoint.base_url} serves no model {self._served_name!r}; it serves {named}", status=404
            )

    async def complete(self, request: Request) -> Reply:
        """Ask, and ask again where that may help. Raises ProviderError with one clear line."""
        attempts = Attempts(self.endpoint.policy, f"{self.name} at {self.endpoint.base_url}")
        try:
            read = await self.endpoint.ask(
                "/chat/completions",
                self._encode(request),
                attempts=attempts,
                read=lambda data: read_reply(data, call_prefix=f"call_{request.ordinal}"),
                instead=lambda fault: self._encode(request) if self._refuses_a_part(request, fault) else None,
            )
        except ProviderError as error:
            raise as_too_long(_as_withheld(error)) from None
        reply = self._reply(read, attempts)
        return reply if self._takes_dots else replace(reply, message=with_own_names(reply.message, request))

    async def close(self) -> None:
        """Close the endpoint's connections."""
        await self.endpoint.close()

    def _encode(self, request: Request) -> bytes:
        request = request if self._takes_dots else without_dots(request)
        return encode_request(
            in_strict_form(request) if self._strict else request,
            self._served_name,
            extra=self._extra,
            with_schema=self._takes_schema,
            strict=self._strict,
            pictures=self._pictures,
        )

    def _refuses_a_part(self, request: Request, fault: Fault) -> bool:
        """Whether the server refuses an optional part of requests, which is left out from now on."""
        return (
            self._refuses_names(request, fault)
            or self._refuses_form(request, fault)
            or self._refuses_schema(request, fault)
        )

    def _refuses_form(self, request: Request, fault: Fault) -> bool:
        """Whether the server takes schemas in strict form alone; they go out so from now on."""
        if self._strict or not (request.tools or (request.response_schema is not None and self._takes_schema)):
            return False
        self._strict = refuses_form(fault.status, fault.message)
        return self._strict

    def _refuses_names(self, request: Request, fault: Fault) -> bool:
        if not self._takes_dots or not has_dots(request) or not refuses_dots(fault.status, fault.message):
            return False
        self._takes_dots = False
        return True

    def _refuses_schema(self, request: Request, fault: Fault) -> bool:
        """Whether the server has no structured output; requests leave it out from now on."""
        if request.response_schema is None or not self._takes_schema or fault.status not in (400, 422, 501):
            return False
        if not any(word in fault.message.lower() for word in _SCHEMA_WORDS):
            return False
        self._takes_schema = False
        return True

    def _reply(self, read: ReadReply, attempts: Attempts) -> Reply:
        known = "input_tokens" not in read.unreported and "output_tokens" not in read.unreported
        return Reply(
            message=read.message,
            usage=read.usage,
            finish_reason=read.finish_reason,
            model=read.model or self._served_name,
            seconds=attempts.seconds,
            attempts=attempts.count,
            cost=self._price.cost(read.usage) if self._price is not None and known else None,
            token_logprobs=read.token_logprobs,
            unreported=read.unreported,
            identity=self.identity,
            reasoning=read.reasoning,
            calls_left_out=read.calls_left_out,
        )


def _as_withheld(error: ProviderError) -> ProviderError:
    """Return the error as a PromptWithheld where a content filter refused the prompt; else itself."""
    if error.status not in _FILTER_STATUSES or not any(f"{code}: " in str(error) for code in FILTER_CODES):
        return error
    return PromptWithheld(str(error), status=error.status, attempts=error.attempts)
