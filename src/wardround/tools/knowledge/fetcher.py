"""Fetch pages from public servers only, bounded in bytes, time and redirects."""

from __future__ import annotations

import ipaddress
import re
import socket
import ssl
import threading
import unicodedata
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Self
from urllib.parse import urljoin

import httpcore2
import httpx2

from wardround.core import ToolFailure
from wardround.tools.knowledge.egress import NO_ADDRESS

# Which network addresses a page may be fetched from: public unicast ones, and no form of writing leads around that.


Address = ipaddress.IPv4Address | ipaddress.IPv6Address

_PUBLIC_V6 = ipaddress.IPv6Network("2000::/3")
_NOT_PUBLIC = {
    "an address for protocols": "192.0.0.0/24",
    "an address for special services": "192.31.196.0/24 192.52.193.0/24 192.175.48.0/24 2620:4f:8000::/48",
    "a cloud's own service": "168.63.129.16/32",
    "6to4": "192.88.99.0/24 2002::/16",
    "Teredo": "2001::/32",
    "an address for protocols (IPv6)": "2001::/23",
    "documentation": "2001:db8::/32 3fff::/20",
    "a private address": "10.0.0.0/8 172.16.0.0/12 192.168.0.0/16 100.64.0.0/10",
    "loopback": "127.0.0.0/8",
    "link-local": "169.254.0.0/16",
    "no address": "0.0.0.0/8",
    "a test network": "198.18.0.0/15 192.0.2.0/24 198.51.100.0/24 203.0.113.0/24",
    "multicast": "224.0.0.0/4",
    "reserved": "240.0.0.0/4",
}
_BLOCKS = [
    (why, ipaddress.ip_network(network)) for why, networks in _NOT_PUBLIC.items() for network in networks.split()
]
_INTERNAL = ("localhost", "local", "internal", "intranet", "private", "corp", "home", "lan", "arpa", "onion", "test")
_NUMBER = re.compile(r"(?:0[xX][0-9a-fA-F]*|[0-9]+)")
_ISATAP = (b"\x00\x00\x5e\xfe", b"\x02\x00\x5e\xfe")


def why_refused(address: Address) -> str | None:
    """Return why an address is refused if it is not public, else None.

    Of IPv6 only global unicast is public, without the ranges in which an IPv4 address is hidden (6to4, Teredo, ISATAP;
    mapped, compatible and NAT64 ones lie outside it anyway).
    """
    for why, network in _BLOCKS:
        if address in network:
            return why
    if isinstance(address, ipaddress.IPv6Address):
        if address not in _PUBLIC_V6 or address.scope_id is not None:
            return "no public IPv6 address"
        if address.packed[8:12] in _ISATAP:
            return "ISATAP"
    return None if address.is_global and not address.is_multicast else "no public address"


def vetted(written: str) -> Address:
    """Return the address that a resolver gave. ToolFailure: it is no public one, or none at all."""
    try:
        address = ipaddress.ip_address(written)
    except ValueError:
        raise ToolFailure("the page's server has no address that can be read; pages are fetched by name.") from None
    why = why_refused(address)
    if why is not None:
        raise ToolFailure(f"the page's server is not on the public internet ({why}); it is not fetched.")
    return address


def check_host(host: str) -> None:
    """Raise ToolFailure for a host that is not a public name or a plainly written public address."""
    bare = host.strip("[]")
    if host.startswith("[") or ":" in bare:
        vetted(bare)
        return
    if not host or unicodedata.normalize("NFKC", host) != host:
        raise ToolFailure("the address's host is written in characters that stand for others; write it plainly.")
    labels = bare.lower().rstrip(".").split(".")
    if _NUMBER.fullmatch(labels[-1]):
        vetted(bare)  # reads dotted quads only: no decimal, octal or hexadecimal number, no part left out
        return
    if len(labels) < 2 or "" in labels or labels[-1] in _INTERNAL:
        raise ToolFailure("the address's host is no public name; it is not fetched.")


