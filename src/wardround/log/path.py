"""The place of a prompt in the message tree, followed from turn to turn at the price of what is new."""

from __future__ import annotations

from wardround.core import Message, chain_hash

ROOT = b""
"""The parent of a first message."""


class PromptPath:
    """The chain hashes of the latest prompt. ``follow`` hashes only messages that were not in the previous one."""

    def __init__(self) -> None:
        self.messages: tuple[Message, ...] = ()
        self.hashes: list[bytes] = []
        self._bytes_until: list[int] = [0]

    def follow(self, messages: tuple[Message, ...]) -> int:
        """Move to a prompt; return how many of its leading messages the previous prompt had too."""
        shared = self._shared(messages)
        del self.hashes[shared:]
        del self._bytes_until[shared + 1 :]
        parent = self.hashes[-1] if self.hashes else ROOT
        for message in messages[shared:]:
            parent = chain_hash(parent, message)
            self.hashes.append(parent)
            self._bytes_until.append(self._bytes_until[-1] + len(message.wire))
        self.messages = messages
        return shared

    @property
    def tip(self) -> bytes:
        """The hash that names the whole prompt."""
        return self.hashes[-1] if self.hashes else ROOT

    def size_bytes(self, count: int) -> int:
        """Wire bytes of the first ``count`` messages."""
        return self._bytes_until[count]

    def _shared(self, messages: tuple[Message, ...]) -> int:
        previous = self.messages
        if messages[: len(previous)] == previous:
            return len(previous)
        limit = min(len(previous), len(messages))
        pairs = enumerate(zip(previous, messages, strict=False))  # the same object is equal, without looking into it
        return next((index for index, (old, new) in pairs if old is not new and old != new), limit)
