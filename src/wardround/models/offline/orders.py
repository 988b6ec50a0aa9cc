"""The plans for what is ordered next: laboratory tests, cultures, drugs."""

from __future__ import annotations

from wardround.models.offline import queries
from wardround.models.offline.beliefs import Beliefs
from wardround.models.offline.notes import Known
from wardround.models.offline.plan import STAY, TABLES, Step, hour_of, names_found, search_step, share_of, since
from wardround.models.offline.rules import load_rules, names
from wardround.models.offline.steps import (
    Answer,
    Plan,
    abnormal,
    believe_thoughts,
    care,
    drugs,
    place,
    settled,
)

_PANEL_DRAWS = 3.0


def _panel() -> dict[str, float]:
    return dict.fromkeys(names("labevents", "panel"), _PANEL_DRAWS)


def _labevents(known: Known, shift: float) -> Answer:
    beliefs = Beliefs()
    for note in known.of("drawn"):
        beliefs.add(note.value, note.amount, note.rows)
    return settled(beliefs, least=0.3 + shift, most=45, fewest=4)


LABEVENTS = Plan(
    task="labevents",
    steps=(
        TABLES,
        STAY,
        place("labevents"),
        Step(
            name="draws of this stay, as if three of the usual panel had come before",
            ask=lambda known: [queries.shares("labevents", "label", "charttime", since(known), hour=hour_of(known))],
            read=share_of("drawn", "label", prior=_panel, base=_PANEL_DRAWS),
            otherwise=lambda known: [queries.by_time("labevents", since(known))],
        ),
        abnormal("labevents"),
        search_step("labevents", also=lambda known: names("labevents", "panel")),
    ),
    answer=_labevents,
)


def _microbiology(known: Known, shift: float) -> Answer:
    beliefs = Beliefs()
    for note in known.of("test"):
        beliefs.add(note.value, note.amount * 0.9, note.rows)
    believe_thoughts("microbiology", known, beliefs)
    return settled(beliefs, least=0.3 + shift, most=4)


MICROBIOLOGY = Plan(
    task="microbiology",
    steps=(
        TABLES,
        STAY,
        place("microbiology"),
        Step(
            name="tests sent so far",
            ask=lambda known: (
                [queries.shares("microbiologyevents", "test_name", "charttime", "")]
                if known.table("microbiologyevents")
                else []
            ),
            read=share_of("test", "test_name"),
            otherwise=lambda known: [queries.by_time("microbiologyevents")],
        ),
        drugs("microbiology"),
        abnormal("microbiology"),
        care("microbiology"),
        search_step("microbiology"),
    ),
    answer=_microbiology,
)


_USUAL_ORDERS = 3.0


def _prescriptions(known: Known, shift: float) -> Answer:
    beliefs = Beliefs()
    named = names_found(known)
    for note in known.of("ordered"):
        beliefs.add(named.get(note.value, note.value), note.amount, note.rows)
    believe_thoughts("prescriptions", known, beliefs)
    return settled(beliefs, least=0.25 + shift, most=4, fewest=2)


def _usual() -> dict[str, float]:
    return {name: _USUAL_ORDERS * share for name, share in load_rules()["prescriptions"]["usual"]}


def _orders(column: str) -> Step:
    return Step(
        name=f"orders so far by {column}",
        ask=lambda known: (
            [queries.shares("prescriptions", column, "starttime", "")]
            if known.table("prescriptions") and ("atc" in known.space) == (column == "atc_label")
            else []
        ),
        read=share_of("ordered", column, prior=_usual, base=_USUAL_ORDERS),
        otherwise=lambda known: [queries.by_time("prescriptions", since(known))],
    )


PRESCRIPTIONS = Plan(
    task="prescriptions",
    steps=(
        TABLES,
        STAY,
        place("prescriptions"),
        _orders("drug"),
        _orders("atc_label"),
        abnormal("prescriptions"),
        search_step("prescriptions", also=lambda known: [note.value for note in known.of("ordered")[:20]]),
    ),
    answer=_prescriptions,
)
