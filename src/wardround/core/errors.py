"""Every error wardround raises on purpose, sorted by who reads it.

    WardroundError
    ├── UserError       the person at the keyboard: says what is wrong and what to do
    ├── RecordError     the person who owns the data: a file, row or column is not what its spec says
    ├── ToolFailure     the model: the text goes back as the tool's result, and the episode goes on
    ├── FormatError     the model: its output could not be read; carries the correction to send
    ├── LimitReached    nobody: a normal end (turns, tokens, time)
    ├── ProviderError   the run: an endpoint failed; carries status and attempts, becomes the episode's row
    │   ├── PromptTooLong   the loop: the prompt does not fit the model's window; it is rendered again in less room
    │   └── PromptWithheld  the loop: the endpoint's content filter refused the prompt; asking again would not help
    └── LeakError       everybody: something from the future was reachable; never caught below ``runs``

An episode's failure is a row, never a crash. A bug in our code is a crash, never a row.
"""

from __future__ import annotations


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
