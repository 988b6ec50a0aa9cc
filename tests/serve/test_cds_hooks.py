"""CDS Hooks 2.0: every MUST that concerns a service, over HTTP, on one small run of the synthetic hospital."""

from __future__ import annotations

import json
import stat
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

pytest.importorskip("starlette", reason="needs the extra [view]")
pytest.importorskip("mcp", reason="needs the extra [view]")

from starlette.testclient import TestClient

from wardround.cli import main
from wardround.core import UserError
from wardround.log import LogReader
from wardround.runs import RunFolder, open_benchmark, open_store
from wardround.serve.cds import CardShelf, FeedbackFile, PreparedCard, cards, cds_app, prepare_cards
from wardround.serve.cds.cards import latest_encounter, short_summary

TOKEN = "a-token-of-this-test"
HERE = "http://127.0.0.1:8765"
PAGE = "https://sandbox.example.org"
SECRET = "an-access-token-that-nobody-keeps"
CALL = "d1577c69-dfbe-44ad-ba6d-3e05e953b2ea"
PATIENT, ENCOUNTER, ORDER = (
    f"/cds-services/wardround-{hook}" for hook in ("patient-view", "encounter-start", "order-select")
)


@pytest.fixture(scope="module")
def folder(viewed_run_path: Path) -> RunFolder:
    return RunFolder.open(viewed_run_path)


@pytest.fixture(scope="module")
def prepared(folder: RunFolder) -> tuple[PreparedCard, ...]:
    return prepare_cards(folder, agent="react")


@pytest.fixture(scope="module")
def shelf(folder: RunFolder, prepared: tuple[PreparedCard, ...]) -> CardShelf:
    return CardShelf.of(folder.provenance, open_store(folder), prepared)


@pytest.fixture
def said(tmp_path: Path) -> Path:
    return tmp_path / "beside" / "said.jsonl"


@pytest.fixture
def client(shelf: CardShelf, folder: RunFolder, said: Path) -> TestClient:
    app = cds_app(shelf, FeedbackFile(said, folder.path, shelf), origins=[PAGE])
    return TestClient(app, base_url=HERE)


@pytest.fixture
def card(prepared: tuple[PreparedCard, ...]) -> PreparedCard:
    return next(one for one in prepared if one.task.name == "labevents")


def call(card: PreparedCard, hook: str = "patient-view", **context: Any) -> dict[str, Any]:
    context = {"userId": "Practitioner/1", "patientId": str(card.subject_id)} | context
    return {"hook": hook, "hookInstance": CALL, "context": context}


def order_call(card: PreparedCard, name: str) -> dict[str, Any]:
    order = {"resourceType": "ServiceRequest", "id": "7", "status": "draft", "code": {"coding": [{"display": name}]}}
    drafts = {"resourceType": "Bundle", "entry": [{"resource": order}]}
    return call(card, "order-select", selections=["ServiceRequest/7"], draftOrders=drafts)


def feedback(of: PreparedCard, **more: Any) -> dict[str, Any]:
    said = {"card": str(of.uuid), "outcome": "overridden", "outcomeTimestamp": "2026-11-22T18:00:00Z"}
    return {"feedback": [said | more]}


def elements(value: Any) -> Iterator[Any]:
    yield value
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    for one in inner:
        yield from elements(one)


def without(body: dict[str, Any], path: str) -> dict[str, Any]:
    name, _, rest = path.partition(".")
    return {k: without(v, rest) if k == name and rest else v for k, v in body.items() if k != name or rest}


def test_discovery_describes_every_service(client: TestClient) -> None:
    answer = client.get("/cds-services")
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/json"
    services = answer.json()["services"]
    assert {one["hook"] for one in services} == {"patient-view", "encounter-start", "order-select"}
    assert all(one["id"] and one["description"] and "{" not in one["id"] for one in services)
    assert len({one["id"] for one in services}) == 3
    for one in services:
        assert client.post(f"/cds-services/{one['id']}", json={}).status_code == 400, "its address has the id"


