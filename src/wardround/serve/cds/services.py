"""The CDS Hooks services of a finished run: which cards of a patient answer each hook."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from wardround.core import UserError
from wardround.records import Store
from wardround.serve.cds.cards import NOTICE, PreparedCard
from wardround.serve.cds.requests import EncounterRequest, HookRequest, MalformedRequest, OrderRequest
from wardround.serve.cds.requests import read_body as read_request

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
        asked = read_request(service.request, body)
        if asked.hook != service.hook:
            raise MalformedRequest(f"hook: this service answers {service.hook}")
        return {"cards": list(service.bodies(self._cards(asked.context.patient_id), asked.context))}

    def _cards(self, patient: str) -> Cards:
        try:
            return self.by_subject.get(self.store.subject_of(patient), ())
        except UserError:
            return ()