# Connections to public servers only: a name is resolved once, every address it has is looked at, and the connection is
# made to one of these very addresses. Between the look and the connection no name is resolved, so none can change.


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


# URLs that may be fetched: http(s), the usual ports, a public host, nothing hidden in them.


_PORTS = {"http": 80, "https": 443}
_LONGEST = 2000
_STRANGE = re.compile(r"[\x00-\x20\x7f\\<>\"{}|^`]|%0[0da]", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class WebAddress:
    """A checked URL: ``text`` as it is sent, and the host and port to connect to."""

    text: str
    scheme: str
    host: str
    port: int
    target: str


def web_address(text: str) -> WebAddress:
    """Read a URL. ToolFailure says why it is not fetched; what the host's name resolves to is checked later."""
    if len(text) > _LONGEST:
        raise ToolFailure(f"the address is longer than {_LONGEST:,} characters; it is not fetched.")
    if _STRANGE.search(text):
        raise ToolFailure("the address holds characters that no address holds as they are; write it as a browser does.")
    try:
        url = httpx2.URL(text)
    except (httpx2.InvalidURL, ValueError):
        raise ToolFailure(NO_ADDRESS) from None
    if url.scheme not in _PORTS or not url.host:
        raise ToolFailure("only pages of http:// and https:// are fetched, and corpus:// documents are opened.")
    if url.userinfo:
        raise ToolFailure("the address holds a user name or a password; it is not fetched.")
    if url.port not in (None, _PORTS[url.scheme]):
        raise ToolFailure("the address names an unusual port; pages are fetched from 80 (http) and 443 (https) only.")
    check_host(_written_host(text))
    check_host(url.host)
    return WebAddress(
        text=str(url.copy_with(fragment=None)),
        scheme=url.scheme,
        host=url.raw_host.decode("ascii"),
        port=_PORTS[url.scheme],
        target=url.raw_path.decode("ascii"),
    )


def _written_host(text: str) -> str:
    """Return the host as it was written, before a parser changed it."""
    authority = text.partition("://")[2]
    host = re.split(r"[/?#]", authority, maxsplit=1)[0].rpartition("@")[2]
    return host if host.startswith("[") else host.partition(":")[0]


# Fetching a page: bounded in bytes, time and steps, from public servers only, through no proxy.


MOST_BYTES = 8 * 2**20
"""Of a page, decompressed."""
MOST_STEPS = 5
"""Redirects that are followed."""
_SECONDS = 30.0
_STEP_SECONDS = 10.0
_REDIRECTS = (301, 302, 303, 307, 308)
_TYPES = (
    "text/html",
    "application/xhtml+xml",
    "text/plain",
    "text/markdown",
    "application/pdf",
    "application/json",
    "text/xml",
    "application/xml",
)
_HEADERS = {
    "user-agent": "wardround (reads single pages for a medical question)",
    "accept": "text/html,application/xhtml+xml,application/pdf,text/plain;q=0.8,*/*;q=0.1",
    "accept-encoding": "gzip",
    "accept-language": "en",
}
_UNPACKABLE = "the page cannot be unpacked; try another page."
Check = Callable[[str], None]
"""Raises ToolFailure where a URL may not leave the machine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetched:
    """What a URL led to: the address in the end, the type without parameters, the charset named, the bytes."""

    url: str
    content_type: str
    charset: str | None
    body: bytes


class Fetcher:
    """Fetches pages; each call makes its own connections and closes them. ``network`` resolves and connects."""

    def __init__(self, network: Network | None = None, *, seconds: float = _SECONDS) -> None:
        self._network = network or Network()
        self._seconds = seconds
        self._tls: ssl.SSLContext | None = None

    def get(self, url: str, *, check: Check) -> Fetched:
        """Fetch a page; ``check`` sees every address before a request, including redirects.

        Raises ToolFailure in words for the model.
        """
        with Deadline(self._seconds) as deadline:
            address = web_address(url)
            for _ in range(MOST_STEPS + 1):
                check(address.text)
                found = self._step(address, deadline)
                if isinstance(found, Fetched):
                    return found
                if address.scheme == "https" and found.scheme == "http":
                    raise ToolFailure("the page leads from https to http; it is not followed there.")
                address = found
        raise ToolFailure(f"the page leads on more than {MOST_STEPS} times; it is not followed further.")

    def _step(self, address: WebAddress, deadline: Deadline) -> Fetched | WebAddress:
        backend = VettedBackend(self._network, deadline)
        headers = [("host", address.host), *_HEADERS.items(), ("connection", "close")]
        times = {"timeout": dict.fromkeys(("connect", "read", "write", "pool"), _STEP_SECONDS)}
        try:
            if address.scheme == "https" and self._tls is None:
                self._tls = httpx2.create_ssl_context(trust_env=False)
            with (
                httpcore2.ConnectionPool(ssl_context=self._tls, network_backend=backend) as pool,
                pool.stream("GET", address.text, headers=headers, extensions=times) as response,
            ):
                found = _read(address, response)
        except (httpcore2.TimeoutException, httpcore2.NetworkError, httpcore2.ProtocolError, OSError) as error:
            late = deadline.over or isinstance(error, httpcore2.TimeoutException)
            raise _failed("took too long to answer" if late else "did not answer as a web server does") from None
        if deadline.over:  # what was read may only be the part that came in time
            raise _failed("took too long to answer")
        return found


def _failed(what: str) -> ToolFailure:
    return ToolFailure(f"the page's server {what}; try another page.")


def _read(address: WebAddress, response: httpcore2.Response) -> Fetched | WebAddress:
    """Return the page of a response, or where it redirects to."""
    headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in response.headers}
    if response.status in _REDIRECTS and headers.get("location"):
        led_to = headers["location"]
        with suppress(ValueError):  # what is no address is refused as it is written
            led_to = urljoin(address.text, led_to)
        return web_address(led_to)
    if response.status != 200:
        raise ToolFailure(f"the page's server answered {response.status}; try another page.")
    kind, _, parameters = headers.get("content-type", "").partition(";")
    kind = kind.strip().lower()
    if kind not in _TYPES:
        plain = all(part.isalnum() or part in "/+.-" for part in kind)  # a server can write anything there
        shown = f"type {kind[:60]}" if kind and plain else "no known type"
        raise ToolFailure(f"the address is of {shown}, not of a page that can be read.")
    body = _body(response, headers)
    return Fetched(url=address.text, content_type=kind, charset=_charset(parameters), body=body)


def _body(response: httpcore2.Response, headers: Mapping[str, str]) -> bytes:
    packing = headers.get("content-encoding", "identity").strip().lower()
    if packing not in ("identity", "gzip", ""):
        raise ToolFailure("the page is packed in a way that was not asked for; try another page.")
    unpack = zlib.decompressobj(zlib.MAX_WBITS | 16) if packing == "gzip" else None
    parts, size = [], 0
    for chunk in response.iter_stream():
        part = chunk if unpack is None else _unpacked(unpack, chunk, MOST_BYTES + 1 - size)
        parts.append(part)
        size += len(part)
        if size > MOST_BYTES:
            raise ToolFailure(f"the page is longer than {MOST_BYTES:,} bytes; try another page.")
    if unpack is not None and not unpack.eof:
        raise ToolFailure(_UNPACKABLE)
    return b"".join(parts)


def _unpacked(unpack: zlib._Decompress, chunk: bytes, most: int) -> bytes:
    try:
        return unpack.decompress(chunk, most)
    except zlib.error:
        raise ToolFailure(_UNPACKABLE) from None


def _charset(parameters: str) -> str | None:
    for part in parameters.split(";"):
        name, _, value = part.strip().partition("=")
        if name.lower() == "charset":
            return value.strip("\"' ")[:40] or None
    return None
