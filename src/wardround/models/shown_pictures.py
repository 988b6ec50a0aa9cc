"""Pictures on the wire: the bytes that messages only name, put where an endpoint takes them.

Chat-completions servers take images in user messages; most refuse them in the result of a tool. So pictures of results
go out in a user message behind the results of their turn, each under its title. A model that takes no images is told
that there were some.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Literal

from wardround.core import Message, Picture, data_url

ShowPictures = Literal["user", "tool", "none"]
_OF_RESULTS = "Pictures that belong to the results above:"
_NOT_SHOWN = "(not shown, because this model takes no images: {titles})"


def placed(messages: Sequence[Message], show: ShowPictures) -> Iterator[Message]:
    """Yield the messages with their pictures where ``show`` wants them: behind a turn's results in a ``user`` message,
    in the ``tool`` messages themselves, or nowhere."""
    waiting: list[Picture] = []
    for message in messages:
        if waiting and message.role != "tool":
            yield _behind(waiting)
            waiting = []
        if message.pictures and show == "none":
            yield _without(message)
        elif message.pictures and message.role == "tool" and show == "user":
            waiting += message.pictures
            yield replace(message, pictures=())
        else:
            yield message
    if waiting:
        yield _behind(waiting)


def _behind(pictures: Sequence[Picture]) -> Message:
    return Message(role="user", content=_OF_RESULTS, pictures=tuple(pictures))


def _without(message: Message) -> Message:
    said = _NOT_SHOWN.format(titles="; ".join(picture.title for picture in message.pictures))
    content = f"{message.content}\n{said}" if message.content else said
    return replace(message, content=content, pictures=())


def with_parts(message: Message) -> bytes:
    """Return a message with pictures as an endpoint takes it: content in parts, each picture behind its title."""
    body = message.to_wire()
    del body["pictures"]
    parts: list[dict[str, Any]] = [{"type": "text", "text": message.content}] if message.content else []
    for picture in message.pictures:
        parts.append({"type": "text", "text": picture.title})
        parts.append({"type": "image_url", "image_url": {"url": data_url(picture)}})
    body["content"] = parts
    return json.dumps(body, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "replace")
