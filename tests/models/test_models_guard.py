from __future__ import annotations

import ssl
from math import inf, nan
from pathlib import Path

import httpx2
import pytest
from model_doubles import ask, serving

from fake_server import FakeServer, text
from wardround.core import Price, UserError
from wardround.models import ChatModel, DataUseGuard, ModelConfig, ModelOptions, list_models, open_model
from wardround.models.endpoint import Endpoint
from wardround.models.guard import tls_context

REMOTE = "https://api.example.org/v1"


@pytest.mark.parametrize("sensitivity", ["open", "synthetic", "credentialed"])
@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:8000/v1", "http://localhost/v1", "http://[::1]:1/v1", "http://127.9.9.9"]
)
def test_this_machine_is_always_allowed(sensitivity: object, url: str) -> None:
    DataUseGuard(sensitivity=sensitivity).check(url)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "url",
    [
        REMOTE,
        "http://10.0.0.7:8000/v1",
        "http://0.0.0.0:8000/v1",
        "http://127.0.0.1.example.org/v1",
        "http://localhost.example.org/v1",
        "http://127.1/v1",
        "http://2130706433/v1",
    ],
)
def test_real_records_go_nowhere_else_unless_declared(url: str) -> None:
    for sensitivity in ("open", "credentialed"):
        with pytest.raises(UserError, match="--permit-endpoint") as caught:
            DataUseGuard(sensitivity=sensitivity).check(url)  # type: ignore[arg-type]
        assert url in str(caught.value)
        DataUseGuard(sensitivity=sensitivity, permitted=(url,)).check(url)  # type: ignore[arg-type]
    DataUseGuard(sensitivity="synthetic").check(url)


@pytest.mark.parametrize(
    ("permit", "url", "allowed"),
    [
        (REMOTE, "https://api.example.org/v1/", True),
        (REMOTE, "https://API.example.org:443/v1", True),
        ("https://api.example.org", REMOTE, True),
        (REMOTE, "https://api.example.org/v1/beta", True),
        (REMOTE, "https://api.example.org/v10", False),
        (REMOTE, "https://api.example.org/", False),
        (REMOTE, "http://api.example.org/v1", False),
        (REMOTE, "https://api.example.org:8443/v1", False),
        (REMOTE, "https://evil.example.org/v1", False),
        (REMOTE, "https://api.example.org.evil.com/v1", False),
        (REMOTE, "https://api.example.org/v1/../v2", False),
    ],
)
def test_a_permit_covers_its_path_and_below(permit: str, url: str, allowed: bool) -> None:
    assert DataUseGuard(permitted=(permit,)).allows(url) is allowed


@pytest.mark.parametrize(
    "path", ["%2e%2e/evil", "%2E./evil", "..%2fevil", "%252e%252e/evil", "a%2f..%2fevil", "..;/evil", "%5c..%5cevil"]
)
def test_no_spelling_of_a_step_upwards_is_covered(path: str) -> None:
    for url, permit in ((f"{REMOTE}/{path}", REMOTE), (REMOTE, f"{REMOTE}/{path}")):
        with pytest.raises(UserError, match="without encoded dots"):
            DataUseGuard(permitted=(permit,)).check(url)


