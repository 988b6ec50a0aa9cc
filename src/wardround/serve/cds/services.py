"""The CDS Hooks services of a finished run: what may be asked of each, and which cards of a patient answer it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated, Any, Literal, Self, TypeVar
from uuid import UUID

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator
from pydantic.alias_generators import to_camel

from wardround.core import UserError
from wardround.records import Store
from wardround.serve.cds.cards import NOTICE, PreparedCard

# Requests of clients: calls of a service and feedback on its cards, checked against CDS Hooks 2.0. An element that is
# present is neither null nor empty; elements that the specification does not name are ignored.


Text = Annotated[str, Field(min_length=1, max_length=4_000)]
_UNSAID: Any = None
"""Of an element that may be left out: its absence is no value, and a null of the client's own is refused."""
MOST_AT_ONCE = 100
Body = TypeVar("Body", bound=BaseModel)


class MalformedRequest(UserError):
    """The request violates CDS Hooks; the message says how, without values."""


class _Wire(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, extra="ignore", frozen=True)


class FhirAuthorization(BaseModel):
    """A token for the client's FHIR server. It is checked and discarded: cards never call another server."""

    access_token: Text = Field(repr=False)
    token_type: Literal["Bearer"]
    expires_in: int
    scope: Text
    subject: Text


class DraftOrders(_Wire):
    """The FHIR bundle of orders that are not signed yet."""

    resource_type: Literal["Bundle"]
    entry: list[dict[str, Any]] = Field(min_length=1)


class PatientContext(_Wire):
    """Context of ``patient-view``, and the elements that every hook has."""

    user_id: Text
    patient_id: Text
    encounter_id: Text = _UNSAID


class EncounterContext(PatientContext):
    """Context of ``encounter-start``."""

    encounter_id: Text


class OrderContext(PatientContext):
    """Context of ``order-select``: ``selections`` name resources of the drafts, such as ``MedicationRequest/103``."""

    selections: list[Text] = Field(min_length=1)
    draft_orders: DraftOrders

    @model_validator(mode="after")
    def _names_drafts(self) -> Self:
        missing = set(self.selections) - self._drafts().keys()
        if missing:
            raise ValueError("selections: not a resource of draftOrders")
        return self

    def _drafts(self) -> Mapping[str, Mapping[str, Any]]:
        found = [entry.get("resource") for entry in self.draft_orders.entry]
        return {f"{one.get('resourceType')}/{one.get('id')}": one for one in found if isinstance(one, dict)}

    @property
    def order_names(self) -> tuple[str, ...]:
        """The names of the selected orders: their texts and the displays of their codes."""
        drafts = self._drafts()
        return tuple(dict.fromkeys(name for selection in self.selections for name in _names_of(drafts[selection])))


class HookRequest(_Wire):
    """One call of a service, here of ``patient-view``."""

    hook: Text
    hook_instance: UUID
    context: PatientContext
    fhir_server: Text = _UNSAID
    fhir_authorization: FhirAuthorization = Field(default=_UNSAID, repr=False)
    prefetch: dict[str, Any] = _UNSAID
    extension: dict[str, Any] = _UNSAID

    @model_validator(mode="after")
    def _names_its_server(self) -> Self:
        if self.fhir_authorization is not None and self.fhir_server is None:
            raise ValueError("fhirAuthorization needs fhirServer")
        return self


class EncounterRequest(HookRequest):
    """A call of ``encounter-start``."""

    context: EncounterContext


class OrderRequest(HookRequest):
    """A call of ``order-select``."""

    context: OrderContext


class ReasonCode(_Wire):
    """A code and its meaning."""

    code: Text
    system: Text = _UNSAID
    display: Text = _UNSAID


class OverrideReason(_Wire):
    """Why a card was dismissed."""

    reason: ReasonCode = _UNSAID
    user_comment: Text = _UNSAID


class AcceptedSuggestion(_Wire):
    """A suggestion that was accepted."""

    id: Text


class CardFeedback(_Wire):
    """The outcome of one card."""

    card: UUID
    outcome: Literal["accepted", "overridden"]
    accepted_suggestions: list[AcceptedSuggestion] = Field(default=_UNSAID, min_length=1)
    override_reason: OverrideReason = _UNSAID
    outcome_timestamp: AwareDatetime

    @field_validator("outcome_timestamp")
    @classmethod
    def _is_utc(cls, moment: AwareDatetime) -> AwareDatetime:
        if moment.utcoffset() != timedelta(0):
            raise ValueError("outcomeTimestamp is not in UTC")
        return moment

    @model_validator(mode="after")
    def _says_what_was_accepted(self) -> Self:
        if self.outcome == "accepted" and self.accepted_suggestions is None:
            raise ValueError("accepted needs acceptedSuggestions")
        return self


