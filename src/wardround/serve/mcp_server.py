"""The MCP server: the tools of our own agents, for outside agents over stdio or streamable HTTP.

The access token (HTTP) or the process (stdio) decides which chart is shown, never an argument.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import httpx2
import mcp_types as types
from mcp import MCPError
from mcp.server import Server
from mcp.server.auth.middleware.auth_context import get_access_token
from mcp.server.auth.provider import AccessToken
from mcp.server.auth.settings import AuthSettings
from mcp.server.stdio import stdio_server
from starlette.applications import Starlette

from wardround import __version__
from wardround.core import Sensitivity, UserError
from wardround.models.guard import is_loopback
from wardround.serve.guarded import BoundedRequests
from wardround.serve.session import ServedSession

# Bearer tokens: each opens exactly one session; nothing else decides which chart a caller sees.


SCOPE = "chart"
TOKEN_SECONDS = 12 * 3600.0


class SessionTokens:
    """Sessions by token; also the token verifier of the MCP SDK.

    More than ``most`` open sessions are refused, and a token expires ``seconds`` after it was issued, even if the wall
    clock is changed meanwhile.
    """

    def __init__(
        self, *, most: int = 1_000, seconds: float = TOKEN_SECONDS, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._sessions: dict[bytes, tuple[ServedSession, float]] = {}
        self._most = most
        self._seconds = seconds
        self._clock = clock

    def issue(self, session: ServedSession, token: str | None = None) -> str:
        """Open a session and return its token (a new one unless it is given)."""
        for key in [key for key in self._sessions if self._open(key) is None]:
            del self._sessions[key]
        if len(self._sessions) >= self._most:
            raise UserError(f"{self._most} sessions are open already; close some or raise the limit")
        token = token or secrets.token_urlsafe(32)
        if len(token) < 16:
            raise UserError("a token needs at least 16 characters")
        if _key(token) in self._sessions:
            raise UserError("this token is already in use")
        self._sessions[_key(token)] = (session, self._clock() + self._seconds)
        return token

    def revoke(self, token: str) -> None:
        """Close a token; later calls with it are refused."""
        self._sessions.pop(_key(token), None)

    def is_open(self, token: str) -> bool:
        """Return whether a token still opens a session."""
        return self._open(_key(token)) is not None

    async def verify_token(self, token: str) -> AccessToken | None:
        """Return the SDK's access token for a known token, None for any other."""
        found = self._open(_key(token))
        if found is None:
            return None
        return AccessToken(token=token, client_id=found[0].name, scopes=[SCOPE])  # expiry is checked here

    def current(self) -> ServedSession:
        """Return the session of the request being served; PermissionError without a valid token."""
        access = get_access_token()
        found = self._open(_key(access.token)) if access else None
        if found is None:
            raise PermissionError("there is no session for this token, or it has expired")
        return found[0]

    def _open(self, key: bytes) -> tuple[ServedSession, float] | None:
        """Return a session and the expiry of its token; None for an unknown or expired token."""
        found = self._sessions.get(key)
        return None if found is None or found[1] <= self._clock() else found


def _key(token: str) -> bytes:
    """Return the hash of a token, which is the key of its session: the time of a look-up reveals nothing about a
    guess."""
    return sha256(token.encode()).digest()


# Where a server may listen: record text and tokens leave this machine encrypted, unless a person allows plain HTTP.


