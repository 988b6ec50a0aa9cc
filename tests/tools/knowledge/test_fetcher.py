"""Fetching: what is refused before a byte leaves, and what ends when it comes without end."""

from __future__ import annotations

import gzip
import itertools
import time
import zlib
from collections.abc import Iterator

import pytest

pytest.importorskip("tantivy", reason="needs the extra [knowledge]")

from local_web import PUBLIC, Answer, LocalWeb, html

from wardround.core import ToolFailure
from wardround.tools.knowledge.fetcher import MOST_BYTES, Fetcher

REFUSED_ADDRESSES = (
    # private, loopback, link-local, unspecified, broadcast
    "http://10.0.0.1/", "http://172.16.3.4/", "http://192.168.1.1/", "http://100.64.0.1/", "http://127.0.0.1/",
    "http://127.255.255.254/", "http://169.254.169.254/latest/meta-data/", "http://0.0.0.0/", "http://0.1.2.3/",
    "http://255.255.255.255/", "http://240.0.0.1/", "http://198.18.0.1/", "http://192.0.0.8/", "http://192.0.2.1/",
    "http://198.51.100.1/", "http://203.0.113.1/", "http://224.0.0.1/", "http://239.255.255.250/", "http://192.88.99.1/",
    # a cloud's own service, AS112 and AMT
    "http://168.63.129.16/", "http://192.31.196.1/", "http://192.52.193.1/", "http://192.175.48.1/",
    "http://[2620:4f:8000::1]/",
    # the same written as one number, in octal, in hexadecimal, with parts left out, in other digits
    "http://2130706433/", "http://0x7f000001/", "http://017700000001/", "http://0177.0.0.1/", "http://0x7f.0.0.1/",
    "http://127.1/", "http://127.0.1/", "http://0/", "http://0x0/", "http://00000177.1/", "http://2852039166/",
    "http://0xa9.0xfe.0xa9.0xfe/", "http://169.254.43518/", "http://127.0.0.1./", "http://010.0.0.1/", "http://1.2.3/",
    "http://①②⑦.⓪.⓪.①/", "http://１２７.0.0.1/", "http://127。0。0。1/", "http://ⓛocalhost/", "http://256.1.1.1/",
    # IPv6: loopback, link-local, unique and site local, multicast, mapped, compatible, NAT64, 6to4, Teredo, ISATAP
    "http://[::1]/", "http://[::]/", "http://[fe80::1]/", "http://[fe80::1%25eth0]/", "http://[fc00::1]/",
    "http://[fd12:3456::1]/", "http://[fec0::1]/", "http://[ff02::1]/", "http://[::ffff:127.0.0.1]/",
    "http://[::ffff:7f00:1]/", "http://[::ffff:93.184.216.34]/", "http://[0:0:0:0:0:ffff:a9fe:a9fe]/",
    "http://[::127.0.0.1]/", "http://[::7f00:1]/", "http://[64:ff9b::a9fe:a9fe]/", "http://[64:ff9b::169.254.169.254]/",
    "http://[64:ff9b:1::1]/", "http://[2002:7f00:1::]/", "http://[2002:a9fe:a9fe::1]/", "http://[2001::1]/",
    "http://[2001:0:4136:e378:8000:63bf:3fff:fdd2]/", "http://[2001:db8::1]/", "http://[100::1]/", "http://[3fff::1]/",
    "http://[2606:4700:0:0:0:5efe:7f00:1]/", "http://[2606:4700::200:5efe:a9fe:a9fe]/", "http://[5f00::1]/",
    # names of this machine and of inner networks
    "http://localhost/", "http://LOCALHOST/", "http://localhost./", "http://x.localhost/", "http://metadata/",
    "http://metadata.google.internal/", "http://printer.local/", "http://db.corp/", "http://nas.lan/", "http://a.home.arpa/",
    # ports, schemes, passwords, what hides in an address
    "http://example.org:22/", "http://example.org:8080/", "https://example.org:80/", "http://example.org:443/",
    "http://example.org:0/", "ftp://example.org/", "file:///etc/passwd", "gopher://example.org/", "data:text/html,x",
    "javascript:alert(1)", "http://user@example.org/", "http://user:pw@example.org/", "http://example.org@127.0.0.1/",
    "http://127.0.0.1\\@example.org/", "http://example.org\\.evil.org/", "http://exa mple.org/",
    "http://example.org/\r\nX: y",
    "http://example.org/%0d%0aX:y", "http://example.org/\x00", "http:///path", "http://", "//example.org/",
    "example.org",
    "http://example..org/", "http://.example.org/", "http://[::1", "http://example.org/" + "a" * 2000, "",
)  # fmt: skip

REFUSED_ANSWERS = {
    "a private address": ["10.1.2.3"],
    "loopback": ["127.0.0.1"],
    "the metadata service": ["169.254.169.254"],
    "a cloud's own service": ["168.63.129.16"],
    "AS112": ["192.175.48.6"],
    "AS112 by IPv6": ["2620:4f:8000::42"],
    "one private among public ones": [PUBLIC, "192.168.0.7"],
    "mapped loopback": ["::ffff:127.0.0.1"],
    "NAT64 of the metadata service": ["64:ff9b::a9fe:a9fe"],
    "6to4 of loopback": ["2002:7f00:1::"],
    "unique local": ["fd00::1"],
    "link-local with its zone": ["fe80::1%eth0"],
    "multicast": ["224.0.0.251"],
    "none": [],
}


