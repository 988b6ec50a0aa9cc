"""CDS Hooks 2.0, "Trusting CDS Clients": whose signed calls are let in. Keys are made here; requests go over HTTP."""

from __future__ import annotations

import argparse
import asyncio
import base64
import hmac
import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import sha384
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

pytest.importorskip("starlette", reason="needs the extra [view]")
pytest.importorskip("mcp", reason="needs the extra [view]")
pytest.importorskip("jwt", reason="needs the extra [view]")

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from jwt.algorithms import ECAlgorithm, RSAAlgorithm
from starlette.testclient import TestClient

from wardround.cli.serve import add_client_options, signed_callers
from wardround.core import UserError
from wardround.models import DataUseGuard
from wardround.records import Store
from wardround.serve import Listening
from wardround.serve.cds import CardShelf, FeedbackFile, SignedCallers, TrustSettings, cds_app, read_trust, trust_of
from wardround.serve.cds.signing import (
    ASK_AGAIN_SECONDS,
    KEPT_SECONDS,
    CallLog,
    ClientKeys,
    RefusedCall,
    SeenTokens,
    SignedCalls,
    keys_of,
    keys_of_clients,
)

ISSUER = "https://ehr.example.org/"
BASE = "https://cds.example.org"
DISCOVERY = "/cds-services"
PATIENT = f"{DISCOVERY}/wardround-patient-view"
CALL = {
    "hook": "patient-view",
    "hookInstance": "d1577c69-dfbe-44ad-ba6d-3e05e953b2ea",
    "context": {"userId": "Practitioner/1", "patientId": "nobody"},
}
Json = dict[str, Any]


@dataclass(frozen=True)
class Signer:
    """A system with keys of its own: ``keys`` are private ones by kid, with what they sign with."""

    keys: Mapping[str, tuple[Any, str]]

    def jwks(self, *kids: str) -> Json:
        return {"keys": [public(self.keys[kid][0], kid=kid, alg=self.keys[kid][1]) for kid in kids or self.keys]}

    def sign(self, path: str = DISCOVERY, *, kid: str = "ec", header: Json | None = None, **claims: Any) -> str:
        key, algorithm = self.keys[kid]
        headers = {"kid": kid, **(header or {})}
        return jwt.encode(told(path, **claims), key, algorithm=algorithm, headers=headers)


def public(key: Any, **more: str) -> Json:
    algorithm = RSAAlgorithm if isinstance(key, rsa.RSAPrivateKey) else ECAlgorithm
    return {**algorithm.to_jwk(key.public_key(), as_dict=True), "use": "sig", **more}


def told(path: str = DISCOVERY, **claims: Any) -> Json:
    """The claims of a good call, with some changed; those that are None are left out."""
    now = int(time.time())
    body = {"iss": ISSUER, "aud": f"{BASE}{path}", "exp": now + 300, "iat": now, "jti": str(next(NUMBERS))}
    return {name: value for name, value in {**body, **claims}.items() if value is not None}


NUMBERS = iter(range(10**9))


@pytest.fixture(scope="module")
def ehr() -> Signer:
    long, short = (rsa.generate_private_key(public_exponent=65_537, key_size=size) for size in (2048, 1024))
    keys = {"ec": (ec.SECP384R1(), "ES384"), "other": (ec.SECP384R1(), "ES384"), "small": (ec.SECP256R1(), "ES256")}
    made = {kid: (ec.generate_private_key(curve), algorithm) for kid, (curve, algorithm) in keys.items()}
    return Signer({**made, "rsa": (long, "RS384"), "short": (short, "RS384")})


@pytest.fixture
def keys_file(ehr: Signer, tmp_path: Path) -> Path:
    path = tmp_path / "ehr-keys.json"
    path.write_text(json.dumps(ehr.jwks("ec", "rsa", "small", "short")))
    return path


@dataclass
class Called:
    """The served services, and what their access log says."""

    client: TestClient
    log: Path

    def get(self, token: str, path: str = DISCOVERY) -> int:
        return self.client.get(path, headers={"Authorization": f"Bearer {token}"}).status_code

    def refusals(self) -> list[str]:
        lines = [json.loads(line) for line in self.log.read_text().splitlines()]
        return [line["refused"] for line in lines if "refused" in line]


