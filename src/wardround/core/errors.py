"""Every error wardround raises on purpose; suggestions of the nearest name; safe terminal text."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, TextIO, cast

from rapidfuzz import fuzz, process

# WardroundError
# ├── UserError            the person at the keyboard: says what is wrong and what to do
# ├── RecordError          the person who owns the data: a file, row or column is not what its spec says
# ├── ToolFailure          the model: the text goes back as the tool's result, and the episode goes on
# ├── FormatError          the model: its output could not be read; carries the correction to send
# ├── LimitReached         nobody: a normal end (turns, tokens, time)
# ├── ProviderError        the run: an endpoint failed; carries status and attempts, becomes the episode's row
# │   ├── PromptTooLong    the loop: the prompt does not fit the model's window; it is rendered again in less room
# │   └── PromptWithheld   the loop: the endpoint's content filter refused the prompt; asking again would not help
# └── LeakError            everybody: something from the future was reachable; never caught below ``runs``
#
# An episode's failure is a row, never a crash. A bug in our code is a crash, never a row.


class WardroundError(Exception):
    """Root of the tree; never raised itself."""


class UserError(WardroundError):
    """Wrong use. One line: what is wrong, then what to do."""


class RecordError(WardroundError):
    """Source data that cannot be read as its spec declares it."""


class ToolFailure(WardroundError):
    """A tool call that cannot be served; the text says what was wrong and what would be right."""


class ToolBroke(WardroundError):
    """A tool raised what is no ToolFailure: a fault of ours, of a plug-in or of a library. It ends the episode."""


class FormatError(WardroundError):
    """Model output that could not be parsed. ``correction`` is the message to send back."""

    def __init__(self, message: str, *, correction: str) -> None:
        super().__init__(message)
        self.correction = correction


class LimitReached(WardroundError):
    """A budget is spent: a normal end, recorded as the episode's finish."""


class ProviderError(WardroundError):
    """An endpoint did not give a usable reply. ``status`` is None when no answer came at all."""

    def __init__(self, message: str, *, status: int | None = None, attempts: int = 1) -> None:
        super().__init__(message)
        self.status = status
        self.attempts = attempts


class PromptTooLong(ProviderError):
    """An endpoint refused a prompt for its length; the figures are the endpoint's, None where it names none."""

    def __init__(
        self,
        message: str,
        *,
        status: int | None = None,
        attempts: int = 1,
        prompt_tokens: int | None = None,
        window_tokens: int | None = None,
    ) -> None:
        super().__init__(message, status=status, attempts=attempts)
        self.prompt_tokens = prompt_tokens
        self.window_tokens = window_tokens


class PromptWithheld(ProviderError):
    """An endpoint's content filter refused a prompt: the episode ends as ``content_filter``."""


class LeakError(WardroundError):
    """A value that was not known at the as-of time was about to reach an agent."""


# Naming the nearest right thing in an error: what a model wrote, and what it probably meant.


_LISTED = 40
_LOOKED_AT = 10
_SHORTEST_PART = 3
_LONGEST = 400
"""Characters of a name that is looked at and repeated: nothing has a longer one, and likeness to it takes seconds."""


def shortened(text: str) -> str:
    """Return what was written as it may be repeated: no message grows with it."""
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def nearest(text: str, names: Iterable[str], *, limit: int = 3) -> list[str]:
    """Return up to ``limit`` names that look like ``text``, best first; empty when nothing does."""
    choices = list(names)
    wanted = text[:_LONGEST].casefold()
    found = process.extract(wanted, choices, scorer=fuzz.WRatio, processor=str.casefold, limit=_LOOKED_AT)
    return [str(name) for name, _, _ in found if _resembles(wanted, str(name).casefold())][:limit]


def _resembles(text: str, name: str) -> bool:
    """Whether a name is a likely slip of the text: most letters in order, or one within the other."""
    if len(text) >= _SHORTEST_PART and (text in name or (len(name) >= _SHORTEST_PART and name in text)):
        return True
    return fuzz.ratio(text, name) >= 60 or (min(len(text), len(name)) > 5 and fuzz.partial_ratio(text, name) >= 80)


def unknown(kind: str, text: str, names: Iterable[str]) -> str:
    """Return the sentence for a name that does not exist: the nearest ones if any, and all that exist."""
    choices = list(names)
    close = nearest(text, choices)
    hint = f" Did you mean {', '.join(map(repr, close))}?" if close else ""
    rest = f" and {len(choices) - _LISTED} more" if len(choices) > _LISTED else ""
    return f"there is no {kind} {shortened(text)!r}.{hint} Available: {', '.join(choices[:_LISTED])}{rest}."


# What others wrote, made safe to print: control characters are shown, never obeyed.


_OBEYED = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f"  # controls but tab and line feed
    "\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]"  # unseen, reordering, halves of characters
)


def printable(text: str) -> str:
    """Return a text with every control character written out (``\\u001b``), as JSON would."""
    return text if text.isascii() and text.isprintable() else _OBEYED.sub(lambda one: f"\\u{ord(one[0]):04x}", text)


class PrintableStream:
    """A text stream that prints nothing a terminal would obey. ``terminal`` is the stream behind it."""

    def __init__(self, terminal: TextIO) -> None:
        self.terminal = terminal

    def write(self, text: str) -> int:
        """Write a text, made printable."""
        self.terminal.write(printable(text))
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.terminal, name)


def printing(stream: TextIO) -> TextIO:
    """Return a stream that prints through :func:`printable`."""
    return stream if isinstance(stream, PrintableStream) else cast(TextIO, PrintableStream(stream))
