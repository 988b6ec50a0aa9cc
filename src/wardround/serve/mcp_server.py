"""The MCP server: the tools of our own agents, for outside agents over stdio or streamable HTTP.

The access token (HTTP) or the process (stdio) decides which chart is shown, never an argument.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mcp_types as types
from mcp import MCPError
from mcp.server import Server
from mcp.server.auth.settings import AuthSettings
from mcp.server.stdio import stdio_server
from starlette.applications import Starlette

from wardround import __version__
from wardround.serve.access import SCOPE, SessionTokens
from wardround.serve.bounded import BoundedRequests
from wardround.serve.session import ServedSession
from wardround.tools import Tool, ToolResult

_INSTRUCTIONS = "Tools over one patient's record as of one moment. The prompt `task` says what is asked."
_PROMPT = "task"


def build_server(session_of_caller: Callable[[], ServedSession]) -> Server[Any]:
    """Return a server; every call is answered by the session of its caller."""

    async def list_tools(context: Any, parameters: Any) -> types.ListToolsResult:
        tools = session_of_caller().environment.toolset.tools
        return types.ListToolsResult(tools=[_as_mcp(tool) for tool in tools])

    async def call_tool(context: Any, parameters: types.CallToolRequestParams) -> types.CallToolResult:
        session = session_of_caller()
        result = await session.call(parameters.name, parameters.arguments or {})
        if not session.environment.toolset.offers(parameters.name):
            raise MCPError(
                types.INVALID_PARAMS, result.text
            )  # recorded like any call, but reported as a protocol error
        return types.CallToolResult(content=_content(result), is_error=result.is_error)

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


def _content(result: ToolResult) -> list[types.ContentBlock]:
    """Return a result as text, followed by its pictures."""
    pictures = (
        types.ImageContent(type="image", data=picture.base64, mime_type=picture.media_type)
        for picture in result.pictures
    )
    return [types.TextContent(type="text", text=result.text), *pictures]


def _as_mcp(tool: Tool) -> types.Tool:
    """Return a tool with hints: a client may call reading tools without confirmation; ``finish`` ends the session."""
    hints = types.ToolAnnotations(
        read_only_hint=tool.reads_only, destructive_hint=False, idempotent_hint=tool.reads_only, open_world_hint=False
    )
    return types.Tool(
        name=tool.name, description=tool.description, input_schema=dict(tool.parameters), annotations=hints
    )