@pytest.fixture
def called(keys_file: Path, synthetic_store: Store, tmp_path: Path) -> Called:
    log = tmp_path / "access.jsonl"
    settings = TrustSettings(clients={ISSUER: str(keys_file)}, base_url=f"{BASE}/")
    shelf = CardShelf.of("a run", synthetic_store, ())
    signed = SignedCallers.of(settings, DataUseGuard(), base_url="http://127.0.0.1:1", log=log)
    app = cds_app(shelf, FeedbackFile(tmp_path / "said.jsonl", tmp_path / "run", shelf), signed=signed)
    return Called(TestClient(app, base_url=BASE), log)


@pytest.mark.parametrize("kid", ["ec", "rsa"])
def test_a_call_that_a_trusted_client_signed_is_answered(called: Called, ehr: Signer, kid: str) -> None:
    assert called.get(ehr.sign(kid=kid)) == 200
    headers = {"Authorization": f"bearer {ehr.sign(PATIENT, kid=kid, aud=[f'{BASE}{PATIENT}'])}"}
    answer = called.client.post(PATIENT, json=CALL, headers=headers)
    assert (answer.status_code, answer.json()) == (200, {"cards": []})
    said = f"{PATIENT}/feedback"
    headers = {"Authorization": f"Bearer {ehr.sign(said, kid=kid)}"}
    assert called.client.post(said, json={}, headers=headers).status_code == 400, "let in, and then read"
    lines = [json.loads(line) for line in called.log.read_text().splitlines()]
    assert [line["service"] for line in lines] == [
        "discovery",
        "wardround-patient-view",
        "wardround-patient-view/feedback",
    ]
    assert {line["who"] for line in lines} == {ISSUER}


def _unsigned(ehr: Signer) -> str:
    return jwt.encode(told(), key="", algorithm="none", headers={"kid": "ec"})


def _by_public_key(ehr: Signer) -> str:
    """HS384 with the public key as the shared one, which everybody has."""
    pem = ehr.keys["rsa"][0].public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    parts = [{"alg": "HS384", "typ": "JWT", "kid": "rsa"}, told()]
    text = b".".join(_packed(json.dumps(part).encode()) for part in parts)
    return (text + b"." + _packed(hmac.digest(pem, text, sha384))).decode()


def _packed(text: bytes) -> bytes:
    return base64.urlsafe_b64encode(text).rstrip(b"=")


def _altered(ehr: Signer) -> str:
    header, _, signature = ehr.sign().split(".")
    return f"{header}.{_packed(json.dumps(told()).encode()).decode()}.{signature}"


def _of_a_list(ehr: Signer) -> str:
    return ".".join((ehr.sign().split(".")[0], _packed(b'{"iss":[]}').decode(), "eA"))


def _late(seconds: int) -> Json:
    now = int(time.time())
    return {"iat": now - 10, "exp": now - seconds}


