"""CDS Hooks 2.0: each demand on a service as a scenario, asked over HTTP of ``wardround serve cds-hooks``.

Demands on clients alone are not listed. Read from HL7's text of the specification (CC BY 4.0), in our own words.
"""

from __future__ import annotations

import json
import ssl
from collections.abc import Iterator
from typing import Any
from uuid import UUID

import httpx2

from conformance.cds_services import HOOKS, INSTANCE, ORIGIN, Json, Services, serving_cards
from conformance.outcomes import DoesNotApply, Scenarios, SuiteResult, played
from conformance.place import TOKEN, Place

_SECRET = "an-access-token-that-nobody-keeps"
SCENARIOS: Scenarios[Services] = Scenarios()


def run_cds_hooks(place: Place) -> Iterator[SuiteResult]:
    """Serve a finished run twice, open and guarded, and play every scenario."""
    with serving_cards(place) as services:
        scenarios = [*played(SCENARIOS, services)]
    yield SuiteResult(
        name="CDS Hooks 2.0, each demand on a service",
        version="CDS Hooks 2.0",
        by="scenarios of ours, over HTTP and HTTPS",
        scenarios=scenarios,
    )


def _elements(value: Any) -> Iterator[Any]:
    yield value
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _elements(inner)


def _refused(answer: httpx2.Response, what: object, status: int = 400) -> None:
    assert answer.status_code == status, f"{what}: {answer.status_code} {answer.text[:160]}"
    assert answer.json()["error"]


def _without(body: Json, path: str) -> Json:
    name, _, rest = path.partition(".")
    return {k: _without(v, rest) if k == name and rest else v for k, v in body.items() if k != name or rest}


@SCENARIOS.named("JSON: what is sent and received is JSON (MUST)")
def _(services: Services) -> None:
    for answer in (httpx2.get(f"{services.url}/cds-services"), services.call("patient-view")):
        assert answer.headers["content-type"] == "application/json"
    form = httpx2.post(f"{services.url}{services.path('patient-view')}", data={"hook": "patient-view"})
    _refused(form, "a form", 415)


@SCENARIOS.named("JSON: no element of an answer is null or empty, what has no value is left out (SHALL)")
def _(services: Services) -> None:
    for value in _elements([services.discovered, services.shown]):
        assert value not in (None, "", [], {}), value


@SCENARIOS.named("JSON: a null or empty element of a call is refused (SHALL)")
def _(services: Services) -> None:
    for wrong in ({"fhirServer": None}, {"fhirServer": ""}, {"prefetch": None}, {"extension": None}):
        _refused(services.call("patient-view", **wrong), wrong)
    _refused(services.call("order-select", {"selections": []}), "no selections")


@SCENARIOS.named("discovery: it stands at {baseUrl}/cds-services and is an object with an array of services (SHALL)")
def _(services: Services) -> None:
    answer = httpx2.get(f"{services.url}/cds-services")
    assert answer.status_code == 200
    assert isinstance(answer.json()["services"], list)


@SCENARIOS.named("discovery: each service has a hook, a description and an id (SHALL)")
def _(services: Services) -> None:
    for one in services.discovered:
        assert all(isinstance(one[name], str) and one[name] for name in ("hook", "description", "id")), one
    assert {one["hook"] for one in services.discovered} == set(HOOKS)


@SCENARIOS.named("discovery: prefetch templates use tokens of the context in the ways allowed (MUST)")
def _(services: Services) -> None:
    assert not [one for one in services.discovered if "prefetch" in one]
    raise DoesNotApply("no service asks for prefetched data: it answers from a run that is finished")


@SCENARIOS.named("call: a service is POSTed to at {baseUrl}/cds-services/{id} (SHALL)")
def _(services: Services) -> None:
    for one in services.discovered:
        assert services.post(f"/cds-services/{one['id']}", services.body(one["hook"])).status_code == 200
    _refused(services.post("/cds-services/no-such-service", services.body("patient-view")), "no service", 404)


@SCENARIOS.named("call: success is 200 and an object with an array of cards (SHALL)")
def _(services: Services) -> None:
    for hook in HOOKS:
        answer = services.call(hook)
        assert answer.status_code == 200, answer.text
        assert answer.json()["cards"], f"{hook}: no card, although the run answered"


@SCENARIOS.named("call: hook, hookInstance and context are required (SHALL)")
def _(services: Services) -> None:
    for name in ("hook", "hookInstance", "context"):
        _refused(services.post(services.path("patient-view"), _without(services.body("patient-view"), name)), name)
    for other in HOOKS[1:]:
        _refused(services.post(services.path("patient-view"), services.body("patient-view") | {"hook": other}), other)


@SCENARIOS.named("call: hookInstance is a UUID (REQUIRED)")
def _(services: Services) -> None:
    _refused(services.call("patient-view", hookInstance="not-a-uuid"), "no UUID")


