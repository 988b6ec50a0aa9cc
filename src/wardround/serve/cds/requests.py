"""Requests of CDS Hooks clients: calls of a service and feedback on its cards, checked against CDS Hooks 2.0.

An element that is present is neither null nor empty; elements that the specification does not name are ignored.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Annotated, Any, Literal, Self, TypeVar
from uuid import UUID

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator
from pydantic.alias_generators import to_camel

from wardround.core import UserError

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
        raise MalformedRequest("; ".join(_said(error))) from None


def _said(error: ValidationError) -> Iterator[str]:
    for one in error.errors(include_url=False, include_context=False, include_input=False)[:5]:
        where = ".".join(map(str, one["loc"]))
        yield f"{where}: {one['msg']}" if where else one["msg"]


def _names_of(resource: Mapping[str, Any]) -> Iterator[str]:
    for element in ("medicationCodeableConcept", "medication", "code", "codeCodeableConcept"):
        concept = resource.get(element)
        if isinstance(concept, dict):
            inner = concept.get("concept")
            yield from _words_of(inner if isinstance(inner, dict) else concept)


def _words_of(concept: Mapping[str, Any]) -> Iterator[str]:
    codings: Sequence[Any] = concept.get("coding") or ()
    texts = [concept.get("text"), *(coding.get("display") for coding in codings if isinstance(coding, dict))]
    yield from (one for one in texts if isinstance(one, str) and one)