@dataclass(frozen=True, slots=True, kw_only=True)
class Listening:
    """An address and its protection: a certificate with its key, or ``plain_http`` if a person allows it explicitly."""

    host: str = "127.0.0.1"
    port: int = 8765
    certificate: Path | None = None
    key: Path | None = None
    plain_http: bool = False

    @property
    def scheme(self) -> str:
        """``https`` with a certificate, else ``http``."""
        return "http" if self.certificate is None else "https"

    @property
    def origin(self) -> str:
        """Scheme, host and port."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}"

    @property
    def url(self) -> str:
        """The URL for clients."""
        return f"{self.origin}/mcp"

    @property
    def tls_options(self) -> dict[str, Any]:
        """The options for uvicorn."""
        return {} if self.certificate is None else {"ssl_certfile": self.certificate, "ssl_keyfile": self.key}

    def check(self, sensitivity: Sensitivity) -> None:
        """Raise UserError if credentialed records would be sent unencrypted over a network."""
        for file in (self.certificate, self.key):
            if file is not None and not file.is_file():
                raise UserError(f"{str(file)!r}: no such file; give a certificate and its key in PEM format")
        if sensitivity != "credentialed" or self.scheme == "https" or self.plain_http:
            return
        if not is_loopback(httpx2.URL(self.url)):
            raise UserError(
                f"charts of credentialed records are not served to {self.host} over plain HTTP, which every machine in "
                f"between can read; give --tls-certificate FILE --tls-key FILE, or say --plain-http if something else "
                f"encrypts (a tunnel, a reverse proxy)"
            )


# The server.


_INSTRUCTIONS = "Tools over one patient's record as of one moment. The prompt `task` says what is asked."
_PROMPT = "task"


def build_server(session_of_caller: Callable[[], ServedSession]) -> Server[Any]:
    """Return a server; every call is answered by the session of its caller."""

    async def list_tools(context: Any, parameters: Any) -> types.ListToolsResult:
        tools = session_of_caller().environment.toolset.tools
        return types.ListToolsResult(
            tools=[
                types.Tool(
                    name=tool.name,
                    description=tool.description,
                    input_schema=dict(tool.parameters),
                    annotations=types.ToolAnnotations(  # a client may call reading tools without confirmation
                        read_only_hint=tool.reads_only,
                        destructive_hint=False,
                        idempotent_hint=tool.reads_only,
                        open_world_hint=False,
                    ),
                )
                for tool in tools
            ]
        )

    async def call_tool(context: Any, parameters: types.CallToolRequestParams) -> types.CallToolResult:
        session = session_of_caller()
        result = await session.call(parameters.name, parameters.arguments or {})
        if not session.environment.toolset.offers(parameters.name):
            raise MCPError(
                types.INVALID_PARAMS, result.text
            )  # recorded like any call, but reported as a protocol error
        pictures = (
            types.ImageContent(type="image", data=picture.base64, mime_type=picture.media_type)
            for picture in result.pictures
        )
        text = types.TextContent(type="text", text=result.text)
        return types.CallToolResult(content=[text, *pictures], is_error=result.is_error)

    async def list_prompts(context: Any, parameters: Any) -> types.ListPromptsResult:
        has_task = bool(session_of_caller().instructions)
        prompt = types.Prompt(name=_PROMPT, description="What is asked of you, about whom, as of when.")
        return types.ListPromptsResult(prompts=[prompt] if has_task else [])

    async def get_prompt(context: Any, parameters: types.GetPromptRequestParams) -> types.GetPromptResult:
        session = session_of_caller()
        if parameters.name != _PROMPT or not session.instructions:
            raise MCPError(types.INVALID_PARAMS, f"no prompt {parameters.name!r}")
        content = types.TextContent(type="text", text=session.instructions)
        return types.GetPromptResult(messages=[types.PromptMessage(role="user", content=content)])

    return Server(
        "wardround",
        version=__version__,
        instructions=_INSTRUCTIONS,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        on_list_prompts=list_prompts,
        on_get_prompt=get_prompt,
    )


async def serve_stdio(session: ServedSession) -> None:
    """Serve one session over standard input and output until the client disconnects."""
    server = build_server(lambda: session)
    async with stdio_server() as (incoming, outgoing):
        await server.run(incoming, outgoing, server.create_initialization_options())


def http_app(tokens: SessionTokens, *, host: str, port: int, scheme: str = "http") -> Starlette:
    """Return the streamable-HTTP application; every request needs a bearer token that ``tokens`` issued."""
    address = f"{scheme}://{host}:{port}"
    auth = AuthSettings.model_validate(
        {
            "issuer_url": address,
            "resource_server_url": f"{address}/mcp",
            "required_scopes": [SCOPE],
            "validate_token_resource": False,  # tokens are issued only by this server
        }
    )
    server = build_server(tokens.current)
    app = server.streamable_http_app(
        host=host, auth=auth, token_verifier=tokens, stateless_http=True, json_response=True
    )
    app.add_middleware(BoundedRequests)
    return app