def test_a_call_is_answered_with_cards(client: TestClient, card: PreparedCard) -> None:
    answer = client.post(PATIENT, json=call(card))
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/json"
    (shown,) = [one for one in answer.json()["cards"] if one["uuid"] == str(card.uuid)]
    assert len(shown["summary"]) < 140
    assert shown["indicator"] in ("info", "warning", "critical")
    assert shown["source"]["label"]
    assert "suggestions" not in shown, "nothing here may change a record"
    assert "selectionBehavior" not in shown
    assert all(reason["code"] and reason["display"] for reason in shown["overrideReasons"])
    assert UUID(shown["uuid"]) == card.uuid


def test_no_element_of_an_answer_is_null_or_empty(client: TestClient, card: PreparedCard) -> None:
    for answer in (client.get("/cds-services"), client.post(PATIENT, json=call(card))):
        assert all(one not in (None, "", [], {}) for one in elements(answer.json()))


def test_a_card_says_what_it_is_when_and_on_which_rows(client: TestClient, card: PreparedCard) -> None:
    shown = client.post(PATIENT, json=call(card)).json()["cards"][0]
    for text in (shown["summary"], shown["detail"], shown["source"]["label"]):
        assert "esearch, not for care" in text
    assert card.as_of in shown["summary"]
    assert "by react · " in shown["detail"]
    assert card.answer[0] in shown["detail"]
    assert "labevents:" in shown["detail"]
    assert "not on the chart" not in shown["detail"]


def test_a_patient_nobody_asked_about_has_no_cards(client: TestClient, card: PreparedCard, shelf: CardShelf) -> None:
    other = next(str(one) for one in shelf.store.subjects if one not in shelf.by_subject)
    for patient in (other, "1", "Patient/no-number"):
        answer = client.post(PATIENT, json=call(card, patientId=patient))
        assert (answer.status_code, answer.json()) == (200, {"cards": []})


def test_encounter_start_answers_only_of_that_encounter(client: TestClient, card: PreparedCard) -> None:
    there = client.post(ENCOUNTER, json=call(card, "encounter-start", encounterId=card.encounter)).json()["cards"]
    assert str(card.uuid) in {one["uuid"] for one in there}
    assert client.post(ENCOUNTER, json=call(card, "encounter-start", encounterId="1")).json() == {"cards": []}


def test_an_encounter_is_that_of_the_latest_row_on_the_chart(
    shelf: CardShelf, folder: RunFolder, card: PreparedCard
) -> None:
    samples = {one.id: one for one in open_benchmark(folder).all_samples}
    chart = shelf.store.chart(card.subject_id, samples[card.sample].moment)
    admissions = chart.table("admissions").batch.column("hadm_id").to_pylist()
    assert card.encounter == latest_encounter(chart)
    assert card.encounter in map(str, admissions)
    early = shelf.store.chart(card.subject_id, samples[card.sample].moment.replace(year=1900))
    assert latest_encounter(early) is None


@pytest.mark.parametrize("turned", [False, True])
def test_of_two_answers_to_a_task_the_later_is_served(
    folder: RunFolder, shelf: CardShelf, said: Path, card: PreparedCard, turned: bool
) -> None:
    """Whichever was prepared first, at every hook."""
    assert card.as_of < "2299"
    later = replace(card, uuid=UUID(int=7), as_of="2299-01-01 00:00:00", answer=("Sodium",))
    made = CardShelf.of("run", shelf.store, [later, card] if turned else [card, later])
    client = TestClient(cds_app(made, FeedbackFile(said, folder.path, made)), base_url=HERE)
    asked = (
        (PATIENT, call(card)),
        (ENCOUNTER, call(card, "encounter-start", encounterId=card.encounter)),
        (ORDER, order_call(card, card.answer[0])),
    )
    for address, body in asked:
        found = client.post(address, json=body).json()["cards"]
        of_task = {one["uuid"] for one in found} & {str(card.uuid), str(later.uuid)}
        assert of_task == {str(later.uuid)}, address


