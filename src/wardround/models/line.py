"""One connection to an endpoint: HTTP/1.1 by h11 over asyncio, one request after another.

httpx2's client, its pool and anyio below it cost 0.5 ms of CPU a request, four times what is left without them; its
URLs, responses, decoders and exceptions are used. What came beside a reply is known here, where the parser is.
"""

from __future__ import annotations

import asyncio
import select
import ssl
import time
from base64 import b64encode
from collections.abc import AsyncIterator, Mapping
from urllib.parse import unquote

import h11
import httpx2

_IDLE_SECONDS = 4.0
"""A connection that lay idle for longer is not used again: many servers close theirs after five seconds."""
_MOST_WAITING_BYTES = 2**18
"""Bytes that may wait to be read before the other side has to wait."""
_MOST_HEADER_BYTES = 100 * 2**10
_EYEBALLS_SECONDS = 0.25
_PORTS = {"http": 80, "https": 443}


class _Bytes(asyncio.Protocol):
    """What has arrived on a connection and was not read yet."""

    def __init__(self) -> None:
        self.has_ended = False
        self._arrived: list[bytes] = []
        self._size = 0
        self._lost: Exception | None = None
        self._reader: asyncio.Future[None] | None = None
        self._transport: asyncio.Transport | None = None

    @property
    def transport(self) -> asyncio.Transport:
        assert self._transport is not None
        return self._transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._arrived.append(data)
        self._size += len(data)
        if self._size > _MOST_WAITING_BYTES:
            self.transport.pause_reading()
        self._wake()

    def eof_received(self) -> None:
        self.has_ended = True
        self._wake()

    def connection_lost(self, error: Exception | None) -> None:
        self.has_ended = True
        self._lost = error
        self._wake()

    def _wake(self) -> None:
        if self._reader is not None and not self._reader.done():
            self._reader.set_result(None)

    async def read(self) -> bytes:
        """Wait for bytes; none at the end. Raises ReadError where the connection broke."""
        while not self._arrived and not self.has_ended:
            self._reader = asyncio.get_running_loop().create_future()
            await self._reader
        data = b"".join(self._arrived)
        self._arrived.clear()
        if self._size > _MOST_WAITING_BYTES and not self.has_ended:
            self.transport.resume_reading()
        self._size = 0
        if not data and self._lost is not None:
            raise httpx2.ReadError(str(self._lost))
        return data

    @property
    def is_silent(self) -> bool:
        """Whether the connection stands and nothing has arrived, not even what the loop has not looked at yet."""
        if self.has_ended or self._arrived or self.transport.is_closing():
            return False
        socket = self.transport.get_extra_info("socket")
        poll = select.poll()
        poll.register(socket.fileno(), select.POLLIN)
        return not poll.poll(0)


