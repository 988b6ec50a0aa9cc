"""The data-use guard: which endpoints may be sent record text.

Synthetic records may go anywhere. Text of real records stays on this machine (loopback endpoints, files) unless the
person who answers for the data declares an endpoint permitted; the declaration goes into the run's manifest.
"""

from __future__ import annotations

import ipaddress
import re
import ssl
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote
from urllib.request import getproxies, proxy_bypass

import httpx2

from wardround.core import Sensitivity, UserError

_HIDDEN = re.compile(r"(?<=//)[^/]*(?=@)|(?<=[?#]).*", re.DOTALL)
_PORTS = {"http": 80, "https": 443}
_ENCODED_DEEP = 4
"""Limit on nested percent-encodings of a path that are decoded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DataUseGuard:
    """What may leave. ``permitted`` are URLs; each permits the same scheme, host and port at its path and below."""

    sensitivity: Sensitivity = "credentialed"
    permitted: tuple[str, ...] = ()

    def check(self, endpoint: str) -> None:
        """Raise UserError unless record text may be sent to an endpoint, and through the proxy that leads there."""
        if self.allows(endpoint):
            self._check_proxy(parse_endpoint(endpoint))
            return
        kind = "openly licensed" if self.sensitivity == "open" else "credentialed (access-controlled)"
        raise UserError(
            f"the records are {kind} and {endpoint} is not on this machine: their text is not sent there; if your "
            f"data-use agreement allows it, declare it with --permit-endpoint {endpoint}"
        )

    def allows(self, endpoint: str) -> bool:
        """Whether record text may be sent to an endpoint."""
        url = parse_endpoint(endpoint)
        if self.sensitivity == "synthetic" or is_loopback(url):
            return True
        return any(_covers(parse_endpoint(permit), url) for permit in self.permitted)

    def _check_proxy(self, url: httpx2.URL) -> None:
        """A permit for an endpoint is none for the proxy that the environment puts before it."""
        proxy = environment_proxy(url)
        if proxy is None or self.sensitivity == "synthetic" or is_loopback(proxy):
            return
        if any(_is_same_server(parse_endpoint(permit), proxy) for permit in self.permitted):
            return
        shown = f"{proxy.scheme}://{proxy.host}" + (f":{proxy.port}" if proxy.port else "")
        raise UserError(
            f"the environment sends what is for {url.host} through the proxy {shown}, which is not on this machine; if "
            f"your data-use agreement allows it, add --permit-endpoint {shown}; else set NO_PROXY={url.host}"
        )

    def to_manifest(self) -> dict[str, Any]:
        """Return the guard's entry in a run's manifest."""
        return {"sensitivity": self.sensitivity, "permitted_endpoints": sorted(self.permitted)}


def parse_endpoint(text: str) -> httpx2.URL:
    """Read an http(s) URL with the parser that will also send to it. Raises UserError when it is none."""
    try:
        url = httpx2.URL(text)
    except httpx2.InvalidURL as error:
        raise UserError(
            f"{_shown(text)!r} is no URL ({_shown(str(error))}); give one such as http://127.0.0.1:8000/v1"
        ) from None
    if url.scheme not in _PORTS or not url.host:
        raise UserError(f"{_shown(text)!r} is no http(s) URL; give one such as http://127.0.0.1:8000/v1")
    if url.userinfo:
        raise UserError(f"{url.host!r}: put no user name or password in the URL; use --api-key-variable")
    if url.query or url.fragment:
        raise UserError(f"{url.host!r}: a base URL ends with its path; put nothing (a key?) after ? or # in it")
    if not _is_plain(url):
        raise UserError(f"{_shown(text)!r}: write its path without '..' and without encoded dots or slashes")
    return url


def environment_proxy(url: httpx2.URL) -> httpx2.URL | None:
    """Return the proxy that the environment names for a URL, None for this machine and what ``NO_PROXY`` lists."""
    if is_loopback(url) or proxy_bypass(url.host):
        return None
    proxies = getproxies()
    named = proxies.get(url.scheme) or proxies.get("all")
    if not named:
        return None
    try:
        return httpx2.URL(named if "://" in named else f"http://{named}")
    except httpx2.InvalidURL:
        raise UserError(f"the proxy that the environment names for {url.host} is no URL; correct or unset it") from None


def tls_context(url: httpx2.URL) -> ssl.SSLContext:
    """Return whom to trust at a URL: the usual certificates, for other machines those that the environment names.

    For plain http a context that would trust nobody, and loads nothing. Raises UserError where the named certificates
    cannot be read.
    """
    if url.scheme != "https":
        return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        return httpx2.create_ssl_context(trust_env=not is_loopback(url))
    except OSError as error:
        raise UserError(
            f"the certificates that the environment names for {url.host} cannot be read ({error.strerror or error}): "
            "correct or unset SSL_CERT_FILE and SSL_CERT_DIR"
        ) from None


def _is_plain(url: httpx2.URL) -> bool:
    """Whether a path means the same to whoever reads it: no step upwards, however it is written."""
    written = url.raw_path.decode("ascii", "replace")
    read = written
    for _ in range(_ENCODED_DEEP):
        read = unquote(read)
    steps = {step.partition(";")[0] for step in read.split("/")}
    return steps.isdisjoint((".", "..")) and "\\" not in read and read.count("/") == written.count("/")


def _shown(text: str) -> str:
    """A URL as it may be shown: without what stands before an @ or after a question mark, where keys are."""
    return _HIDDEN.sub("***", text)


def is_loopback(url: httpx2.URL) -> bool:
    """Whether a URL points at this machine by its very name (no name is resolved)."""
    if url.host == "localhost":
        return True
    try:
        return ipaddress.ip_address(url.host).is_loopback
    except ValueError:
        return False


def _covers(permit: httpx2.URL, url: httpx2.URL) -> bool:
    if not _is_same_server(permit, url):
        return False
    path = permit.path.rstrip("/")
    return url.path.rstrip("/") == path or url.path.startswith(path + "/")


def _is_same_server(permit: httpx2.URL, url: httpx2.URL) -> bool:
    if url.scheme not in _PORTS:
        return False
    return (permit.scheme, permit.host, _port(permit)) == (url.scheme, url.host, _port(url))


def _port(url: httpx2.URL) -> int:
    return url.port or _PORTS[url.scheme]
