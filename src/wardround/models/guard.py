"""The data-use guard: which endpoints may be sent record text.

Synthetic records may go anywhere. Text of real records stays on this machine (loopback endpoints, files) unless the
person who answers for the data declares an endpoint permitted; the declaration goes into the run's manifest.
"""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from typing import Any

import httpx2

from wardround.core import Sensitivity, UserError

_HIDDEN = re.compile(r"(?<=//)[^/]*(?=@)|(?<=[?#]).*", re.DOTALL)
_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True, kw_only=True)
class DataUseGuard:
    """What may leave. ``permitted`` are URLs; each permits the same scheme, host and port at its path and below."""

    sensitivity: Sensitivity = "credentialed"
    permitted: tuple[str, ...] = ()

    def check(self, endpoint: str) -> None:
        """Raise UserError unless record text may be sent to an endpoint."""
        if self.allows(endpoint):
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

    def to_manifest(self) -> dict[str, Any]:
        """What a run's manifest records of the guard."""
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
    return url


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
    if (permit.scheme, permit.host, _port(permit)) != (url.scheme, url.host, _port(url)):
        return False
    path = permit.path.rstrip("/")
    return url.path.rstrip("/") == path or url.path.startswith(path + "/")


def _port(url: httpx2.URL) -> int:
    return url.port or _PORTS[url.scheme]
