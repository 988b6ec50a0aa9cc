"""The SQL of all sessions of a server: quick statements first, slow ones behind each other, a share for each session.

A statement is bounded by itself (``sql_gate``); twenty of them at once are not, and a neighbour would wait for all. So
each gets a moment at first, in which nearly every statement is done; one that is not starts again in the slow lane.
"""

from __future__ import annotations

import asyncio
import heapq
import time
from collections import deque
from collections.abc import Callable, Hashable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from itertools import count
from typing import TYPE_CHECKING, Any

from wardround.tools import Environment, ToolResult

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

SQL_TOOL = "run_sql_query"


@dataclass(frozen=True, slots=True, kw_only=True)
class SqlShare:
    """A session may use ``seconds`` of CPU time in any ``window_seconds``. ``together`` statements have their
    ``quick_seconds`` at once; ``slow_together`` of those that need more run to their own limit."""

    seconds: float = 2.0
    window_seconds: float = 30.0
    quick_seconds: float = 0.02
    together: int = 2
    slow_together: int = 1


class SqlLane:
    """Runs statements in threads of their own; of those that wait, the one whose session used least goes first."""

    def __init__(self, share: SqlShare | None = None, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.share = share or SqlShare()
        self._clock = clock
        self._threads = ThreadPoolExecutor(self.share.together + self.share.slow_together, thread_name_prefix="sql")
        self._quick = _Places(self.share.together)
        self._slow = _Places(self.share.slow_together)
        self._used: dict[Hashable, deque[tuple[float, float]]] = {}

    async def run(self, session: Hashable, environment: Environment, arguments: Mapping[str, Any]) -> ToolResult:
        """Run one statement of a session, or say that its share is spent."""
        spent = self.spent(session)
        if spent >= self.share.seconds:
            return self._refusal(self._used[session][0][0])
        async with self._quick.place(spent):
            result, is_done, seconds = await self._in_thread(_briefly, environment, arguments, self.share.quick_seconds)
        if not is_done:
            async with self._slow.place(spent):
                result, _, more = await self._in_thread(_briefly, environment, arguments, None)
            seconds += more
        self.note(session, seconds)
        return result

    def spent(self, session: Hashable) -> float:
        """Return what a session used in the window that ends now."""
        used = self._used.get(session, deque())
        while used and used[0][0] <= self._clock() - self.share.window_seconds:
            used.popleft()
        return sum(seconds for _, seconds in used)

    def note(self, session: Hashable, seconds: float) -> None:
        """Count what a session used."""
        self._used.setdefault(session, deque()).append((self._clock(), seconds))

    def forget(self, session: Hashable) -> None:
        """Forget a session that is over."""
        self._used.pop(session, None)

    async def _in_thread(self, work: Callable[..., _Run], *arguments: Any) -> _Run:
        return await asyncio.get_running_loop().run_in_executor(self._threads, work, *arguments)

    def _refusal(self, oldest: float) -> ToolResult:
        wait = max(1, round(oldest + self.share.window_seconds - self._clock()))
        share = f"{self.share.seconds:g} s in {self.share.window_seconds:g} s"
        text = f"Error: the SQL time of this session is spent ({share}); try again in {wait} s, or use another tool."
        return ToolResult(text=text, is_error=True)


_Run = tuple[ToolResult, bool, float]
"""A result, whether the statement came to its end (or was refused), and its CPU seconds."""


def _briefly(environment: Environment, arguments: Mapping[str, Any], seconds: float | None) -> _Run:
    """Run a statement for at most some time, its own limit if None. A session's statements never overlap."""
    gate, started = environment.gate, time.thread_time()
    whole = gate.limits
    try:
        if seconds is not None:
            gate.limits = replace(whole, seconds=min(seconds, whole.seconds))
        result = environment.call(SQL_TOOL, arguments)
    finally:
        gate.limits = whole
    return result, not gate.ran_out_of_time, time.thread_time() - started


class _Places:
    """So many places at once; of those who wait, the one who has spent least is next."""

    def __init__(self, most: int) -> None:
        self._free = most
        self._waiting: list[tuple[float, int, asyncio.Future[None]]] = []
        self._numbers = count()

    @asynccontextmanager
    async def place(self, spent: float) -> AsyncIterator[None]:
        """Hold a place."""
        await self._take(spent)
        try:
            yield
        finally:
            self._give()

    async def _take(self, spent: float) -> None:
        if self._free:
            self._free -= 1
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._waiting, (spent, next(self._numbers), turn))
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._give()  # the place had come already: pass it on
            raise

    def _give(self) -> None:
        while self._waiting:
            _, _, turn = heapq.heappop(self._waiting)
            if not turn.done():
                turn.set_result(None)
                return
        self._free += 1
