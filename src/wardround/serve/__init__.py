"""Serve: tools over MCP for outside agents, and benchmark episodes that they run. Needs the extra ``[mcp]``."""

from wardround.serve.guarded import AccessLog
from wardround.serve.mcp_server import Listening, SessionTokens, build_server, http_app, serve_stdio
from wardround.serve.play import PlayedRun, PlaySettings, read_handout
from wardround.serve.session import ServedSession, SessionLimits, SqlLane, SqlShare

__all__ = [
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