FAULTS: Mapping[str, tuple[str, Callable[[Signer], str]]] = {
    "nothing": ("no JWT", lambda ehr: ""),
    "no JWT": ("malformed", lambda ehr: "a-token-of-sixteen-characters"),
    "nested": ("malformed", lambda ehr: f"{_packed(b'[' * 4_000).decode()}.e30.e30"),
    "long": ("malformed", lambda ehr: ehr.sign(more="x" * 8_000)),
    "iss of nobody": ("unknown client", lambda ehr: ehr.sign(iss="https://elsewhere.example/")),
    "iss a list": (
        "malformed",
        lambda ehr: ehr.sign().split(".")[0] + "." + _packed(b'{"iss":[]}').decode() + ".e",
    ),
    "no iss": ("claim missing", lambda ehr: ehr.sign(iss=None)),
    "aud of another service": ("audience", lambda ehr: ehr.sign(PATIENT)),
    "aud of another server": ("audience", lambda ehr: ehr.sign(aud=f"https://elsewhere.example{DISCOVERY}")),
    "aud of the address below": ("audience", lambda ehr: ehr.sign(aud=BASE)),
    "aud of two": ("audience", lambda ehr: ehr.sign(aud=[f"{BASE}{DISCOVERY}", "https://elsewhere.example"])),
    "no aud": ("claim missing", lambda ehr: ehr.sign(aud=None)),
    "expired": ("expired", lambda ehr: ehr.sign(**_late(31))),
    "no exp": ("claim missing", lambda ehr: ehr.sign(exp=None)),
    "exp beyond number": ("valid for too long", lambda ehr: ehr.sign(exp=10**400)),
    "valid for a day": ("valid for too long", lambda ehr: ehr.sign(exp=int(time.time()) + 86_400)),
    "issued tomorrow": ("issued in the future", lambda ehr: ehr.sign(iat=int(time.time()) + 120)),
    "issued before the start": ("from before the server started", lambda ehr: ehr.sign(iat=int(time.time()) - 120)),
    "no iat": ("claim missing", lambda ehr: ehr.sign(iat=None)),
    "no jti": ("claim missing", lambda ehr: ehr.sign(jti=None)),
    "empty jti": ("claim missing", lambda ehr: ehr.sign(jti="")),
    "none": ("algorithm", _unsigned),
    "shared key": ("algorithm", _by_public_key),
    "algorithm that is not allowed": ("algorithm", lambda ehr: ehr.sign(kid="small")),
    "key too short": ("unknown key", lambda ehr: ehr.sign(kid="short")),
    "kid of nobody": ("unknown key", lambda ehr: ehr.sign(kid="other")),
    "no kid": ("unknown key", lambda ehr: jwt.encode(told(), ehr.keys["ec"][0], algorithm="ES384")),
    "kid of another kind": ("unknown key", lambda ehr: ehr.sign(header={"kid": "rsa"})),
    "key of somebody else": ("signature", lambda ehr: ehr.sign(kid="other", header={"kid": "ec"})),
    "altered": ("signature", _altered),
}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.filterwarnings("ignore:The RSA key is")
def test_every_fault_is_answered_alike_and_named_in_the_log(called: Called, ehr: Signer, fault: str) -> None:
    reason, made = FAULTS[fault]
    token = made(ehr)
    answer = called.client.get(DISCOVERY, headers={"Authorization": f"Bearer {token}"})
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"] == 'Bearer realm="wardround", error="invalid_token"'
    assert answer.json() == called.client.get(DISCOVERY).json(), "a caller is not told which it was"
    assert called.refusals()[0] == reason
    assert all(len(part) < 8 or part not in called.log.read_text() for part in token.split("."))


def test_a_jwt_opens_once(called: Called, ehr: Signer) -> None:
    token = ehr.sign(jti="only once")
    assert [called.get(token), called.get(token)] == [200, 401]
    assert called.get(ehr.sign(PATIENT, kid="rsa", jti="only once"), PATIENT) == 401, "another text, the same name"
    assert set(called.refusals()) == {"replayed"}


def test_every_request_is_asked(called: Called, ehr: Signer) -> None:
    for method, path in (("GET", DISCOVERY), ("POST", PATIENT), ("POST", f"{PATIENT}/feedback"), ("GET", "/else")):
        assert called.client.request(method, path, json=CALL).status_code == 401
    assert called.get(ehr.sign("/else"), "/else") == 404


def test_refusals_do_not_fill_the_disk(tmp_path: Path) -> None:
    now = [0.0]
    log = CallLog(tmp_path / "access.jsonl", clock=lambda: now[0])
    for now[0] in (0.0, 0.1, 0.5, 1.2, 1.3):
        log.refused("no JWT", "discovery")
    log.answered(ISSUER, "discovery")
    lines = [json.loads(line) for line in log.path.read_text().splitlines()]
    assert [line.get("unsaid") for line in lines] == [0, 2, None], "one line a second, with how many came before it"