@SCENARIOS.named("call: the context has what its hook requires (REQUIRED)")
def _(services: Services) -> None:
    needed = {
        "patient-view": ("userId", "patientId"),
        "encounter-start": ("userId", "patientId", "encounterId"),
        "order-select": ("userId", "patientId", "selections", "draftOrders"),
    }
    for hook, names in needed.items():
        for name in names:
            _refused(services.post(services.path(hook), _without(services.body(hook), f"context.{name}")), (hook, name))


@SCENARIOS.named("call: selections of order-select name resources of draftOrders (REQUIRED)")
def _(services: Services) -> None:
    _refused(services.call("order-select", {"selections": ["ServiceRequest/8"]}), "a selection that is no draft")


@SCENARIOS.named("call: with fhirAuthorization there is a fhirServer (REQUIRED)")
def _(services: Services) -> None:
    _refused(services.call("patient-view", fhirAuthorization=_authorization()), "no fhirServer")


@SCENARIOS.named("call: fhirAuthorization has token, type Bearer, lifetime, scope and subject (REQUIRED)")
def _(services: Services) -> None:
    server = "https://ehr.example.org/fhir"
    assert services.call("patient-view", fhirServer=server, fhirAuthorization=_authorization()).status_code == 200
    for name in _authorization():
        wrong = _without(_authorization(), name)
        _refused(services.call("patient-view", fhirServer=server, fhirAuthorization=wrong), name)
    mac = _authorization() | {"token_type": "mac"}
    _refused(services.call("patient-view", fhirServer=server, fhirAuthorization=mac), "another type")


@SCENARIOS.named("call: an access token is a transient value: neither kept nor repeated (MUST)")
def _(services: Services) -> None:
    server = "https://ehr.example.org/fhir"
    answer = services.call("patient-view", fhirServer=server, fhirAuthorization=_authorization())
    refused = services.call("patient-view", fhirServer="", fhirAuthorization=_authorization())
    kept = [file.read_text() for file in (*services.logs, services.feedback) if file.exists()]
    assert not [text for text in (answer.text, refused.text, *kept) if _SECRET in text]


@SCENARIOS.named("call: prefetched data that was not asked for changes no answer (SHALL of the client)")
def _(services: Services) -> None:
    more = services.call("patient-view", prefetch={"patient": {"resourceType": "Patient", "id": "1"}, "none": None})
    assert more.json() == services.call("patient-view").json()


@SCENARIOS.named("call: without the data that it needs a service answers 412 (SHALL)")
def _(services: Services) -> None:
    raise DoesNotApply("no service needs data of the client: it answers from a run that is finished")


@SCENARIOS.named("call: no guidance is 200 and no cards")
def _(services: Services) -> None:
    answer = services.call("patient-view", {"patientId": "nobody-whom-we-know"})
    assert (answer.status_code, answer.json()) == (200, {"cards": []})


@SCENARIOS.named("card: summary of fewer than 140 characters, indicator of three, source with a label (REQUIRED)")
def _(services: Services) -> None:
    for card in services.shown:
        assert 0 < len(card["summary"]) < 140, card["summary"]
        assert card["indicator"] in ("info", "warning", "critical"), card
        assert card["source"]["label"], card


@SCENARIOS.named("card: detail is Markdown (MUST), without markup of records or models")
def _(services: Services) -> None:
    for card in services.shown:
        detail = card["detail"].replace("\\<", "").replace("\\[", "").replace("\\!", "")
        assert not [mark for mark in ("<", "](", "![") if mark in detail], detail[:200]


@SCENARIOS.named("card: each has a uuid of its own, the same on every call (SHALL be sent back with feedback)")
def _(services: Services) -> None:
    names = {hook: [UUID(card["uuid"]) for card in services.call(hook).json()["cards"]] for hook in HOOKS}
    assert all(len(set(found)) == len(found) for found in names.values()), names
    assert names == {hook: [UUID(card["uuid"]) for card in services.call(hook).json()["cards"]] for hook in HOOKS}


@SCENARIOS.named("card: override reasons have code, system and display (MUST)")
def _(services: Services) -> None:
    reasons = [reason for card in services.shown for reason in card["overrideReasons"]]
    assert reasons
    assert all(reason["code"] and reason["system"] and reason["display"] for reason in reasons), reasons[0]


@SCENARIOS.named("card: with suggestions there is a selectionBehavior, and actions are typed (MUST)")
def _(services: Services) -> None:
    assert not [card for card in services.shown if {"suggestions", "selectionBehavior", "links"} & card.keys()]
    raise DoesNotApply("no card suggests a change or links anywhere: research, not for care")


@SCENARIOS.named("card: system actions have a type and a resource (SHALL)")
def _(services: Services) -> None:
    assert not [hook for hook in HOOKS if "systemActions" in services.call(hook).json()]
    raise DoesNotApply("no answer changes a record: research, not for care")


@SCENARIOS.named("feedback: at {baseUrl}/cds-services/{id}/feedback, an object with an array (SHALL)")
def _(services: Services) -> None:
    assert services.said(services.feedback_on()).status_code == 200
    _refused(services.post(f"{services.path('patient-view')}/feedback", [services.feedback_on()]), "an array alone")
    _refused(services.said(), "an empty array")


