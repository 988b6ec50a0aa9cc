"""Serve: the toolset for outside agents over MCP, and episodes they play. Needs the extra ``[mcp]``."""

from wardround.serve.access import SessionTokens
from wardround.serve.mcp_server import build_server, http_app, serve_stdio
from wardround.serve.play import Game, PlaySettings, read_handout
from wardround.serve.session import Session, SessionLimits

__all__ = [
    "Game",
    "PlaySettings",
    "Session",
    "SessionLimits",
    "SessionTokens",
    "build_server",
    "http_app",
    "read_handout",
    "serve_stdio",
]