def test_what_opened_is_remembered_until_it_ends_and_no_longer() -> None:
    now = [100.0]
    seen = SeenTokens(most=2, clock=lambda: now[0])
    seen.take("a", "1", 200)
    seen.take("a", "2", 150)
    with pytest.raises(RefusedCall, match="replayed"):
        seen.take("a", "1", 200)
    with pytest.raises(RefusedCall, match="too many calls"):
        seen.take("b", "1", 200)
    now[0] = 151.0
    seen.take("b", "1", 200)
    with pytest.raises(RefusedCall, match="replayed"):
        seen.take("a", "1", 200)


def test_what_opened_is_remembered_over_a_restart_until_it_ends(tmp_path: Path) -> None:
    now, path = [100.0], tmp_path / "seen.jsonl"
    seen = SeenTokens(clock=lambda: now[0], path=path)
    seen.take("a", "1", 160)
    seen.take("a", "2", 120)
    with path.open("a") as file:
        file.write('{"until": 9e9, "tok')  # what a kill left of a line
    now[0] = 159.0
    again = SeenTokens(clock=lambda: now[0], path=path)
    with pytest.raises(RefusedCall, match="replayed"):
        again.take("a", "1", 160)
    again.take("a", "3", 200)
    assert len(path.read_text().splitlines()) == 2, "what has ended is no longer kept"
    assert path.stat().st_mode & 0o777 == 0o600
    assert b'"a"' not in path.read_bytes()


def test_a_jwt_issued_within_the_skew_does_not_open_again_after_a_restart(
    tmp_path: Path, ehr: Signer, keys_file: Path
) -> None:
    token = ehr.sign(iat=int(time.time()) + 20)
    settings = TrustSettings(clients={ISSUER: str(keys_file)}, base_url=BASE)

    def server() -> SignedCalls:
        return SignedCallers.of(settings, DataUseGuard(), base_url=BASE, log=tmp_path / "access.jsonl").calls

    assert asyncio.run(server().caller(token, DISCOVERY)) == ISSUER
    with pytest.raises(RefusedCall, match="replayed"):
        asyncio.run(server().caller(token, DISCOVERY))


def test_a_jwt_opens_once_in_the_seconds_after_its_end_too(ehr: Signer, keys_file: Path) -> None:
    settings = TrustSettings(clients={ISSUER: str(keys_file)}, base_url=BASE)
    calls = SignedCalls(settings, keys_of_clients(settings, DataUseGuard()), base_url=BASE, started=0.0)
    now = int(time.time())
    token = ehr.sign(iat=now - 100, exp=now - 10)
    assert asyncio.run(calls.caller(token, DISCOVERY)) == ISSUER, "within the skew"
    with pytest.raises(RefusedCall, match="replayed"):
        asyncio.run(calls.caller(token, DISCOVERY))


def test_names_of_two_clients_are_not_mixed_up() -> None:
    seen = SeenTokens()
    seen.take("a", "b:c", 2e9 + time.time())
    seen.take("a:b", "c", 2e9 + time.time())


async def _finds(keys: ClientKeys, kid: str) -> bool:
    return await keys.find(kid, "ES384") is not None


def test_keys_are_read_again_but_not_at_a_callers_will(ehr: Signer) -> None:
    now, reads, served = [0.0], [0], ["ec"]

    async def read() -> Any:
        reads[0] += 1
        return ehr.jwks(*served)

    keys = ClientKeys(read, algorithms=["ES384"], clock=lambda: now[0])

    async def scenario() -> None:
        assert await _finds(keys, "ec")
        served[:] = ["other"]
        assert not any([await _finds(keys, f"guess {number}") for number in range(20)])
        assert reads == [1], "no key that is guessed makes us ask again at once"
        now[0] = ASK_AGAIN_SECONDS
        assert await _finds(keys, "other"), "a new key is found when it is used"
        assert not await _finds(keys, "ec"), "and one that is gone opens nothing"
        assert reads == [2]
        now[0] += KEPT_SECONDS
        served[:] = ["ec"]
        assert not await _finds(keys, "other"), "a key is not trusted for longer than an hour after it was read"

    asyncio.run(scenario())


