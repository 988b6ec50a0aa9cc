"""One outside agent on one chart: its calls are limited and recorded; SQL time is shared fairly."""

from __future__ import annotations

import asyncio
import heapq
import json
import time
from collections import deque
from collections.abc import Callable, Hashable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from itertools import count
from typing import TYPE_CHECKING, Any

from wardround.agents import Finish, Observation, Outcome
from wardround.core import Message, ToolCall, Usage
from wardround.log import EpisodeRecorder
from wardround.models import USAGE_FIELDS, EpisodeQuestions, Reply, Request
from wardround.models.tool_questions import PURPOSE
from wardround.serve.guarded import AccessLog
from wardround.tools import Environment, ToolResult

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


# The SQL of all sessions of a server: quick statements first, slow ones one after another, a share for each session.
#
# The SQL gate limits one statement; twenty at once would make other sessions wait. So each statement first gets a short
# time, in which nearly all finish; the others start again in the slow lane.


SQL_TOOL = "run_sql_query"


@dataclass(frozen=True, slots=True, kw_only=True)
class SqlShare:
    """A session may use ``seconds`` of CPU time in any ``window_seconds``. ``together`` statements run for
    ``quick_seconds`` at once; ``slow_together`` of those that need more run up to their own limit."""

    seconds: float = 2.0
    window_seconds: float = 30.0
    quick_seconds: float = 0.02
    together: int = 2
    slow_together: int = 1


