"""A connection of our own to an endpoint: TLS, proxies, bodies that outrun their reader, idle connections."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from base64 import b64encode
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path
from typing import Any

import httpx2
import pytest

from wardround.models.line import HttpLine

Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
LONG = b"".join(b"%d," % number for number in range(500_000))


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate of localhost, signed by itself, with its key in one file."""
    x509 = pytest.importorskip("cryptography.x509", reason="needs the extra [view], which has cryptography")
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number(), now, now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .sign(key, hashes.SHA256())
    )
    form = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    file = tmp_path_factory.mktemp("tls") / "localhost.pem"
    file.write_bytes(key.private_bytes(*form) + made.public_bytes(serialization.Encoding.PEM))
    return file


class Server:
    """Answers each request with its first line and its headers; counts connections."""

    def __init__(self, body: bytes | None = None) -> None:
        self.connections = 0
        self._body = body

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                if b"content-length" in head:
                    await reader.readexactly(int(head.partition(b"content-length: ")[2].partition(b"\r\n")[0]))
                body = head if self._body is None else self._body
                writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(body) + body)
                await writer.drain()


class Proxy:
    """Opens the way that it is asked for, or refuses with a status; keeps what it saw."""

    def __init__(self, refusal: bytes = b"") -> None:
        self.heads: list[bytes] = []
        self._refusal = refusal

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.heads.append(await reader.readuntil(b"\r\n\r\n"))
        if self._refusal:
            writer.write(b"HTTP/1.1 %b\r\ncontent-length: 0\r\n\r\n" % self._refusal)
            return
        host, port = self.heads[-1].split()[1].split(b":")
        back, onward = await asyncio.open_connection(host.decode(), int(port))
        writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        await asyncio.gather(_pipe(reader, onward), _pipe(back, writer))


async def _pipe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(ConnectionError):
        while data := await reader.read(65536):
            writer.write(data)
    await _end(writer)


async def _end(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with contextlib.suppress(ConnectionError, ssl.SSLError):
        await writer.wait_closed()


@asynccontextmanager
async def listening(handler: Handler, certificate: Path | None = None) -> AsyncIterator[int]:
    """Serve on a port of this machine, with TLS if there is a certificate; yield the port."""
    context = None
    if certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
    tasks: list[asyncio.Task[None]] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.append(task)
        try:
            await handler(reader, writer)
        finally:
            await _end(writer)

    server = await asyncio.start_server(serve, "localhost", 0, ssl=context)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        await asyncio.gather(*tasks)


def line_to(url: str, *, trusts: Path | None = None, proxy: str | None = None) -> HttpLine:
    return HttpLine(
        httpx2.URL(url),
        headers={"authorization": "Bearer key"},
        tls=ssl.create_default_context(cafile=trusts),
        proxy=None if proxy is None else httpx2.URL(proxy),
        connect_seconds=5.0,
    )


async def sent(line: HttpLine, body: bytes = b"{}") -> bytes:
    """Send a request; return the body of the reply."""
    response = await line.send("POST", "/chat", body)
    assert isinstance(response.stream, httpx2.AsyncByteStream)
    parts = [part async for part in response.stream]
    await response.aclose()
    return b"".join(parts)


def test_a_server_with_tls_is_spoken_to_on_one_connection(certificate: Path) -> None:
    server = Server()

    async def main() -> None:
        async with listening(server, certificate) as port:
            line = line_to(f"https://localhost:{port}/v1", trusts=certificate)
            for _ in range(3):
                head = await sent(line, b'{"a": 1}')
                assert head.startswith(b"POST /v1/chat HTTP/1.1\r\n")
                assert f"\r\nhost: localhost:{port}\r\n".encode() in head
                assert b"\r\nauthorization: Bearer key\r\n" in head
                assert b"\r\ncontent-length: 8\r\n" in head
            line.disconnect()

    asyncio.run(main())
    assert server.connections == 1


def test_a_certificate_that_nobody_signed_is_refused(certificate: Path) -> None:
    async def main() -> None:
        async with listening(Server(), certificate) as port:
            with pytest.raises(httpx2.ConnectError, match="certificate verify failed"):
                await line_to(f"https://localhost:{port}/v1").send("POST", "/chat", b"{}")

    asyncio.run(main())


def test_through_a_proxy_it_sees_the_way_and_its_own_password_and_no_key(certificate: Path) -> None:
    server, proxy = Server(), Proxy()

    async def main() -> int:
        async with listening(server, certificate) as port, listening(proxy) as door:
            line = line_to(
                f"https://localhost:{port}/v1", trusts=certificate, proxy=f"http://me:p%40ss@localhost:{door}"
            )
            for _ in range(2):
                assert (await sent(line)).startswith(b"POST /v1/chat HTTP/1.1\r\n")
            line.disconnect()
            return port

    port = asyncio.run(main())
    assert server.connections == 1
    (head,) = proxy.heads
    assert head.startswith(b"CONNECT localhost:%d HTTP/1.1\r\n" % port)
    assert b"Basic " + b64encode(b"me:p@ss") in head
    assert b"key" not in head


@pytest.mark.parametrize("refusal", [b"407 Proxy Authentication Required", b"502 Bad Gateway"])
def test_a_proxy_that_opens_no_way_is_named_with_its_status(refusal: bytes) -> None:
    async def main() -> None:
        async with listening(Proxy(refusal)) as door:
            line = line_to("https://models.example/v1", proxy=f"http://localhost:{door}")
            with pytest.raises(httpx2.ProxyError, match=f"the proxy answers {refusal.decode()}"):
                await line.send("POST", "/chat", b"{}")

    asyncio.run(main())


def test_a_proxy_of_another_kind_is_named() -> None:
    line = line_to("http://models.example/v1", proxy="socks5://localhost:1")
    with pytest.raises(httpx2.ConnectError, match="proxies of the kind socks5 are not supported"):
        asyncio.run(line.send("POST", "/chat", b"{}"))


def test_a_body_that_comes_faster_than_it_is_read_arrives_whole() -> None:
    async def main() -> Any:
        async with listening(Server(LONG)) as port:
            line = line_to(f"http://localhost:{port}/v1")
            response = await line.send("POST", "/chat", b"{}")
            read = sha256()
            assert isinstance(response.stream, httpx2.AsyncByteStream)
            async for part in response.stream:
                read.update(part)
                await asyncio.sleep(0.001)
                assert len(part) < 2**20, "it waits until what came before was read"
            line.disconnect()
            return read

    assert asyncio.run(main()).digest() == sha256(LONG).digest()


def test_a_connection_that_lay_idle_too_long_is_not_used_again() -> None:
    server = Server()

    async def main() -> None:
        async with listening(server) as port:
            line = line_to(f"http://localhost:{port}/v1")
            await sent(line)
            line._idle_since -= 4.1
            await sent(line)
            line.disconnect()

    asyncio.run(main())
    assert server.connections == 2
