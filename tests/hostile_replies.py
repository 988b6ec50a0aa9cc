"""What an endpoint can send instead of a reply: more than a hundred kinds, by name. KEY is in many of them."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import quote

from fake_server import Answer, completion, error, text, tools

KEY = "sk-Hostile_0123456789-abcdef"
DEEP = 200_000
ESCAPES = "\x1b]0;owned\x07\x1b[2J\x9b31m \u202egnp.exe\u202c \x00\x08\r"
CHARSETS = ("zlib", "hex", "idna", "undefined", "utf-7", "rot13", "unicode_escape", "punycode", "base64", "no-such", "")
ODD_JSON = {
    "null": b"null",
    "true": b"true",
    "infinity": b"Infinity",
    "huge-number": b"1" * 5000,
    "text": b'"choices"',
    "list": b"[]",
    "object": b"{}",
    "empty": b"",
    "space": b" \n ",
    "cut-off": b'{"choices": [{"message": {"content": "half',
    "trailing": text("ok").body + b"}",
    "two": text("ok").body * 2,
    "stream": b"data: " + text("ok").body + b"\n\ndata: [DONE]\n\n",
    "html": b"<!doctype html><html><title>502</title>" + KEY.encode() + b"</html>",
    "no-utf-8": b'{"choices": [{"message": {"content": "\xff\xfe\xc0\x80"}}]}',
    "utf-16": text("ok").body.decode().encode("utf-16"),
    "utf-32": text("ok").body.decode().encode("utf-32"),
    "byte-order-mark": b"\xef\xbb\xbf" + text("ok").body,
    "nulls": b"\x00" * 1000,
    "deep-lists": b"[" * DEEP,
    "deep-closed": b"[" * DEEP + b"]" * DEEP,
    "deep-objects": b'{"a":' * DEEP,
    "many-lists": b'{"choices": [' + b"[]," * 3_000_000 + b"[]]}",
    "error-in-200": json.dumps({"error": {"message": f"wrong key {KEY}"}}).encode(),
    "error-escaped": json.dumps({"error": "".join(f"\\u{ord(c):04x}" for c in KEY)}).replace("\\\\u", "\\u").encode(),
    "error-deep": b'{"error": {"message": ' + b"[" * 900 + b"]" * 900 + b"}}",
}
ODD_CHOICES: dict[str, Any] = {
    "null": None,
    "text": "x",
    "empty": [],
    "of-null": [None],
    "message-null": [{"message": None}],
    "message-text": [{"message": "x"}],
    "content-number": [{"message": {"content": 5}}],
    "content-object": [{"message": {"content": {"text": "x"}}}],
    "content-parts": [{"message": {"content": [None, 5, {"text": 5}, {"text": "ok"}, "x"]}}],
    "content-escapes": [{"message": {"content": ESCAPES}}],
    "content-key": [{"message": {"content": f"Your key is {KEY}", "reasoning": f"{KEY}!"}}],
    "content-halves": [{"message": {"content": "\ud800 half \udfff"}}],
    "content-long": [{"message": {"content": "x" * 3_000_000}}],
    "content-brackets": [{"message": {"content": "[" * 300_000}}],
    "calls-text": [{"message": {"tool_calls": "x"}}],
    "calls-object": [{"message": {"tool_calls": {"0": {}}}}],
    "calls-of-null": [{"message": {"tool_calls": [None]}}],
    "calls-empty-object": [{"message": {"tool_calls": [{}]}}],
    "calls-function-null": [{"message": {"tool_calls": [{"id": None, "function": None}]}}],
    "calls-name-object": [{"message": {"tool_calls": [{"id": 5, "function": {"name": {"a": 1}, "arguments": 5}}]}}],
    "calls-name-escapes": [{"message": {"tool_calls": [{"function": {"name": ESCAPES, "arguments": "{}"}}]}}],
    "calls-name-long": [{"message": {"tool_calls": [{"function": {"name": "n" * 100_000, "arguments": "{}"}}]}}],
    "calls-same-id": [{"message": {"tool_calls": [{"id": "a", "function": {"name": "think"}}] * 5}}],
    "calls-deep-text": [{"message": {"tool_calls": [{"function": {"name": "finish", "arguments": "[" * DEEP}}]}}],
    "calls-deep-object": [
        {"message": {"tool_calls": [{"function": {"name": "finish", "arguments": '{"response":' * 900}}]}}
    ],
    "calls-halves": [{"message": {"tool_calls": [{"function": {"name": "\ud800", "arguments": '"\ud800"'}}]}}],
    "finish-odd": [{"message": {"content": "ok"}, "finish_reason": ["stop"]}],
    "finish-unknown": [{"message": {"content": "ok"}, "finish_reason": "exploded"}],
    "finish-length": [{"message": {"content": "ok"}, "finish_reason": "length"}],
    "finish-filtered": [{"message": {"content": None}, "finish_reason": "content_filter"}],
    "logprobs-odd": [{"message": {"content": "ok"}, "logprobs": {"content": [{"logprob": "x"}, None, {}]}}],
    "logprobs-huge": [{"message": {"content": "ok"}, "logprobs": {"content": [{"logprob": 10**400}]}}],
    "logprobs-endless": [{"message": {"content": "ok"}, "logprobs": {"content": [{"logprob": float("-inf")}]}}],
    "refusal": [{"message": {"content": None, "refusal": "no"}}],
    "function-call": [{"message": {"function_call": {"name": "think", "arguments": None}}}],
}
ODD_USAGE: dict[str, Any] = {
    "negative": {"prompt_tokens": -5, "completion_tokens": 2**80},
    "text": {"prompt_tokens": "5", "completion_tokens": True, "prompt_tokens_details": [1]},
    "list": [1, 2, 3],
    "one": {"prompt_tokens": 1, "completion_tokens": 1},
}
FILTERED: dict[str, Any] = {
    "message": "The response was filtered due to the prompt triggering the content management policy.",
    "type": None,
    "param": "prompt",
    "code": "content_filter",
    "status": 400,
    "innererror": {"code": "ResponsibleAIPolicyViolation"},
}
"""As Azure refuses a prompt."""
STATUSES = (201, 203, 204, 205, 206, 226, 300, 304, 400, 402, 405, 406, 413, 418, 422, 431, 451, 500, 507, 511, 599)
RETRY_AFTER = ("nan", "-5", "1e309", "0x1", "Fri, 99 Foo 99999999999999999999 25:61:61 +9999", "\x1b[2J", "9" * 400)
LOCATIONS = (
    f"https://u:{KEY}@x/",
    f"/?key={KEY}",
    "http://[::1",
    "//\x7f",
    "http://xn--\xff/",
    "",
    "javascript:1",
    "x" * 9999,
)


class Kinds:
    """Every kind by its name. The long ones are made each time that they are asked for, and not to name them."""

    def __init__(self) -> None:
        self._short = dict(_all())

    def __iter__(self) -> Iterator[str]:
        yield from self._short
        yield from _LONG

    def __getitem__(self, name: str) -> Answer:
        return _LONG[name]() if name in _LONG else self._short[name]


def _all() -> Iterator[tuple[str, Answer]]:
    for name, body in ODD_JSON.items():
        yield f"json-{name}", Answer(body=body)
    for name in ("deep-lists", "html", "no-utf-8", "error-deep", "error-escaped"):
        yield f"500-{name}", Answer(status=500, body=ODD_JSON[name])
    for name, choices in ODD_CHOICES.items():
        yield f"choices-{name}", Answer(body=json.dumps({"model": ["m"], "choices": choices}).encode())
    for name, usage in ODD_USAGE.items():
        yield f"usage-{name}", text("ok", usage=usage)
    for charset in CHARSETS:
        headers = {"content-type": f"text/html; charset={charset}"}
        yield f"charset-{charset or 'none'}", Answer(status=500, body=b"<b>\x00\xff no</b>", headers=headers)
    yield "charset-in-200", Answer(body=b"\x78\x9c\x00", headers={"content-type": "application/json; charset=zlib"})
    for status in STATUSES:
        yield f"status-{status}", Answer(status=status, body=b"" if status in (204, 205, 304) else b"{}", reason=KEY)
    for value in RETRY_AFTER:
        yield f"retry-after-{value[:8]!r}", error(429, retry_after=value)
    for location in LOCATIONS:
        yield f"location-{location[:14]!r}", Answer(status=307, headers={"location": location})
    yield (
        "reason-escapes",
        Answer(status=500, reason=ESCAPES.replace("\r", "").replace("\x00", "").encode().decode("latin-1")),
    )
    yield "error-escapes", error(400, f"{ESCAPES}{KEY}")
    yield "error-cut-in-key", error(400, "x" * 290 + KEY)
    yield "error-percent", error(400, quote(KEY, safe="") + " " + json.dumps(KEY))
    yield "error-filter", Answer(status=400, body=json.dumps({"error": FILTERED | {"message": ESCAPES + KEY}}).encode())
    yield "calls-70", tools(*[("get_table_names", "{}")] * 70)
    yield from _bodies()
    yield from _raw()


PACKED: dict[str, Callable[[bytes], bytes]] = {"gzip": gzip.compress, "deflate": zlib.compress}


def _bomb(name: str) -> Answer:
    return Answer(body=PACKED[name](b"[" * 40_000_000), headers={"content-encoding": name})


_LONG: dict[str, Callable[[], Answer]] = {
    "error-long": lambda: error(400, "e" * 20_000_000),
    "calls-20000": lambda: tools(*[("get_table_names", "{}")] * 20_000),
    "gzip-bomb": lambda: _bomb("gzip"),
    "deflate-bomb": lambda: _bomb("deflate"),
    "body-17-mb": lambda: completion({"content": "ok", "padding": "x" * 17 * 2**20}),
}


def _bodies() -> Iterator[tuple[str, Answer]]:
    good = text("ok").body
    for name, pack in PACKED.items():
        yield f"{name}-good", Answer(body=pack(good), headers={"content-encoding": name})
        yield f"{name}-cut", Answer(body=pack(good)[:-12], headers={"content-encoding": name})
        yield f"{name}-none", Answer(body=good, headers={"content-encoding": name})
    twice = gzip.compress(gzip.compress(good))
    yield "gzip-twice", Answer(body=twice, headers={"content-encoding": "gzip, gzip"})
    yield "gzip-twelve", Answer(body=twice, headers={"content-encoding": ", ".join(["gzip"] * 12)})
    for name in ("br", "zstd", "zlib", "\x1b[2J"):
        yield f"encoding-{name[-4:]}", Answer(body=good, headers={"content-encoding": name})
    yield "dropped-before", Answer(drop="before")
    yield "dropped-middle", Answer(body=good, drop="middle")
    yield (
        "cookies",
        Answer(body=good, headers={"set-cookie": f"{KEY}=\x01; Domain=..; Path=\xff; Expires=no; Max-Age=1e99"}),
    )


def _raw() -> Iterator[tuple[str, Answer]]:
    good = text("ok").body
    length = f"content-length: {len(good)}\r\n".encode()
    heads = {
        "status-000": b"HTTP/1.1 000 no\r\n\r\n",
        "status-1000": b"HTTP/1.1 1000 no\r\n\r\n",
        "status-text": b"HTTP/1.1 abc no\r\n\r\n",
        "status-none": b"HTTP/1.1\r\n\r\n",
        "http-9": b"HTTP/9.9 200 OK\r\n\r\n",
        "no-http": b"220 mail.example ESMTP " + KEY.encode() + b"\r\n",
        "100-for-ever": b"HTTP/1.1 100 Continue\r\n\r\n" * 1000,
        "switching": b"HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n",
        "no-colon": b"HTTP/1.1 200 OK\r\nno colon here\r\n\r\n",
        "header-bytes": b"HTTP/1.1 200 OK\r\nx: \xff\xfe\x01\r\n" + length + b"\r\n" + good,
        "header-long": b"HTTP/1.1 200 OK\r\nx: " + b"y" * 300_000 + b"\r\n\r\n",
        "headers-many": b"HTTP/1.1 200 OK\r\n" + b"x: y\r\n" * 50_000 + b"\r\n",
        "headers-only": b"HTTP/1.1 200 OK\r\n",
        "length-text": b"HTTP/1.1 200 OK\r\ncontent-length: ten\r\n\r\n" + good,
        "length-negative": b"HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\n" + good,
        "length-two": b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\n" + good,
        "length-long": b"HTTP/1.1 200 OK\r\ncontent-length: 99999999999999999999999\r\n\r\n" + good,
        "length-short": b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n" + good,
        "chunks-bad": b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n" + good,
        "chunks-huge": b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nffffffffffffffff\r\n" + good,
        "chunks-odd": b"HTTP/1.1 200 OK\r\ntransfer-encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        "to-the-end": b"HTTP/1.1 200 OK\r\n\r\n" + good,
        "http-1.0": b"HTTP/1.0 200 OK\r\n\r\n" + good,
        "zeros": b"\x00" * 70_000,
        "tls": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(range(256)),
        "folded": b"HTTP/1.1 200 OK\r\nx: a\r\n b\r\n" + length + b"\r\n" + good,
        "line-feeds": b"HTTP/1.1 200 OK\n" + length.replace(b"\r", b"") + b"\n" + good,
    }
    for name, raw in heads.items():
        yield f"raw-{name}", Answer(raw=raw)