def test_order_select_says_whether_the_answer_names_the_order(client: TestClient, card: PreparedCard) -> None:
    assert card.labels is not None
    absent = next(name for name in card.labels.labels if name not in card.answer)
    for name, said in ((card.answer[0], "order in the answer"), (absent, "order not in the answer")):
        (shown,) = client.post(ORDER, json=order_call(card, name.upper())).json()["cards"]
        assert said in shown["summary"]
        assert len(shown["summary"]) < 140
    assert client.post(ORDER, json=order_call(card, "a walk in the park")).json() == {"cards": []}


@pytest.mark.parametrize(
    ("service", "hook", "missing"),
    [
        *((PATIENT, "patient-view", name) for name in ("hook", "hookInstance", "context")),
        *((PATIENT, "patient-view", f"context.{name}") for name in ("userId", "patientId")),
        (ENCOUNTER, "encounter-start", "context.encounterId"),
        *((ORDER, "order-select", f"context.{name}") for name in ("selections", "draftOrders", "patientId")),
    ],
)
def test_a_call_without_a_required_field_is_refused(
    client: TestClient, card: PreparedCard, service: str, hook: str, missing: str
) -> None:
    whole = order_call(card, "Sodium") | {"hook": hook}
    whole["context"]["encounterId"] = "1"
    assert client.post(service, json=whole).status_code == 200
    answer = client.post(service, json=without(whole, missing))
    assert answer.status_code == 400
    assert answer.json()["error"].startswith(f"{missing}: ")


@pytest.mark.parametrize(
    "wrong",
    [
        {"hook": "order-sign"},
        {"hookInstance": "no uuid"},
        {"hook": None},
        {"context": {}},
        {"context": []},
        {"fhirServer": None},
        {"fhirServer": ""},
        {"extension": "text"},
        {"prefetch": []},
        {"fhirAuthorization": {"access_token": SECRET}},
    ],
)
def test_null_empty_and_mistyped_elements_are_refused(
    client: TestClient, card: PreparedCard, wrong: dict[str, Any]
) -> None:
    answer = client.post(PATIENT, json=call(card) | wrong)
    assert answer.status_code == 400
    assert SECRET not in answer.text


def test_selections_name_resources_of_the_draft_orders(client: TestClient, card: PreparedCard) -> None:
    body = order_call(card, "Sodium")
    body["context"]["selections"] = ["ServiceRequest/8"]
    assert client.post(ORDER, json=body).status_code == 400