@SCENARIOS.named("feedback: card, outcome and outcomeTimestamp are required (SHALL)")
def _(services: Services) -> None:
    before = services.feedback.read_text().count("\n")
    for name in ("card", "outcome", "outcomeTimestamp"):
        _refused(services.said(_without(services.feedback_on(), name)), name)
    _refused(services.said(services.feedback_on(outcome="ignored")), "another outcome")
    assert services.feedback.read_text().count("\n") == before, "what is refused is not kept"


@SCENARIOS.named("feedback: an accepted card names the suggestions (REQUIRED)")
def _(services: Services) -> None:
    _refused(services.said(services.feedback_on(outcome="accepted")), "nothing accepted")
    accepted = services.feedback_on(outcome="accepted", acceptedSuggestions=[{"id": INSTANCE}])
    assert services.said(accepted).status_code == 200


@SCENARIOS.named("feedback: outcomeTimestamp is a moment in UTC, after RFC 3339 (REQUIRED)")
def _(services: Services) -> None:
    for wrong in ("yesterday", "2026-11-22T18:00:00", "2026-11-22T18:00:00+02:00"):
        _refused(services.said(services.feedback_on(outcomeTimestamp=wrong)), wrong)


@SCENARIOS.named("feedback: a reason has a code; comments are kept; cards may be told of again and together")
def _(services: Services) -> None:
    reason = {"reason": {"code": "wrong", "system": "urn:x"}, "userComment": "not this one"}
    before = services.feedback.read_text().count("\n")
    twice = services.said(services.feedback_on(overrideReason=reason), services.feedback_on())
    assert twice.status_code == 200, twice.text
    kept = [json.loads(line) for line in services.feedback.read_text().splitlines()[before:]]
    assert [one.get("overrideReason", {}).get("userComment") for one in kept] == ["not this one", None]
    _refused(services.said(services.feedback_on(overrideReason={"reason": {"display": "no code"}})), "no code")


@SCENARIOS.named("security: over TLS (MUST), and not without it on that port")
def _(services: Services) -> None:
    trusted = ssl.create_default_context(cafile=str(services.certificate))
    headers = {"Authorization": f"Bearer {TOKEN}"}
    assert httpx2.get(f"{services.guarded}/cds-services", headers=headers, verify=trusted).status_code == 200
    try:
        httpx2.get(services.guarded.replace("https", "http") + "/cds-services", headers=headers)
    except httpx2.TransportError:
        return
    raise AssertionError("plain HTTP was answered")


@SCENARIOS.named("security: where a service asks who calls, every request is asked, discovery and feedback too (MUST)")
def _(services: Services) -> None:
    trusted = ssl.create_default_context(cafile=str(services.certificate))
    call, path = services.body("patient-view"), services.path("patient-view")
    for headers in ({}, {"Authorization": "Bearer another-token-of-sixteen"}):
        with httpx2.Client(base_url=services.guarded, headers=headers, verify=trusted) as client:
            statuses = [
                client.get("/cds-services").status_code,
                client.post(path, json=call).status_code,
                client.post(f"{path}/feedback", json={"feedback": [services.feedback_on()]}).status_code,
            ]
        assert statuses == [401, 401, 401], statuses


@SCENARIOS.named("security: a trusted client's JWT (iss, aud, exp, iat, jti) opens what it names, once (REQUIRED)")
def _(services: Services) -> None:
    path = services.path("patient-view")
    signed = services.client.signed(path)
    assert [services.signed_call(path, one).status_code for one in (signed, signed)] == [200, 401]
    for name in ("iss", "aud", "exp", "iat", "jti"):
        assert services.signed_call(path, services.client.signed(path, without=name)).status_code == 401, name
    elsewhere = services.client.signed(services.path("order-select"))
    assert services.signed_call(path, elsewhere).status_code == 401, "the aud of another service"


@SCENARIOS.named("security: a client's JWT is signed, not by `none` or a shared key (SHALL of the client)")
def _(services: Services) -> None:
    path = services.path("patient-view")
    for algorithm in ("none", "HS384"):
        assert services.signed_call(path, services.client.forged(path, algorithm)).status_code == 401, algorithm


@SCENARIOS.named("security: browsers call from named origins (CORS), and from no others")
def _(services: Services) -> None:
    asked = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "content-type"}
    for origin, allowed in ((ORIGIN, ORIGIN), ("https://elsewhere.example", None)):
        answer = httpx2.options(f"{services.url}{services.path('patient-view')}", headers=asked | {"Origin": origin})
        assert answer.headers.get("access-control-allow-origin") == allowed, origin


@SCENARIOS.named("extension: its value is an object (MUST); unknown ones harm nothing")
def _(services: Services) -> None:
    _refused(services.call("patient-view", extension="text"), "a text")
    assert services.call("patient-view", extension={"com.example.stamp": 1}, unheardOf=True).status_code == 200


def _authorization() -> Json:
    return {
        "access_token": _SECRET,
        "token_type": "Bearer",
        "expires_in": 300,
        "scope": "user/Patient.read",
        "subject": "cds-service4",
    }
