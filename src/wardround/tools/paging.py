"""Cursors: where a result goes on.

A cursor is named by what it continues (tool, arguments, offset), so the same page has the same cursor however many
calls came between and in whatever order parallel calls ran. The environment keeps what a cursor stands for: the
call and an offset, never rows. A cursor of another environment is unknown here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from wardround.core import ToolFailure, content_hash
from wardround.tools.tool import ToolResult

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
        """Return the page a cursor stands for."""
        page = self._pages.get(cursor.strip().strip("'\"").removeprefix("cursor="))
        if page is None:
            raise ToolFailure(
                f"there is no cursor {cursor!r} in this session. Copy one letter by letter from an earlier result, "
                "or repeat the call that gave it."
            )
        return page()