@pytest.mark.parametrize("name", ["HTTPS_PROXY", "https_proxy", "ALL_PROXY"])
@pytest.mark.parametrize("proxy", ["http://user:secret@proxy.example.net:3128", "proxy.example.net:3128"])
def test_a_proxy_of_the_environment_is_asked_for(name: str, proxy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for each in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"):
        monkeypatch.delenv(each, raising=False)
        monkeypatch.delenv(each.lower(), raising=False)
    guard = DataUseGuard(permitted=(REMOTE,))
    Endpoint(REMOTE, guard=guard)
    monkeypatch.setenv(name, proxy)
    with pytest.raises(UserError, match=r"--permit-endpoint http://proxy\.example\.net:3128; else set NO_P") as caught:
        Endpoint(REMOTE, guard=guard)
    assert "secret" not in str(caught.value)
    Endpoint(REMOTE, guard=DataUseGuard(permitted=(REMOTE, "http://proxy.example.net:3128")))
    Endpoint(REMOTE, guard=DataUseGuard(sensitivity="synthetic"))
    monkeypatch.setenv("NO_PROXY", "api.example.org")
    Endpoint(REMOTE, guard=guard)
    monkeypatch.delenv("NO_PROXY")
    monkeypatch.setenv(name, "http://127.0.0.1:3128")
    Endpoint(REMOTE, guard=guard)


@pytest.mark.parametrize(
    "url", ["api.example.org", "ftp://127.0.0.1/", "file:///etc", "http://", "http://u:p@127.0.0.1/", ""]
)
def test_what_is_no_endpoint_is_said_to_be_none(url: str) -> None:
    with pytest.raises(UserError, match=r"URL"):
        DataUseGuard(sensitivity="synthetic").check(url)


def test_a_refused_endpoint_is_never_opened() -> None:
    with pytest.raises(UserError, match=r"access-controlled.*api\.example\.org"):
        open_model(ModelConfig(name="openai/m", base_url=REMOTE))
    model = open_model(ModelConfig(name="openai/m", base_url=REMOTE, guard=DataUseGuard(sensitivity="synthetic")))
    assert isinstance(model, ChatModel)
    assert model.identity == f"openai/m@{REMOTE}"


def test_the_manifest_records_the_declaration() -> None:
    guard = DataUseGuard(permitted=("https://b.org", "https://a.org"))
    assert guard.to_manifest() == {
        "sensitivity": "credentialed",
        "permitted_endpoints": ["https://a.org", "https://b.org"],
    }


def test_loopback_ignores_proxies_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")

    async def use(model: ChatModel, server: FakeServer) -> str | None:
        return (await model.complete(ask())).message.content

    assert serving([text("direct")], use) == "direct"  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("ofline", r"no model 'ofline'\. Did you mean offline\? There are: offline, openai, replay, relay"),
        ("gpt", r"no model 'gpt'\. There are: offline"),
        ("openai/", "the model 'openai/' is spelt openai/<name>"),
        ("openai/m", "openai/m needs an endpoint: give --base-url"),
        ("replay:/no/such", "/no/such does not exist"),
    ],
)
def test_names_that_open_nothing_say_why(name: str, words: str) -> None:
    with pytest.raises(UserError, match=words):
        open_model(name)


def test_only_served_models_take_a_base_url(tmp_path: Path) -> None:
    for name in ("offline", f"relay:{tmp_path}"):
        with pytest.raises(UserError, match="takes no --base-url"):
            open_model(ModelConfig(name=name, base_url="http://127.0.0.1:1/v1"))


def test_every_listed_kind_can_be_opened_by_name() -> None:
    assert [entry.spelling for entry in list_models()] == [
        "offline",
        "openai/<name>",
        "replay:<run or log>",
        "relay:<folder>",
    ]
    assert all(entry.description for entry in list_models())


def test_a_price_is_what_the_person_says() -> None:
    two, three = (ModelOptions(price=price).known_price for price in ((2.0, 10.0), (2.0, 10.0, 0.5)))
    assert two == Price(input=2.0, output=10.0)
    assert three == Price(input=2.0, output=10.0, cached=0.5)
    for wrong in ((2.0,), (1.0, 2.0, 3.0, 4.0), (-1.0, 2.0), (nan, 1.0), (inf, 1.0)):
        with pytest.raises(UserError, match="dollars per million tokens"):
            ModelOptions(price=wrong)


@pytest.mark.parametrize("content", [None, b"no certificate"])
def test_certificates_that_cannot_be_read_are_named(
    content: bytes | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A missing file, and one that holds none; this machine and plain http need none of them."""
    if content is not None:
        (tmp_path / "ours.pem").write_bytes(content)
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ours.pem"))
    with pytest.raises(UserError, match=r"models\.example cannot be read \(.+\): correct or unset SSL_CERT_FILE"):
        tls_context(httpx2.URL("https://models.example/v1"))
    assert tls_context(httpx2.URL("https://127.0.0.1:8000/v1")).verify_mode is ssl.CERT_REQUIRED
    assert tls_context(httpx2.URL("http://models.example/v1")).verify_mode is ssl.CERT_REQUIRED
