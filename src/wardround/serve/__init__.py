"""Serve: tools over MCP for outside agents, and benchmark episodes that they run. Needs the extra ``[mcp]``."""

from wardround.serve.access import TOKEN_SECONDS, Listening, SessionTokens
from wardround.serve.access_log import AccessLog
from wardround.serve.mcp_server import build_server, http_app, serve_stdio
from wardround.serve.play import PlayedRun, PlaySettings, read_handout
from wardround.serve.session import ServedSession, SessionLimits, SqlLane, SqlShare

__all__ = [
    "TOKEN_SECONDS",
    "AccessLog",
    "Listening",
    "PlaySettings",
    "PlayedRun",
    "ServedSession",
    "SessionLimits",
    "SessionTokens",
    "SqlLane",
    "SqlShare",
    "build_server",
    "http_app",
    "read_handout",
    "serve_stdio",
]