def test_keys_that_cannot_be_read_again_open_nothing(ehr: Signer) -> None:
    now, answers = [0.0], [ehr.jwks("ec"), OSError("gone")]

    async def read() -> Any:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    keys = ClientKeys(read, algorithms=["ES384"], clock=lambda: now[0])

    async def scenario() -> None:
        assert await _finds(keys, "ec")
        now[0] = KEPT_SECONDS
        assert not await _finds(keys, "ec")
        assert not keys.are_there

    asyncio.run(scenario())


@dataclass
class KeyServer:
    """Answers every path with a status and a body, and counts who asked for what."""

    body: bytes
    status: int = 200
    asked: list[str] = field(default_factory=list)


@contextmanager
def key_server(told: KeyServer) -> Iterator[str]:
    class Answering(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            told.asked.append(self.path)
            self.send_response(told.status)
            self.send_header("Location", "/moved")
            self.send_header("Content-Length", str(len(told.body)))
            self.end_headers()
            self.wfile.write(told.body)

        def log_message(self, *_: Any) -> None:
            """Nobody reads it."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answering)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _calls(url: str) -> SignedCalls:
    settings = TrustSettings(clients={ISSUER: url}, base_url=BASE)
    return SignedCalls(settings, keys_of_clients(settings, DataUseGuard()), base_url=BASE)


async def _refusal(calls: SignedCalls, token: str) -> str:
    try:
        return await calls.caller(token, DISCOVERY)
    except RefusedCall as refused:
        return refused.reason


def test_keys_at_a_url_are_fetched_once_and_no_jku_is_followed(
    ehr: Signer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On this machine neither a proxy nor certificates of the environment's are asked for."""
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "missing.pem"))
    mine, theirs = KeyServer(json.dumps(ehr.jwks("ec")).encode()), KeyServer(json.dumps(ehr.jwks("other")).encode())
    with key_server(mine) as url, key_server(theirs) as elsewhere:
        calls, jku = _calls(f"{url}/keys"), f"{url}/keys"

        async def scenario() -> list[str]:
            made = [ehr.sign(), ehr.sign(header={"jku": jku}), ehr.sign(header={"jku": f"{elsewhere}/keys"})]
            made.append(ehr.sign(kid="other", header={"jku": f"{elsewhere}/keys"}))
            return [await _refusal(calls, token) for token in made]

        assert asyncio.run(scenario()) == [ISSUER, ISSUER, "jku", "jku"]
    assert mine.asked == ["/keys"]
    assert theirs.asked == []


@pytest.mark.parametrize(
    ("status", "body"), [(302, b"{}"), (500, b"{}"), (200, b"[" * 100_000), (200, b"\xff"), (200, b'{"keys":[]}')]
)
def test_an_address_that_gives_no_keys_opens_nothing(ehr: Signer, status: int, body: bytes) -> None:
    given = KeyServer(body, status)
    with key_server(given) as url:
        calls = _calls(url)

        async def scenario() -> list[str]:
            return [await _refusal(calls, ehr.sign()) for _ in range(3)]

        assert asyncio.run(scenario()) == ["keys cannot be read"] * 3
    assert given.asked == ["/"], "neither redirected nor asked for every call"


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ("https://ehr.example.org/keys", "--permit-endpoint https://ehr.example.org/keys"),
        ("no-such-file.json", "cannot be read"),
    ],
)
def test_keys_that_may_not_or_cannot_be_read_end_the_start(keys: str, said: str, tmp_path: Path) -> None:
    settings = TrustSettings(clients={ISSUER: keys})
    with pytest.raises(UserError, match=said):
        SignedCallers.of(settings, DataUseGuard(), base_url=BASE, log=tmp_path / "log")


def test_keys_come_over_https_alone(tmp_path: Path) -> None:
    url = "http://ehr.example.org/keys"
    guard = DataUseGuard(permitted=(url,))
    with pytest.raises(UserError, match="https"):
        SignedCallers.of(TrustSettings(clients={ISSUER: url}), guard, base_url=BASE, log=tmp_path / "log")