class SqlLane:
    """Runs statements in their own threads; among waiting ones, that of the session with the least time used is
    next."""

    def __init__(self, share: SqlShare | None = None, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.share = share or SqlShare()
        self._clock = clock
        self._threads = ThreadPoolExecutor(self.share.together + self.share.slow_together, thread_name_prefix="sql")
        self._quick = _Places(self.share.together)
        self._slow = _Places(self.share.slow_together)
        self._used: dict[Hashable, deque[tuple[float, float]]] = {}

    async def run(self, session: Hashable, environment: Environment, arguments: Mapping[str, Any]) -> ToolResult:
        """Run one statement of a session, or return an error if its share is used up."""
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
        """Return the CPU time that a session used in the present window."""
        used = self._used.get(session, deque())
        while used and used[0][0] <= self._clock() - self.share.window_seconds:
            used.popleft()
        return sum(seconds for _, seconds in used)

    def note(self, session: Hashable, seconds: float) -> None:
        """Count the time that a session used."""
        self._used.setdefault(session, deque()).append((self._clock(), seconds))

    def forget(self, session: Hashable) -> None:
        """Remove a session that is over."""
        self._used.pop(session, None)

    async def _in_thread(self, work: Callable[..., _Run], *arguments: Any) -> _Run:
        return await asyncio.get_running_loop().run_in_executor(self._threads, work, *arguments)

    def _refusal(self, oldest: float) -> ToolResult:
        wait = max(1, round(oldest + self.share.window_seconds - self._clock()))
        share = f"{self.share.seconds:g} s in {self.share.window_seconds:g} s"
        text = f"Error: the SQL time of this session is used up ({share}); try again in {wait} s, or use another tool."
        return ToolResult(text=text, is_error=True)


_Run = tuple[ToolResult, bool, float]
"""A result, whether the statement came to its end (or was refused), and its CPU seconds."""


def _briefly(environment: Environment, arguments: Mapping[str, Any], seconds: float | None) -> _Run:
    """Run a statement for a limited time (None: its own limit). A session's statements never overlap."""
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
    """A limited number of places; among those that wait, the session with the least time used is next."""

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
                self._give()  # the place was assigned already: pass it on
            raise

    def _give(self) -> None:
        while self._waiting:
            _, _, turn = heapq.heappop(self._waiting)
            if not turn.done():
                turn.set_result(None)
                return
        self._free += 1


# One outside agent on one chart: its calls are limited, run one after another, and recorded like our own agents'.
#
# Subject and moment are in the environment, set before the session exists; no request can change them.


_FINISHED = "this episode is finished; further calls are refused"


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionLimits:
    """``calls``: tool calls; ``seconds``: wall time from the first call on, unlimited if None."""

    calls: int = 200
    seconds: float | None = None


class ServedSession:
    """The calls of one outside agent. ``recorder`` is None if nothing is scored (a plain tool server). ``access`` logs
    every call; ``sql`` schedules the SQL of all sessions of a server."""

    def __init__(
        self,
        environment: Environment,
        *,
        name: str,
        instructions: str = "",
        recorder: EpisodeRecorder | None = None,
        limits: SessionLimits | None = None,
        access: AccessLog | None = None,
        sql: SqlLane | None = None,
    ) -> None:
        self.environment = environment
        self.name = name
        self.instructions = instructions
        self.finished = asyncio.Event()
        self.outcome: Outcome | None = None
        self._recorder = recorder
        self._access = access
        self._sql = sql
        self._limits = limits or SessionLimits()
        self._lock = asyncio.Lock()
        self._messages = [Message(role="user", content=instructions)]
        self._calls = 0
        self._ordinal = 0
        """That of the next turn: a call, or what a tool asked a model of its own."""
        self._usage = Usage()
        self._questions: EpisodeQuestions | None = None
        self._started: float | None = None

    async def call(self, name: str, arguments: Mapping[str, Any]) -> ToolResult:
        """Answer one call. Beyond a limit or after ``finish`` the answer is an error."""
        async with self._lock:
            if self.finished.is_set():
                return ToolResult(text=f"Error: {_FINISHED}", is_error=True)
            started = time.monotonic()
            self._started = self._started or started
            if self._calls + 1 >= self._limits.calls:
                self.environment.accept_any_answer()
            ordinal = self._next_ordinal()
            result = await self._answer(name, arguments)
            self._calls += 1
            self._record(ordinal, name, arguments, result, time.monotonic() - started)
            if result.answer is not None:
                self._end("finish", result)
            elif self._calls >= self._limits.calls or self.overdue():
                self._end("turn_limit")
            return result

    def _next_ordinal(self) -> int:
        """Number a call; before the first one, arrange that model calls of tools are recorded too."""
        if self._questions is None and self._recorder is not None:
            self._questions = EpisodeQuestions(
                self._recorder.episode, player=None, ordinal=lambda: self._ordinal, record=self._record_question
            )
            self.environment.ask_model = self._questions
        self._ordinal += 1
        return self._ordinal - 1

    def _record_question(self, request: Request, reply: Reply) -> None:
        self._ordinal += 1
        self._usage += reply.usage
        if self._recorder is not None:
            self._recorder.turn(request, reply, (), purpose=PURPOSE)

    async def _answer(self, name: str, arguments: Mapping[str, Any]) -> ToolResult:
        tool = self.environment.toolset.own_name(name)  # under any of its names: SQL is reached only here
        if self._sql is not None and tool == SQL_TOOL:
            result = await self._sql.run(self, self.environment, arguments)
        else:
            result = await self.environment.call_async(name, arguments)
        if self._access is not None:
            self._access.write(who=self.name, environment=self.environment, tool=tool, is_error=result.is_error)
        return result

    async def close(self) -> None:
        """End the session without an answer, if it has not ended, and free its resources."""
        async with self._lock:
            if not self.finished.is_set():
                self._end("error", error="the outside agent never finished")

    def overdue(self) -> bool:
        """Whether the time limit has passed."""
        limit = self._limits.seconds
        return limit is not None and self._started is not None and time.monotonic() - self._started > limit

    def _end(self, finish: Finish, result: ToolResult | None = None, *, error: str | None = None) -> None:
        answer = result.answer if result else None
        evidence = result.evidence if result else {}
        self.outcome = Outcome(
            answer=answer,
            evidence=evidence,
            citations=tuple(self.environment.check_evidence(answer, evidence)) if answer else (),
            finish=finish,
            turns=self._calls,
            model_calls=self._ordinal,
            usage=self._usage,
            cost=None,
            seconds=time.monotonic() - self._started if self._started else 0.0,
            error=error,
        )
        if self._questions is not None:
            self._questions.end()
        if self._recorder is not None:
            self._recorder.finish(self.outcome.to_json())
        self.environment.close()
        if self._sql is not None:
            self._sql.forget(self)
        self.finished.set()

    def _record(
        self, ordinal: int, name: str, arguments: Mapping[str, Any], result: ToolResult, seconds: float
    ) -> None:
        """Write the call as a turn: the outside model's reasoning is not visible, its calls are."""
        if self._recorder is None:
            return
        text = json.dumps(dict(arguments), ensure_ascii=False)
        call = ToolCall(id=f"outside_{self._calls}", name=name, arguments=text)
        message = Message(role="assistant", tool_calls=(call,))
        request = Request(
            messages=tuple(self._messages),
            tools=self.environment.toolset.schemas,
            episode=self._recorder.episode,
            ordinal=ordinal,
        )
        reply = Reply(
            message=message,
            usage=Usage(),
            finish_reason="tool_calls",
            model=self.name,
            identity=self.name,
            unreported=USAGE_FIELDS,
        )
        record = Observation(call=call, result=result, seconds=seconds).record
        self._recorder.turn(request, reply, [record])
        self._messages += [message, record.message]
