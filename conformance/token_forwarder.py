"""A way to our MCP server for clients that send no token: it adds one and changes nothing else."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import httpx2
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from conformance.place import free_port

_METHODS = ["GET", "POST", "DELETE", "OPTIONS", "PUT"]


@contextmanager
def forwarding(target: str, token: str) -> Iterator[str]:
    """Yield an address on loopback whose requests reach ``target`` as its own, with the token; ends with the block."""
    port = free_port()
    server = uvicorn.Server(uvicorn.Config(_app(target, token), host="127.0.0.1", port=port, log_level="error"))
    thread = threading.Thread(target=lambda: asyncio.run(server.serve()), daemon=True)
    thread.start()
    while not server.started:
        thread.join(0.02)
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join()


def _app(target: str, token: str) -> Starlette:
    http = httpx2.AsyncClient(timeout=120)

    async def forward(request: Request) -> Response:
        headers = [(name, value) for name, value in request.headers.items() if name != "connection"]
        headers.append(("authorization", f"Bearer {token}"))
        sent = http.build_request(
            request.method, f"{target}{request.url.path}", headers=headers, content=await request.body()
        )
        answer = await http.send(sent, stream=True)
        return StreamingResponse(answer.aiter_raw(), answer.status_code, headers=dict(answer.headers))

    return Starlette(routes=[Route("/{path:path}", forward, methods=_METHODS)])
