"""``wardround serve cds-hooks`` running three times, open on loopback, guarded over TLS, and for a trusted client."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import httpx2

from conformance.cds_client import Client
from conformance.outcomes import CannotRun
from conformance.place import TOKEN, Place, command_serving, free_port
from wardround.runs import RunFolder
from wardround.serve.cds import PreparedCard, prepare_cards

ORIGIN = "https://sandbox.example.org"
INSTANCE = "d1577c69-dfbe-44ad-ba6d-3e05e953b2ea"
_WHEN = "2026-11-22T18:00:00Z"
HOOKS = ("patient-view", "encounter-start", "order-select")
Json = dict[str, Any]


@dataclass(frozen=True)
class Services:
    """The running services of one run, open on loopback; ``guarded`` is the same over TLS, with a token; ``signed``
    answers calls that its ``client`` signed."""

    url: str
    guarded: str
    signed: str
    client: Client
    certificate: Path
    cards: Sequence[PreparedCard]
    feedback: Path
    logs: Sequence[Path]

    @property
    def card(self) -> PreparedCard:
        """One of the cards."""
        return next(one for one in self.cards if one.answer and one.encounter and one.task.name == "labevents")

    @cached_property
    def discovered(self) -> Sequence[Json]:
        """What discovery lists."""
        found: Sequence[Json] = httpx2.get(f"{self.url}/cds-services").json()["services"]
        return found

    @cached_property
    def shown(self) -> Sequence[Json]:
        """Every card that some call is answered with."""
        patients = {one.subject_id for one in self.cards}
        answers = [self.call("patient-view", {"patientId": str(patient)}) for patient in sorted(patients)]
        answers += [self.call(hook) for hook in HOOKS[1:]]
        return [card for answer in answers for card in answer.json()["cards"]]

    def path(self, hook: str) -> str:
        """Where the service of a hook stands, below the base."""
        (name,) = [one["id"] for one in self.discovered if one["hook"] == hook]
        return f"/cds-services/{name}"

    def body(self, hook: str, context: Mapping[str, object] | None = None, **more: object) -> Json:
        """A whole call."""
        order = {"resourceType": "ServiceRequest", "id": "7", "code": {"text": self.card.answer[0]}}
        contexts: Mapping[str, Json] = {
            "patient-view": {},
            "encounter-start": {"encounterId": self.card.encounter},
            "order-select": {
                "selections": ["ServiceRequest/7"],
                "draftOrders": {"resourceType": "Bundle", "entry": [{"resource": order}]},
            },
        }
        about = {"userId": "Practitioner/1", "patientId": str(self.card.subject_id), **contexts[hook]}
        return {"hook": hook, "hookInstance": INSTANCE, "context": about | dict(context or {}), **more}

    def call(self, hook: str, context: Mapping[str, object] | None = None, **more: object) -> httpx2.Response:
        """Call a service."""
        return self.post(self.path(hook), self.body(hook, context, **more))

    def post(self, path: str, body: object) -> httpx2.Response:
        """Post JSON."""
        return httpx2.post(f"{self.url}{path}", json=body, timeout=60)

    def signed_call(self, path: str, token: str) -> httpx2.Response:
        """Call the service that is for the client alone."""
        headers = {"Authorization": f"Bearer {token}"}
        return httpx2.post(f"{self.signed}{path}", json=self.body("patient-view"), headers=headers, timeout=60)

    def said(self, *feedback: Json) -> httpx2.Response:
        """Send feedback on cards."""
        return self.post(f"{self.path('patient-view')}/feedback", {"feedback": list(feedback)})

    def feedback_on(self, **more: object) -> Json:
        """Feedback on one card."""
        return {"card": str(self.card.uuid), "outcome": "overridden", "outcomeTimestamp": _WHEN, **more}


@contextmanager
def serving_cards(place: Place) -> Iterator[Services]:
    """Serve the place's run both ways until the block ends. CannotRun: no certificate can be made."""
    open_port, guarded_port, signed_port = free_port(), free_port(), free_port()
    feedback, logs = (
        place.path("said.jsonl"),
        (place.path("cds.log"), place.path("cds-guarded.log"), place.path("cds-signed.log")),
    )
    feedback.unlink(missing_ok=True)
    certificate, key = _certificate(place)
    words = ["serve", "cds-hooks", "--run", str(place.run), "--feedback", str(feedback)]
    services = Services(
        url=f"http://127.0.0.1:{open_port}",
        guarded=f"https://127.0.0.1:{guarded_port}",
        signed=f"http://127.0.0.1:{signed_port}",
        client=Client(base_url=f"http://127.0.0.1:{signed_port}"),
        certificate=certificate,
        cards=prepare_cards(RunFolder.open(place.run)),
        feedback=feedback,
        logs=logs,
    )
    tls = ["--tls-certificate", str(certificate), "--tls-key", str(key), "--port", str(guarded_port)]
    trusted = ["--port", str(signed_port), "--access-log", str(place.path("cds-access.jsonl"))]
    trusted += ["--client", services.client.named_with_keys(place.path("client-keys.json"))]
    discovery = f"{services.url}/cds-services"
    with (
        command_serving(*words, "--port", str(open_port), "--allow-origin", ORIGIN, answers=discovery, log=logs[0]),
        command_serving(
            *words, *tls, answers=f"{services.guarded}/cds-services", log=logs[1], variables={"WARDROUND_TOKEN": TOKEN}
        ),
        command_serving(*words, *trusted, answers=f"{services.signed}/cds-services", log=logs[2]),
    ):
        yield services


def _certificate(place: Place) -> tuple[Path, Path]:
    """A certificate for loopback, of this round only. CannotRun: there is no openssl."""
    certificate, key = place.path("certificate.pem"), place.path("key.pem")
    words = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=127.0.0.1"]
    words += ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(certificate)]
    try:
        subprocess.run(words, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise CannotRun(f"no certificate can be made: {error}") from error
    return certificate, key