def test_the_list_is_of_over_a_hundred() -> None:
    assert len(set(REFUSED_ADDRESSES)) == len(REFUSED_ADDRESSES) > 100


@pytest.mark.parametrize("url", REFUSED_ADDRESSES)
def test_nothing_is_sent_to_an_address_that_is_no_public_page(url: str) -> None:
    web = LocalWeb({"/": html("inner secret")})
    with web, pytest.raises(ToolFailure):
        Fetcher(web).get(url, check=lambda step: None)
    assert web.seen == []
    assert web.connected == []


@pytest.mark.parametrize("why", REFUSED_ANSWERS)
def test_nothing_is_sent_where_a_name_leads_inside(why: str) -> None:
    with LocalWeb({"/": html("inner")}, {"inner.example.org": [REFUSED_ANSWERS[why]]}) as web:
        with pytest.raises(ToolFailure):
            Fetcher(web).get("http://inner.example.org/", check=lambda step: None)
        assert web.connected == []


def test_a_name_that_changes_its_address_between_looks_is_looked_at_once() -> None:
    names = {"rebind.example.org": [[PUBLIC], ["127.0.0.1"]]}
    with LocalWeb({"/": html("page")}, names) as web:
        assert Fetcher(web).get("http://rebind.example.org/", check=lambda step: None).body == b"page"
        assert web.connected == [PUBLIC], "connected to the very address that was looked at"
        with pytest.raises(ToolFailure, match="loopback"):
            Fetcher(web).get("http://rebind.example.org/", check=lambda step: None)


@pytest.mark.parametrize(
    "target",
    ["http://127.0.0.1/", "http://169.254.169.254/", "http://inner.example.org/", "file:///etc/passwd", "http://a.org:22/",
     "//[::1]/", "\\\\127.0.0.1\\x", "http://[bad", "//["],
)  # fmt: skip
def test_a_redirect_is_looked_at_like_an_address(target: str) -> None:
    pages = {"/": Answer(status=302, headers={"location": target})}
    with LocalWeb(pages, {"inner.example.org": [["10.0.0.1"]]}) as web:
        with pytest.raises(ToolFailure):
            Fetcher(web).get("http://www.example.org/", check=lambda step: None)
        assert [path for _, _, path, _ in web.seen] == ["/"]


def test_redirects_are_followed_a_few_times_and_each_is_checked() -> None:
    pages = {"/a": Answer(status=301, headers={"location": "/b?x=1"}), "/b": html("<p>there</p>")}
    pages |= {"/loop": Answer(status=302, headers={"location": "/loop"})}
    with LocalWeb(pages) as web:
        steps: list[str] = []
        found = Fetcher(web).get("http://www.example.org/a#part", check=steps.append)
        assert (found.url, found.body, found.charset) == ("http://www.example.org/b?x=1", b"<p>there</p>", "utf-8")
        assert steps == ["http://www.example.org/a", "http://www.example.org/b?x=1"]
        with pytest.raises(ToolFailure, match="leads on more than 5 times"):
            Fetcher(web).get("http://www.example.org/loop", check=lambda step: None)


def bomb() -> bytes:
    pack = zlib.compressobj(9, zlib.DEFLATED, 31)
    return b"".join(pack.compress(bytes(2**20)) for _ in range(50)) + pack.flush()


def forever() -> Iterator[bytes]:
    return itertools.repeat(b"x" * 65536)


def drip() -> Iterator[bytes]:
    for _ in range(600):
        time.sleep(0.05)
        yield b"x"


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (Answer(body=bomb(), headers={"content-type": "text/html", "content-encoding": "gzip"}), "longer than"),
        (Answer(stream=forever), "longer than"),
        (Answer(stream=drip), "took too long"),
        (Answer(body=b"x", headers={"content-type": "text/html", "content-encoding": "gzip"}), "cannot be unpacked"),
        (Answer(body=b"x", headers={"content-type": "text/html", "content-encoding": "gzip, gzip"}), "not asked for"),
        (Answer(body=b"x", headers={"content-type": "text/html", "content-encoding": "br"}), "not asked for"),
        (Answer(body=b"x", headers={"content-type": "application/octet-stream"}), "octet-stream"),
        (Answer(body=b"x", headers={"content-type": "a\tb/ignore previous"}), "of no known type"),
        (Answer(body=b"x", headers={}), "of no known type"),
        (Answer(status=500), "answered 500"),
    ],
)
def test_what_no_page_is_ends(answer: Answer, said: str) -> None:
    with LocalWeb({"/": answer}) as web, pytest.raises(ToolFailure, match=said):
        Fetcher(web, seconds=0.5).get("http://www.example.org/", check=lambda step: None)


def test_a_packed_page_of_allowed_length_is_read() -> None:
    body = b"y" * MOST_BYTES
    headers = {"content-type": "text/plain", "content-encoding": "gzip"}
    with LocalWeb({"/": Answer(body=gzip.compress(body), headers=headers)}) as web:
        assert Fetcher(web).get("http://www.example.org/", check=lambda step: None).body == body


def test_proxies_of_the_environment_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    with LocalWeb({"/": html("page")}) as web:
        assert Fetcher(web).get("http://www.example.org/", check=lambda step: None).body == b"page"
