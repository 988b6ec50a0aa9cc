"""Whether a connection is clean after a reply: bytes that came after it would be read as the reply to the next request.

That request may be another episode's. The HTTP library keeps such bytes and does not say so, so its parser is asked; a
connection whose parser is not where it is looked for counts as unclean, which costs a new connection and no answer.
"""

from __future__ import annotations

from typing import Any

import httpx2

_DEPTH = 4
"""Connections hold connections: one through a proxy and a tunnel holds three."""


def is_clean(line: httpx2.AsyncClient) -> bool:
    """Say whether nothing has come after the last reply on a client's connections."""
    pool = getattr(getattr(line, "_transport", None), "_pool", None)
    for transport in getattr(line, "_mounts", {}).values():  # a proxy's
        pool = getattr(transport, "_pool", None) or pool
    connections = getattr(pool, "connections", None)
    return connections is not None and all(map(_has_nothing_left, connections))


def _has_nothing_left(connection: Any) -> bool:
    for _ in range(_DEPTH):
        parser = getattr(connection, "_h11_state", None)
        if parser is not None:
            return not parser.trailing_data[0]
        connection = getattr(connection, "_connection", None)
    return False
