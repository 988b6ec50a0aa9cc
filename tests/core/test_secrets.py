"""A key is masked however it is written, and looking for it never costs more than the text's length."""

from __future__ import annotations

import base64
import html
import json
import time
from urllib.parse import quote

import pytest

from wardround.core import Secret

KEYS = ("sk-Hostile_0123456789-abcdef", "ab+c/d=EF\"g&h<i%j'0123456789", "aGVsbG8/d29ybGQ+c2VjcmV0==")
SPELLINGS = {
    "plain": lambda key: key,
    "url": lambda key: quote(key, safe=""),
    "url-lower": lambda key: "".join(f"%{ord(one):02x}" for one in key),
    "url-twice": lambda key: quote(quote(key, safe=""), safe=""),
    "json-twice": lambda key: json.dumps(json.dumps(key)),
    "json-slashes": lambda key: json.dumps(key).replace("/", "\\/"),
    "json-codes": lambda key: "".join(f"\\u{ord(one):04X}" for one in key),
    "html": html.escape,
    "html-codes": lambda key: "".join(f"&#{ord(one)};" for one in key),
    "python": repr,
    "base64": lambda key: base64.b64encode(key.encode()).decode(),
    "basic": lambda key: base64.b64encode(b"me:" + key.encode()).decode(),
    "bearer-url-safe": lambda key: base64.urlsafe_b64encode(b"Bearer " + key.encode()).decode(),
    "basic-as-user": lambda key: base64.b64encode(key.encode() + b":~~~~").decode(),
    "basic-amid": lambda key: base64.b64encode(b"me:" + key.encode() + b"~~~~").decode(),
    "hexadecimal": lambda key: key.encode().hex(),
    "two-lines": lambda key: f"{key[:9]}\r\n    {key[9:]}",
    "two-lines-escaped": lambda key: f"{key[:9]}\\n{key[9:]}",
    "unseen": lambda key: f"{key[:9]}\u200b{key[9:]}",
    "upper": str.upper,
}


@pytest.mark.parametrize("spelling", SPELLINGS)
@pytest.mark.parametrize("key", KEYS)
def test_no_spelling_of_a_key_gets_through(key: str, spelling: str) -> None:
    written = SPELLINGS[spelling](key)
    text = f"the key {written} is wrong"
    for masked in (Secret(key).masked(text), Secret(key).masked_value({"a": [text]})["a"][0]):
        assert masked.startswith("the key ")
        assert "***" in masked
        assert written[4:-4] not in masked
        assert key[8:16] not in masked


@pytest.mark.parametrize("length", [8, 9, 15, 27])
def test_a_key_that_was_cut_short_is_masked_too(length: int) -> None:
    key = KEYS[0]
    masked = Secret(key).masked(f"Incorrect API key provided: {key[:length]}...")
    assert masked == "Incorrect API key provided: ***..."


def test_other_words_stay() -> None:
    text = "the patient's key finding: sk 12345678, base64 c2stSG9zdA==, 100 % of \\n lines, &amp; more"
    assert Secret(KEYS[0]).masked(text) == text


@pytest.mark.parametrize("key", [*KEYS, "n" * 30, "/" * 30, "%25%25%25%25%25", "\\" * 9])
def test_a_text_made_to_cost_time_costs_what_its_length_does(key: str) -> None:
    secret = Secret(key)
    texts = ("\\" * 100_000, "\\n" * 50_000, "\\/" * 50_000, "%25" * 30_000, "&#00000" * 15_000, key[0] + " " * 99_999)
    started = time.process_time()
    for text in (*texts, (" ".join(key)[:-1] + "!") * 1_500):
        secret.masked_value(text)
    assert time.process_time() - started < 5.0, "0.3 s; quadratic ones take minutes"