class HttpLine(httpx2.AsyncByteStream):
    """Sends requests to one server, one at a time, on a connection that is made when it is needed.

    It is the body of the reply that was read last: read or close that before the next request. ``proxy``: where to
    connect instead; of its URL, name and password are sent to it.
    """

    def __init__(
        self,
        url: httpx2.URL,
        *,
        headers: Mapping[str, str],
        tls: ssl.SSLContext,
        proxy: httpx2.URL | None,
        connect_seconds: float,
    ) -> None:
        self._url = url
        self._tls = tls
        self._proxy = proxy
        self._connect_seconds = connect_seconds
        self._is_forwarded = proxy is not None and url.scheme == "http"
        fixed = {"host": url.netloc.decode(), "accept": "*/*", "accept-encoding": "gzip, deflate", **headers}
        if proxy is not None and self._is_forwarded:
            fixed |= _credentials(proxy)
        self._headers = [(name.encode(), value.encode()) for name, value in fixed.items()]
        self._bytes: _Bytes | None = None
        self._parser = h11.Connection(h11.CLIENT)
        self._idle_since = 0.0

    async def send(self, method: str, path: str, body: bytes) -> httpx2.Response:
        """Send a request to a path below the URL's; return the reply with its body unread.

        Raises httpx2.TransportError, or what h11 says of a request that it does not accept.
        """
        if self._bytes is None or time.monotonic() - self._idle_since > _IDLE_SECONDS or not self._bytes.is_silent:
            self.disconnect()
            self._bytes = await self._connected()
            self._parser = h11.Connection(h11.CLIENT, max_incomplete_event_size=_MOST_HEADER_BYTES)
        length = [(b"content-length", str(len(body)).encode())] if body else []
        target = self._url.raw_path.rstrip(b"/") + path.encode()
        if self._is_forwarded:
            target = f"{self._url.scheme}://{self._url.netloc.decode()}".encode() + target
        head = h11.Request(method=method, target=target, headers=[*self._headers, *length])
        sent = self._parser.send(head) or b""
        if body:
            sent += self._parser.send(h11.Data(data=body)) or b""
        self._parser.send(h11.EndOfMessage())
        self._bytes.transport.write(sent)
        event = await self._head()
        return httpx2.Response(
            event.status_code,
            headers=event.headers.raw_items(),
            stream=self,
            extensions={"reason_phrase": event.reason, "http_version": b"HTTP/" + event.http_version},
        )

    async def _head(self) -> h11.Response | h11.InformationalResponse:
        while True:
            event = await self._event()
            if isinstance(event, h11.Response) or getattr(event, "status_code", 0) == 101:
                return event  # type: ignore[return-value]

    async def _event(self) -> h11.Event | type[h11.PAUSED]:
        """Return the next part of a reply. Raises TransportError where the connection ends before it, or is no HTTP."""
        assert self._bytes is not None
        while True:
            try:
                event = self._parser.next_event()
                if event is not h11.NEED_DATA:
                    return event  # type: ignore[return-value]
                data = await self._bytes.read()
                if not data and self._parser.their_state is h11.SEND_RESPONSE:
                    raise httpx2.RemoteProtocolError("Server disconnected without sending a response.")
                self._parser.receive_data(data)
            except h11.RemoteProtocolError as error:
                raise httpx2.RemoteProtocolError(str(error)) from None

    async def __aiter__(self) -> AsyncIterator[bytes]:
        """Yield the body of the reply as it comes."""
        while True:
            event = await self._event()
            if isinstance(event, h11.Data):
                yield bytes(event.data)
            elif isinstance(event, h11.EndOfMessage) or event is h11.PAUSED:
                return

    async def aclose(self) -> None:
        """End a reply: keep the connection if its body was read to the end and nothing came after it."""
        parser = self._parser
        if parser.our_state is h11.DONE and parser.their_state is h11.DONE and not parser.trailing_data[0]:
            parser.start_next_cycle()
            self._idle_since = time.monotonic()
        else:
            self.disconnect()

    def disconnect(self) -> None:
        """Close the connection at once; the next request makes another."""
        if self._bytes is not None:
            self._bytes.transport.abort()
            self._bytes = None

    async def _connected(self) -> _Bytes:
        """Connect, through the proxy where there is one. Raises ConnectError, ConnectTimeout or ProxyError."""
        there = None
        try:
            async with asyncio.timeout(self._connect_seconds):
                if self._proxy is None:
                    return await self._connect(self._url, self._tls)
                if self._proxy.scheme not in _PORTS:
                    raise httpx2.ConnectError(f"proxies of the kind {self._proxy.scheme} are not supported")
                there = await self._connect(self._proxy, ssl.create_default_context())
                if not self._is_forwarded:
                    await self._tunnel(there, self._proxy)
                return there
        except BaseException as error:
            if there is not None:
                there.transport.abort()
            if isinstance(error, TimeoutError):
                raise httpx2.ConnectTimeout("no connection") from None
            if isinstance(error, OSError | h11.ProtocolError):
                raise httpx2.ConnectError(str(error)) from None
            raise

    async def _connect(self, url: httpx2.URL, tls: ssl.SSLContext) -> _Bytes:
        host = url.raw_host.decode("ascii")
        _, found = await asyncio.get_running_loop().create_connection(
            _Bytes,
            host,
            url.port or _PORTS[url.scheme],
            ssl=tls if url.scheme == "https" else None,
            happy_eyeballs_delay=_EYEBALLS_SECONDS,
        )
        return found

    async def _tunnel(self, there: _Bytes, proxy: httpx2.URL) -> None:
        """Ask a proxy for a way to the server, and speak TLS with the server on it."""
        target = f"{self._url.raw_host.decode('ascii')}:{self._url.port or _PORTS[self._url.scheme]}"
        asking = h11.Connection(h11.CLIENT, max_incomplete_event_size=_MOST_HEADER_BYTES)
        headers = {"host": target, "accept": "*/*", **_credentials(proxy)}
        there.transport.write(
            asking.send(h11.Request(method="CONNECT", target=target, headers=list(headers.items()))) or b""
        )
        asking.send(h11.EndOfMessage())
        while (event := asking.next_event()) is h11.NEED_DATA or isinstance(event, h11.InformationalResponse):
            if event is h11.NEED_DATA:
                asking.receive_data(await there.read())
        if not isinstance(event, h11.Response) or not 200 <= event.status_code < 300 or asking.trailing_data[0]:
            status = getattr(event, "status_code", "no")
            reason = bytes(getattr(event, "reason", b"")).decode("ascii", "replace")
            raise httpx2.ProxyError(f"the proxy answers {status} {reason}")
        host = self._url.raw_host.decode("ascii")
        loop = asyncio.get_running_loop()
        secured = await loop.start_tls(there.transport, there, self._tls, server_hostname=host)
        assert secured is not None
        there.connection_made(secured)


def _credentials(proxy: httpx2.URL) -> dict[str, str]:
    """Return the header that names us to a proxy; none where its URL holds no name."""
    if not proxy.userinfo:
        return {}
    plain = f"{unquote(proxy.username)}:{unquote(proxy.password)}"
    return {"proxy-authorization": f"Basic {b64encode(plain.encode()).decode()}"}