class FeedbackRequest(_Wire):
    """Feedback on some cards."""

    feedback: list[CardFeedback] = Field(min_length=1, max_length=MOST_AT_ONCE)


def read_body(kind: type[Body], body: bytes) -> Body:
    """Parse a body of JSON. MalformedRequest: it is not valid."""
    try:
        return kind.model_validate_json(body)
    except ValidationError as error:
        wrong = [
            (".".join(map(str, one["loc"])), one["msg"])
            for one in error.errors(include_url=False, include_context=False, include_input=False)[:5]
        ]
        raise MalformedRequest("; ".join(f"{where}: {what}" if where else what for where, what in wrong)) from None


def _names_of(resource: Mapping[str, Any]) -> Iterator[str]:
    for element in ("medicationCodeableConcept", "medication", "code", "codeCodeableConcept"):
        concept = resource.get(element)
        if isinstance(concept, dict):
            inner = concept.get("concept")
            concept = inner if isinstance(inner, dict) else concept
            codings: Sequence[Any] = concept.get("coding") or ()
            texts = [concept.get("text"), *(coding.get("display") for coding in codings if isinstance(coding, dict))]
            yield from (one for one in texts if isinstance(one, str) and one)


# The services.


Cards = Sequence[PreparedCard]


class PatientView:
    """The latest answer of each task on a patient."""

    hook = "patient-view"
    title = "Answers on this patient"
    description = "The latest answer of each task on this patient, with the rows that it cites"
    request: type[HookRequest] = HookRequest

    def meant(self, cards: Cards, context: Any) -> Cards:
        """Return the cards for a request."""
        return cards

    def bodies(self, cards: Cards, context: Any) -> Iterator[dict[str, Any]]:
        """Return the cards as JSON."""
        return (card.body() for card in latest_by_task(self.meant(cards, context)))


class EncounterStart(PatientView):
    """The answers as of a moment within the encounter."""

    hook = "encounter-start"
    title = "Answers within this encounter"
    description = "The latest answer of each task whose chart ended within this encounter"
    request = EncounterRequest

    def meant(self, cards: Cards, context: Any) -> Cards:
        """Return the cards whose chart ended in the encounter."""
        return [card for card in cards if card.encounter == context.encounter_id]


class OrderSelect:
    """Whether the answers name the selected orders."""

    hook = "order-select"
    title = "Answers on the selected orders"
    description = "Of the tasks that may be answered with a selected order: whether the latest answer names it"
    request: type[HookRequest] = OrderRequest

    def bodies(self, cards: Cards, context: Any) -> Iterator[dict[str, Any]]:
        """Return the cards as JSON."""
        for card in latest_by_task(cards):
            summary = card.order_summary(context.order_names)
            if summary is not None:
                yield card.body(summary)


Service = PatientView | OrderSelect
SERVICES: Mapping[str, Service] = {
    f"wardround-{one.hook}": one for one in (PatientView(), EncounterStart(), OrderSelect())
}
"""By id."""


def discovery() -> dict[str, Any]:
    """Return the answer of the discovery endpoint."""
    services = [
        {"hook": one.hook, "title": one.title, "description": f"{one.description} ({NOTICE})", "id": name}
        for name, one in SERVICES.items()
    ]
    return {"services": services}


def latest_by_task(cards: Cards) -> Cards:
    """Return for each task the card with the latest moment."""
    latest = {card.task.name: card for card in sorted(cards, key=lambda card: card.as_of)}
    return [latest[name] for name in sorted(latest)]


@dataclass(frozen=True, slots=True, kw_only=True)
class CardShelf:
    """The cards of a run by patient. ``run``: the run's name."""

    run: str
    store: Store
    by_subject: Mapping[int, Cards]

    @classmethod
    def of(cls, run: str, store: Store, cards: Cards) -> CardShelf:
        """Build a shelf from cards."""
        by_subject: dict[int, list[PreparedCard]] = {}
        for card in cards:
            by_subject.setdefault(card.subject_id, []).append(card)
        return cls(run=run, store=store, by_subject=by_subject)

    def names(self) -> frozenset[UUID]:
        """The names of all cards."""
        return frozenset(card.uuid for cards in self.by_subject.values() for card in cards)

    def answer(self, service: Service, body: bytes) -> dict[str, Any]:
        """Answer a request; no cards for a patient without an answer. MalformedRequest: it is not a request of this
        service."""
        asked = read_body(service.request, body)
        if asked.hook != service.hook:
            raise MalformedRequest(f"hook: this service answers {service.hook}")
        return {"cards": list(service.bodies(self._cards(asked.context.patient_id), asked.context))}

    def _cards(self, patient: str) -> Cards:
        try:
            return self.by_subject.get(self.store.subject_of(patient), ())
        except UserError:
            return ()
