"""Outside agents run a benchmark's episodes over MCP; each is recorded and scored like those of our own agents.

The handout, one JSON line per episode, has the prompt, the address and the token. It opens patient charts, so only the
owner of the file may read it.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import uvicorn

from wardround.core import Progress, Reporter, UserError, silent
from wardround.log import EpisodeLog
from wardround.runs import (
    EpisodeKey,
    RunFolder,
    WorkQueue,
    episode_facts,
    open_benchmark,
    open_environment,
    open_store,
)
from wardround.runs.models import open_knowledge
from wardround.runs.worker import open_run_images
from wardround.serve.guarded import AccessLog
from wardround.serve.mcp_server import TOKEN_SECONDS, Listening, SessionTokens, http_app, serve_stdio
from wardround.serve.session import ServedSession, SessionLimits, SqlLane
from wardround.tasks.benchmarks import ask
from wardround.tools import EnvironmentOptions

HANDOUT = "handout.jsonl"
ACCESS_LOG = "access.jsonl"
_POLL_SECONDS = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaySettings:
    """``together``: the number of episodes open at once; ``seconds``: the time limit of one, from its first call."""

    listening: Listening = field(default_factory=Listening)
    together: int = 100
    token_seconds: float = TOKEN_SECONDS
    limits: SessionLimits = field(default_factory=SessionLimits)


class PlayedRun:
    """One run with outside agents."""

    def __init__(self, folder: RunFolder, settings: PlaySettings, report: Reporter = silent) -> None:
        self.folder = folder
        self.settings = settings
        self.store = open_store(folder)
        self.benchmark = open_benchmark(folder)
        self.images = open_run_images(folder.settings, self.store)
        self.knowledge = open_knowledge(folder, self.store)
        self.samples = {sample.id: sample for sample in self.benchmark.all_samples}
        self.queue = WorkQueue(folder.queue)
        self.queue.reclaim()
        self.log = EpisodeLog(folder.new_log())
        self.tokens = SessionTokens(most=max(1_000, settings.together), seconds=settings.token_seconds)
        self.access = AccessLog(folder.path / ACCESS_LOG)
        self.sql = SqlLane()
        self._report = report

    def open_session(self, key: str) -> ServedSession:
        """Return a new session on an episode's subject and moment, recorded under its key."""
        episode = EpisodeKey.parse(key)
        sample = self.samples[episode.sample]
        run = self.folder.settings
        options = EnvironmentOptions(
            max_result_tokens=run.budget.result_tokens, aids=run.aids, knowledge=self.knowledge
        )
        environment = open_environment(
            self.store,
            self.benchmark,
            sample,
            options,
            toolset=run.run.toolset,
            more_tools=run.run.tools,
            images=self.images,
        )
        return ServedSession(
            environment,
            name=episode.model,
            instructions=ask(self.benchmark, sample, rules=run.aids.answer_rules, outside=True),
            recorder=self.log.begin(key, episode_facts(episode, sample, self.benchmark)),
            limits=self.settings.limits,
            access=self.access,
            sql=self.sql,
        )

    async def over_http(self) -> None:
        """Serve until every episode of the run is finished."""
        listening = self.settings.listening
        listening.check(self.store.spec.sensitivity)
        app = http_app(self.tokens, host=listening.host, port=listening.port, scheme=listening.scheme)
        config = uvicorn.Config(
            app,
            host=listening.host,
            port=listening.port,
            log_level="warning",
            lifespan="on",
            **listening.tls_options,
        )
        server = uvicorn.Server(config)
        serving = asyncio.create_task(server.serve())
        try:
            while not server.started:
                if serving.done():
                    raise UserError(f"cannot listen on {listening.host}:{listening.port}; try another --port")
                await asyncio.sleep(0.01)
            await self._hand_out()
        finally:
            server.should_exit = True
            with contextlib.suppress(asyncio.CancelledError, SystemExit):
                await serving
            self.log.close()
            self.queue.close()

    async def over_stdio(self) -> None:
        """Serve the run's next episode to the client on standard input and output."""
        leased = self.queue.lease(1)
        if not leased:
            raise UserError("every episode of this run is finished")
        session = self.open_session(leased[0])
        try:
            await serve_stdio(session)
            await session.close()
            self.queue.done(leased[0])
        finally:
            self.log.close()
            self.queue.close()

    async def _hand_out(self) -> None:
        """Keep up to ``together`` episodes open, write their handout lines, and close those that are over."""
        handout = self.folder.path / HANDOUT
        handout.unlink(missing_ok=True)
        open_sessions: dict[str, tuple[str, ServedSession]] = {}
        try:
            while True:
                for key in self.queue.lease(self.settings.together - len(open_sessions)):
                    session = self.open_session(key)
                    token = self.tokens.issue(session)
                    open_sessions[key] = (token, session)
                    self._write(handout, key, token, session)
                if not open_sessions:
                    return
                await asyncio.sleep(_POLL_SECONDS)
                await self._close_finished(open_sessions)
                counts = self.queue.counts()
                self._report(Progress(label="played", done=counts.done, total=counts.total, unit="episodes"))
        finally:
            for key in open_sessions:
                self.queue.give_back(key)

    async def _close_finished(self, open_sessions: dict[str, tuple[str, ServedSession]]) -> None:
        for key, (token, session) in list(open_sessions.items()):
            if session.overdue() or not self.tokens.is_open(token):
                await session.close()
            if session.finished.is_set():
                self.tokens.revoke(token)
                self.queue.done(key)
                del open_sessions[key]

    def _write(self, handout: Path, key: str, token: str, session: ServedSession) -> None:
        line = {
            "episode": key,
            "url": self.settings.listening.url,
            "token": token,
            "prompt": session.instructions,
        }
        descriptor = os.open(handout, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
            stream.write(json.dumps(line, ensure_ascii=False) + "\n")


def read_handout(folder: RunFolder) -> Iterable[dict[str, str]]:
    """Read the lines of the handout written so far."""
    for line in (folder.path / HANDOUT).read_text(encoding="utf-8").splitlines():
        yield json.loads(line)