def test_an_access_token_needs_its_server_and_is_not_kept(
    client: TestClient, card: PreparedCard, said: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    access = {"access_token": SECRET, "token_type": "Bearer", "expires_in": 300, "scope": "patient/*.read"}
    body = call(card) | {"fhirAuthorization": access | {"subject": "wardround"}}
    assert client.post(PATIENT, json=body).json() == {"error": "Value error, fhirAuthorization needs fhirServer"}
    answer = client.post(PATIENT, json=body | {"fhirServer": "https://fhir.example.org"})
    assert answer.status_code == 200
    client.post(f"{PATIENT}/feedback", json=feedback(card) | {"fhirAuthorization": access})
    written = answer.text + said.read_text() + "".join(capfd.readouterr())
    assert SECRET not in written


def test_unknown_elements_and_extensions_are_passed_over(client: TestClient, card: PreparedCard) -> None:
    body = call(card) | {"extension": {"org.example.time": "now"}, "later": {"of": "a newer version"}}
    assert client.post(PATIENT, json=body).json() == client.post(PATIENT, json=call(card)).json()


def test_what_is_no_json_is_refused(client: TestClient, card: PreparedCard) -> None:
    as_json = {"Content-Type": "application/json"}
    assert client.post(PATIENT, content="{", headers=as_json).status_code == 400
    assert client.post(PATIENT, content=b"\xff", headers=as_json).status_code == 400
    text = client.post(PATIENT, content=json.dumps(call(card)), headers={"Content-Type": "text/plain"})
    assert text.status_code == 415, "a page elsewhere can send text without asking"
    assert client.post(PATIENT, content=b" " * 1_000_001, headers=as_json).status_code == 413
    assert client.get(PATIENT).status_code == 405
    missing = client.post("/cds-services/another", json=call(card))
    assert missing.status_code == 404
    assert "GET /cds-services" in missing.json()["error"]


def test_feedback_is_kept_beside_the_run(client: TestClient, card: PreparedCard, said: Path, folder: RunFolder) -> None:
    reason = {"reason": {"code": "wrong", "system": cards.REASON_SYSTEM}, "userComment": "ein Grund"}
    for body in (feedback(card), feedback(card, overrideReason=reason)):
        assert client.post(f"{PATIENT}/feedback", json=body).status_code == 200
    accepted = feedback(card, outcome="accepted", acceptedSuggestions=[{"id": "x"}])
    assert client.post(f"{ORDER}/feedback", json=accepted).json() == {"stored": 1}
    lines = [json.loads(line) for line in said.read_text().splitlines()]
    assert [one["outcome"] for one in lines] == ["overridden", "overridden", "accepted"]
    assert lines[1]["overrideReason"] == reason
    assert {one["card"] for one in lines} == {str(card.uuid)}
    assert lines[0] | {"received": ""} == {
        "received": "",
        "run": folder.provenance,
        "service": "wardround-patient-view",
        **feedback(card)["feedback"][0],
    }
    assert stat.S_IMODE(said.stat().st_mode) == 0o600


@pytest.mark.parametrize(
    "wrong",
    [
        {"card": CALL},
        {"card": None},
        {"outcome": "ignored"},
        {"outcome": "accepted"},
        {"outcome": "accepted", "acceptedSuggestions": []},
        {"outcomeTimestamp": "2026-11-22T18:00:00"},
        {"outcomeTimestamp": "2026-11-22T18:00:00+02:00"},
        {"overrideReason": {"reason": {"display": "no code"}}},
    ],
)
def test_feedback_that_says_something_else_is_not_kept(
    client: TestClient, card: PreparedCard, said: Path, wrong: dict[str, Any]
) -> None:
    body = {"feedback": feedback(card)["feedback"] + feedback(card, **wrong)["feedback"]}
    assert client.post(f"{PATIENT}/feedback", json=body).status_code == 400
    assert client.post(f"{PATIENT}/feedback", json={"feedback": []}).status_code == 400
    assert said.read_text() == ""


def test_feedback_is_never_kept_in_the_run(folder: RunFolder, shelf: CardShelf) -> None:
    with pytest.raises(UserError, match="choose a file outside it"):
        FeedbackFile(folder.path / "said.jsonl", folder.path, shelf)


def test_browsers_may_call_from_named_origins_only(client: TestClient, card: PreparedCard) -> None:
    asking = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "content-type,authorization"}
    allowed = client.options(PATIENT, headers=asking | {"Origin": PAGE})
    assert allowed.status_code == 200
    assert allowed.headers["access-control-allow-origin"] == PAGE
    answer = client.post(PATIENT, json=call(card), headers={"Origin": PAGE})
    assert answer.headers["access-control-allow-origin"] == PAGE
    for origin in ("https://elsewhere.example.org", "null"):
        assert client.options(PATIENT, headers=asking | {"Origin": origin}).status_code == 400
        refused = client.post(PATIENT, json=call(card), headers={"Origin": origin})
        assert "access-control-allow-origin" not in refused.headers


def test_a_token_is_asked_of_every_call(shelf: CardShelf, folder: RunFolder, said: Path, card: PreparedCard) -> None:
    app = cds_app(shelf, FeedbackFile(said, folder.path, shelf), token=TOKEN, origins=[PAGE])
    client = TestClient(app, base_url="https://cds.example.org")
    bearer = {"Authorization": f"Bearer {TOKEN}"}
    for headers, status in (({}, 401), ({"Authorization": "Bearer another-token-of-16"}, 401), (bearer, 200)):
        assert client.get("/cds-services", headers=headers).status_code == status
        assert client.post(PATIENT, json=call(card), headers=headers).status_code == status
        assert client.post(f"{PATIENT}/feedback", json=feedback(card), headers=headers).status_code == status
    asking = {"Access-Control-Request-Method": "POST", "Origin": PAGE}
    assert client.options(PATIENT, headers=asking).status_code == 200, "a browser asks before it may send the token"


