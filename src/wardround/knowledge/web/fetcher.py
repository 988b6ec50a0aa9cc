"""Fetching a page: bounded in bytes, time and steps, from public servers only, through no proxy."""

from __future__ import annotations

import ssl
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from urllib.parse import urljoin

import httpcore2
import httpx2

from wardround.core import ToolFailure
from wardround.knowledge.web.network import Deadline, Network, VettedBackend
from wardround.knowledge.web.urls import WebAddress, web_address

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
        """Fetch a page; ``check`` sees every address before anything is sent there, those of redirects too.

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
        try:
            with (
                httpcore2.ConnectionPool(ssl_context=self._context(address), network_backend=backend) as pool,
                pool.stream("GET", address.text, headers=_headers(address), extensions=_times()) as response,
            ):
                found = _read(address, response)
        except (httpcore2.TimeoutException, httpcore2.NetworkError, httpcore2.ProtocolError, OSError) as error:
            late = deadline.over or isinstance(error, httpcore2.TimeoutException)
            raise _failed("took too long to answer" if late else "did not answer as a web server does") from None
        if deadline.over:  # what was read may only be the part that came in time
            raise _failed("took too long to answer")
        return found

    def _context(self, address: WebAddress) -> ssl.SSLContext | None:
        if address.scheme == "https" and self._tls is None:
            self._tls = httpx2.create_ssl_context(trust_env=False)
        return self._tls


def _failed(what: str) -> ToolFailure:
    return ToolFailure(f"the page's server {what}; try another page.")


def _headers(address: WebAddress) -> list[tuple[bytes | str, bytes | str]]:
    return [("host", address.host), *_HEADERS.items(), ("connection", "close")]


def _times() -> dict[str, object]:
    return {"timeout": dict.fromkeys(("connect", "read", "write", "pool"), _STEP_SECONDS)}


def _led_to(page: str, written: str) -> str:
    """Where a redirect leads; what a server wrote that is no address stays as it is, to be refused as one."""
    try:
        return urljoin(page, written)
    except ValueError:
        return written


def _read(address: WebAddress, response: httpcore2.Response) -> Fetched | WebAddress:
    """The page of a response, or where it leads."""
    headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in response.headers}
    if response.status in _REDIRECTS and headers.get("location"):
        return web_address(_led_to(address.text, headers["location"]))
    if response.status != 200:
        raise ToolFailure(f"the page's server answered {response.status}; try another page.")
    kind, _, parameters = headers.get("content-type", "").partition(";")
    kind = kind.strip().lower()
    if kind not in _TYPES:
        raise ToolFailure(f"the address is of {_told_type(kind)}, not of a page that can be read.")
    body = _body(response, headers)
    return Fetched(url=address.text, content_type=kind, charset=_charset(parameters), body=body)


def _told_type(kind: str) -> str:
    """A content type as it may be shown: what a server writes there can be anything."""
    plain = all(part.isalnum() or part in "/+.-" for part in kind)
    return f"type {kind[:60]}" if kind and plain else "no known type"


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