def test_private_shared_and_useless_keys_are_refused(ehr: Signer) -> None:
    private = ECAlgorithm.to_jwk(ehr.keys["ec"][0], as_dict=True)
    with pytest.raises(UserError, match="private or shared"):
        keys_of({"keys": [{**private, "kid": "ec"}]}, ["ES384"])
    with pytest.raises(UserError, match="private or shared"):
        keys_of({"keys": [{"kty": "oct", "k": "c2VjcmV0", "kid": "ec"}]}, ["ES384"])
    for told in ({}, [], {"keys": {}}, {"keys": ["text"]}):
        with pytest.raises(UserError, match="not a JWK Set"):
            keys_of(told, ["ES384"])
    for one in ({"use": "enc"}, {"alg": "ES256"}, {"kid": 7}, {"crv": "P-256"}, {"x": "AA"}, {"kty": "RSA"}):
        with pytest.raises(UserError, match="no key with a kid that signs with ES384"):
            keys_of({"keys": [public(ehr.keys["ec"][0], kid="ec", alg="ES384") | one]}, ["ES384"])


FILE = """
base_url = "https://cds.example.org"
algorithms = ["ES384"]
longest_seconds = 600
skew_seconds = 5
[clients]
"https://ehr.example.org/" = "ehr-keys.json"
"https://other.example.org/" = "https://other.example.org/jwks"
"""


def _parsed(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    add_client_options(parser)
    return parser.parse_args(list(words))


def test_a_file_flags_and_python_say_the_same(keys_file: Path) -> None:
    file = keys_file.with_name("clients.toml")
    file.write_text(FILE)
    clients = {ISSUER: str(keys_file), "https://other.example.org/": "https://other.example.org/jwks"}
    python = TrustSettings(
        clients=clients, base_url=BASE, algorithms=("ES384",), longest_seconds=600.0, skew_seconds=5.0
    )
    assert trust_of(read_trust(file), {}) == python
    assert trust_of(read_trust(file), {"skew_seconds": 9.0}).skew_seconds == 9.0, "flags go over the file"


def test_the_command_line_reads_them(
    keys_file: Path, tmp_path: Path, ehr: Signer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("WARDROUND_TOKEN", raising=False)
    log, here = ["--access-log", str(tmp_path / "access.jsonl")], Listening(port=8765)
    assert signed_callers(_parsed(), here, "synthetic") is None
    signed = signed_callers(_parsed("--client", f"{ISSUER}={keys_file}", *log), here, "credentialed")
    assert signed is not None
    address = f"http://127.0.0.1:8765{DISCOVERY}"
    assert asyncio.run(signed.calls.caller(ehr.sign(aud=address), DISCOVERY)) == ISSUER, "aud is where it listens"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--client", "https://ehr.example.org/"], "write ISS=KEYS"),
        (["--base-url", BASE], "no client is declared"),
        (["--client", "a=b", "--algorithms", "HS256"], "there is no 'HS256'"),
        (["--client", "a=b", "--longest-seconds", "0"], "above 0"),
        (["--client", "a=b", "--base-url", "cds.example.org"], "no http"),
    ],
)
def test_settings_that_do_not_hold_are_said(words: list[str], said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WARDROUND_TOKEN", raising=False)
    with pytest.raises(UserError, match=said):
        signed_callers(_parsed(*words), Listening(), "synthetic")


def test_one_door_and_an_address(keys_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = _parsed("--client", f"{ISSUER}={keys_file}")
    monkeypatch.setenv("WARDROUND_TOKEN", "a-token-of-sixteen-characters")
    with pytest.raises(UserError, match="not by both"):
        signed_callers(words, Listening(), "synthetic")
    monkeypatch.delenv("WARDROUND_TOKEN")
    with pytest.raises(UserError, match="--base-url"):
        signed_callers(words, Listening(host="0.0.0.0"), "synthetic")
    words.base_url = BASE
    with pytest.raises(UserError, match="plain HTTP"):
        signed_callers(words, Listening(host="0.0.0.0"), "credentialed")