def test_without_a_token_only_loopback_names_are_answered(client: TestClient) -> None:
    assert client.get("/cds-services", headers={"Host": "rebound.example.org"}).status_code == 400


def test_the_command_listens_elsewhere_only_with_a_token(
    viewed_run_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("WARDROUND_TOKEN", raising=False)
    command = ["serve", "cds-hooks", "--run", str(viewed_run_path)]
    assert main([*command, "--host", "0.0.0.0"]) != 0
    assert "set WARDROUND_TOKEN" in capsys.readouterr().err
    for origin in ("*", "https://*", "https://", "ftp://ehr.example.org", f"{PAGE}/path", "ehr.example.org"):
        assert main([*command, "--allow-origin", origin]) != 0
        assert "is not an origin" in capsys.readouterr().err
    for allowed in ([], ["--allow-origin", PAGE], ["--allow-origin", "http://localhost:8080"]):
        assert main([*command, *allowed]) != 0
        assert "choose one with --agent and --model" in capsys.readouterr().err


def test_targets_do_not_reach_a_card(
    folder: RunFolder, prepared: tuple[PreparedCard, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other outcomes, the same cards: targets, strata and the facts of the label."""
    real = open_benchmark(folder)
    others = [replace(one, target=("Zebra",), stratum="any", unwinnable=(), facts={}) for one in real.all_samples]
    monkeypatch.setattr(cards, "open_benchmark", lambda folder: replace(real, all_samples=tuple(others)))
    changed = prepare_cards(folder, agent="react")
    assert [one.body() for one in changed] == [one.body() for one in prepared]
    assert [one.encounter for one in changed] == [one.encounter for one in prepared]


def test_text_of_models_and_records_is_no_markup() -> None:
    hostile = "<img src=x> [a](https://b.c) `d` www.e.f g@h.i &amp; **j**\n# k"
    said = cards._escaped(hostile)
    assert said == r"\<img src=x\> \[a\](https\://b.c) \`d\` www\.e.f g\@h.i \&amp; \*\*j\*\* \# k"
    assert cards._escaped("4.3 - 5:10, a/b") == "4.3 - 5:10, a/b"


def test_a_summary_is_shorter_than_140_characters_whatever_the_names() -> None:
    when = "2150-01-31 08:00:00"
    assert short_summary("T", ["a", "b"], when) == f"T: a, b (as of {when}; research, not for care)"
    tail = len(f" (as of {when}; research, not for care)")
    whole = short_summary("T", ["x" * (139 - tail - 3 - 3), "b"], when)
    assert (len(whole), whole.endswith(f"x, b (as of {when}; research, not for care)")) == (139, True)
    assert ", b" not in short_summary("T", ["x" * (139 - tail - 3 - 2), "b"], when)
    long = short_summary("T", ["x" * 500, "b"], when)
    assert len(long) == 139
    assert long.endswith(f"…(as of {when}; research, not for care)".replace("…(", "… ("))
    assert " and 28 more (" in short_summary("T", [f"name {n:02}" for n in range(36)], when)


def test_a_card_lists_what_no_table_could_check(folder: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    with LogReader(folder.logs) as reader:
        episodes = [one.episode for one in reader.outlines()]
    because = "Ceftriaxone: not checked against the allergy to Allergy status to penicillin"
    note = {"audit": {"unchecked": [because, "<b>blue</b>: no table knows this drug"]}}
    monkeypatch.setattr(LogReader, "notes", lambda self, kind: [(one, note) for one in episodes for _ in range(2)])
    detail = prepare_cards(folder, agent="react")[0].detail
    assert detail.count(f"- {because}") == 1
    assert "**Not checked**" in detail
    assert "<b>" not in detail
