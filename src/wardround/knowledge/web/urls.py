"""URLs that may be fetched: http(s), the usual ports, a public host, nothing hidden in them."""

from __future__ import annotations

import re
from dataclasses import dataclass

import httpx2

from wardround.core import ToolFailure
from wardround.knowledge.egress import NO_ADDRESS
from wardround.knowledge.web.addresses import check_host

_PORTS = {"http": 80, "https": 443}
_LONGEST = 2000
_STRANGE = re.compile(r"[\x00-\x20\x7f\\<>\"{}|^`]|%0[0da]", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class WebAddress:
    """A URL that was checked: ``text`` as it is sent, and what is connected to."""

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
    _check_port(url)
    check_host(_written_host(text))
    check_host(url.host)
    return WebAddress(
        text=str(url.copy_with(fragment=None)),
        scheme=url.scheme,
        host=url.raw_host.decode("ascii"),
        port=_PORTS[url.scheme],
        target=url.raw_path.decode("ascii"),
    )


def _check_port(url: httpx2.URL) -> None:
    if url.port not in (None, _PORTS[url.scheme]):
        raise ToolFailure("the address names an unusual port; pages are fetched from 80 (http) and 443 (https) only.")


def _written_host(text: str) -> str:
    """The host as it was written, before a parser made another of it."""
    authority = text.partition("://")[2]
    host = re.split(r"[/?#]", authority, maxsplit=1)[0].rpartition("@")[2]
    return host if host.startswith("[") else host.partition(":")[0]
