"""Which network addresses a page may be fetched from: public unicast ones, and no form of writing leads around that."""

from __future__ import annotations

import ipaddress
import re
import unicodedata

from wardround.core import ToolFailure

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
    """Say what an address is where it is no public one, else None.

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
