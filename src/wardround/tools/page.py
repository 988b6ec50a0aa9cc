"""Pages of a result: their size, their offset, and the cursors of the next pages.

A cursor's name is derived from what it continues (tool, arguments, offset). The same page always has the same cursor,
whatever calls came between and in whatever order parallel calls ran. A cursor means a call and an offset, never rows. A
cursor of another session is unknown.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from wardround.core import ToolFailure, content_hash
from wardround.tools.definition import ToolResult

Continuation = Callable[[], ToolResult]


class Cursors:
    """The cursors handed out in one episode."""

    def __init__(self) -> None:
        self._pages: dict[str, Continuation] = {}

    def name(self, continuation: Continuation, *identity: Any) -> str:
        """Keep a continuation under the name its identity (JSON values) gives it, and return the name."""
        cursor = "c" + content_hash(list(identity))[:9]
        self._pages[cursor] = continuation
        return cursor

    def resume(self, cursor: str) -> ToolResult:
        """Return the page of a cursor."""
        page = self._pages.get(cursor.strip().strip("'\"").removeprefix("cursor="))
        if page is None:
            raise ToolFailure(
                f"there is no cursor {cursor!r} in this session. Copy one letter by letter from an earlier result, "
                "or repeat the call that gave it."
            )
        return page()


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """One page of one result, handed to a tool: it fills at most ``tokens`` (estimated) from ``offset`` on.

    ``short``: leave out what says nothing new (the aid ``short_pages``). ``made_by`` makes the page again from another
    offset; ``identity`` (JSON values) is what its cursors are named by.
    """

    tokens: int
    short: bool
    cursors: Cursors
    made_by: Callable[[Page], ToolResult]
    identity: tuple[Any, ...]
    offset: int = 0

    def cursor(self, offset: int) -> str:
        """Return the cursor of this result from an offset on."""
        return self.cursors.name(partial(self.made_by, self._other(self.identity, offset)), *self.identity, offset)

    def of(self, **resolved: Any) -> Page:
        """Return the page of the same call with some arguments spelled as the record spells them."""
        name, arguments = self.identity
        return self._other((name, {**arguments, **resolved}), self.offset)

    def part(self, made_by: Callable[[Page], ToolResult], *identity: Any) -> Page:
        """Return the first page of something that this result shows a piece of: a long cell, a passage."""
        return replace(self, made_by=made_by, identity=identity, offset=0)

    def _other(self, identity: tuple[Any, ...], offset: int) -> Page:
        """Return another page of the same result: dataclasses.replace costs three times as much, at every call."""
        return Page(
            tokens=self.tokens,
            short=self.short,
            cursors=self.cursors,
            made_by=self.made_by,
            identity=identity,
            offset=offset,
        )
