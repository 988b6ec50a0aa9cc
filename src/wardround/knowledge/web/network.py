"""Connections to public servers only: a name is resolved once, every address it has is looked at, and the connection is
made to one of these very addresses. Between the look and the connection no name is resolved, so none can change.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterable, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Self

import httpcore2

from wardround.core import ToolFailure
from wardround.knowledge.web.addresses import vetted


class Network:
    """How names are resolved and connections made; a test has its own."""

    def resolve(self, host: str, port: int) -> Sequence[str]:
        """Return every address of a host. ToolFailure: it has none."""
        try:
            found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError):
            raise ToolFailure("the page's server cannot be found; check the address.") from None
        return list(dict.fromkeys(str(entry[4][0]) for entry in found))

    def connect(self, address: str, port: int, seconds: float | None) -> httpcore2.NetworkStream:
        """Connect to an address."""
        return httpcore2.SyncBackend().connect_tcp(address, port, seconds)


class VettedBackend(httpcore2.NetworkBackend):
    """Where the HTTP library connects through. ``deadline`` ends connections whose time is over."""

    def __init__(self, network: Network, deadline: Deadline) -> None:
        self._network = network
        self._deadline = deadline

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> httpcore2.NetworkStream:
        """Resolve, vet all, connect to the first. ToolFailure: one of the addresses is no public one."""
        addresses = [str(vetted(one)) for one in self._network.resolve(host, port)]
        if not addresses:
            raise ToolFailure("the page's server has no address; check the page's.")
        stream = self._network.connect(addresses[0], port, timeout)
        self._deadline.watch(stream)
        return stream


class Deadline:
    """Shuts what it watches when its time is over: a server that drips bytes for ever is cut off in whatever layer."""

    def __init__(self, seconds: float) -> None:
        self.over = False
        self._watched: list[socket.socket] = []
        self._timer = threading.Timer(seconds, self._shut)
        self._timer.daemon = True

    def watch(self, stream: httpcore2.NetworkStream) -> None:
        """Watch a connection, through a handle of its own that stays whatever layer is put over it."""
        handle: socket.socket = stream.get_extra_info("socket").dup()
        self._watched.append(handle)
        if self.over:
            self._shut()

    def __enter__(self) -> Self:
        self._timer.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._timer.cancel()
        for handle in self._watched:
            handle.close()

    def _shut(self) -> None:
        self.over = True
        for handle in list(self._watched):
            with suppress(OSError):
                handle.shutdown(socket.SHUT_RDWR)
