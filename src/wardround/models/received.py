"""What an endpoint sent, taken in safely: bounded bytes, one JSON value, texts in one masked and printable line.

Nothing an endpoint writes goes any other way, so that no bytes of it can end a run, fill the memory, print the key or
command a terminal.
"""

from __future__ import annotations

import json
from typing import Any

import httpx2

from wardround.core import Secret, printable
from wardround.models.withheld import FILTER_CODES

MOST_BODY_BYTES = 16 * 2**20
"""Of a reply, decompressed. Room for the log-probabilities of a long reply or the vectors of a batch of texts."""
MOST_VALUES = 1_000_000
"""JSON values in a body: an empty list of three bytes takes 64 bytes of memory."""
_ERROR_BYTES = 64 * 2**10
_LINE_CHARACTERS = 300


class MalformedReply(ValueError):
    """The endpoint said 200 and then nothing that reads as what was asked for."""


async def read_body(response: httpx2.Response, secret: Secret | None) -> bytes:
    """Read a body as it streams in. MalformedReply: a good one is over its bound; of an error its start is enough."""
    if "," in response.headers.get("content-encoding", ""):
        raise MalformedReply("the reply is compressed more than once")
    most = MOST_BODY_BYTES if response.is_success else _ERROR_BYTES
    parts: list[bytes] = []
    size = 0
    async for part in response.aiter_bytes():
        parts.append(part)
        size += len(part)
        if size > most:
            break
    if size > most and response.is_success:
        raise MalformedReply(f"the reply is longer than {most:,} bytes")
    body = b"".join(parts)
    return body if secret is None else secret.masked_bytes(body)


def read_json(body: bytes, secret: Secret | None) -> Any:
    """Read a body's value. MalformedReply: it is not JSON, or more than any reply needs."""
    if sum(map(body.count, (b",", b"[", b"{"))) > MOST_VALUES:
        raise MalformedReply(f"the reply holds more than {MOST_VALUES:,} values")
    try:
        value = json.loads(body)
        return value if secret is None else secret.masked_value(value)
    except RecursionError:
        raise MalformedReply("the reply is nested too deep") from None
    except ValueError as error:
        raise MalformedReply(f"the reply is not JSON ({one_line(str(error), secret)})") from None


def one_line(text: str, secret: Secret | None = None) -> str:
    """Return a text that came from outside as one line: masked first, then printable, then cut."""
    text = text if secret is None else secret.masked(text)
    text = printable(" ".join(text.split()))
    return text if len(text) <= _LINE_CHARACTERS else text[: _LINE_CHARACTERS - 3] + "..."


def error_text(data: Any, secret: Secret | None = None) -> str:
    """What an error body says, in one line; empty when it says nothing."""
    if isinstance(data, dict):
        error = data.get("error", data.get("detail", data.get("message")))
        data = _worded(error) if isinstance(error, dict) else error
    if data is None:
        return ""
    try:
        return one_line(data if isinstance(data, str) else json.dumps(data, ensure_ascii=False), secret)
    except RecursionError:
        return "(nested too deep to show)"


def _worded(error: dict[str, Any]) -> Any:
    """The message of an error; after the code, where that says that a content filter refused the prompt."""
    message = error.get("message", error)
    code = error.get("code")
    return f"{code}: {message}" if code in FILTER_CODES and isinstance(message, str) else message


def said(body: bytes, secret: Secret | None) -> str:
    """What the body of an error says, JSON or text in any encoding, in one line."""
    try:
        return error_text(read_json(body, secret), secret)
    except MalformedReply:
        return one_line(body.decode("utf-8", "replace"), secret)
