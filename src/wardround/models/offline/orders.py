"""The plans for what is ordered next: laboratory tests, cultures, drugs."""

from __future__ import annotations

from wardround.models.offline import queries
from wardround.models.offline.beliefs import Beliefs
from wardround.models.offline.notes import Known
from wardround.models.offline.plan import STAY, TABLES, Step, hour_of, names_found, search_step, share_of, since
from wardround.models.offline.rules import names
from wardround.models.offline.steps import (
    Answer,
    Plan,
    abnormal,
    believe_thoughts,
    care,
    drugs,
    place_and_habits,
    settled,
)


def _labevents(known: Known, shift: float) -> Answer:
    beliefs = Beliefs()
    for note in known.of("drawn"):
        beliefs.add(note.value, note.amount, note.rows)
    if not known.of("drawn"):
        for label in names("labevents", "panel"):
            beliefs.add(names_found(known).get(label, label), 0.5)
    return settled(beliefs, least=0.3 + shift, most=45, fewest=4)


LABEVENTS = Plan(
    task="labevents",
    steps=(
        TABLES,
        STAY,
        place_and_habits("labevents"),
        Step(
            name="draws of this stay",
            ask=lambda known: (
                [queries.shares("labevents", "label", "charttime", since(known), hour=hour_of(known))]
                if known.table("labevents")
                else []
            ),
            read=share_of("drawn", "label"),
            otherwise=lambda known: [queries.by_time("labevents", since(known))],
        ),
        Step(
            name="draws of earlier stays",
            ask=lambda known: (
                [queries.shares("labevents", "label", "charttime", "", hour=hour_of(known))]
                if known.table("labevents") and not known.of("drawn")
                else []
            ),
            read=share_of("drawn", "label"),
        ),
        search_step("labevents", always=lambda known: names("labevents", "panel")),
    ),
    answer=_labevents,
)


def _microbiology(known: Known, shift: float) -> Answer:
    beliefs = Beliefs()
    for note in known.of("test"):
        beliefs.add(note.value, note.amount * 0.9, note.rows)
    believe_thoughts(known, beliefs)
    return settled(beliefs, least=0.3 + shift, most=4)


MICROBIOLOGY = Plan(
    task="microbiology",
    steps=(
        TABLES,
        STAY,
        place_and_habits("microbiology"),
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


def _prescriptions(known: Known, shift: float) -> Answer:
    beliefs = Beliefs()
    named = names_found(known)
    for note in known.of("ordered"):
        beliefs.add(named.get(note.value, note.value), note.amount, note.rows)
    believe_thoughts(known, beliefs)
    return settled(beliefs, least=0.2 + shift, most=10, fewest=2)


def _label_column(known: Known) -> str:
    return "atc_label" if "atc" in known.space else "drug"


PRESCRIPTIONS = Plan(
    task="prescriptions",
    steps=(
        TABLES,
        STAY,
        place_and_habits("prescriptions"),
        Step(
            name="orders of this stay",
            ask=lambda known: (
                [queries.shares("prescriptions", _label_column(known), "starttime", since(known, hours_before=12))]
                if known.table("prescriptions")
                else []
            ),
            read=share_of("ordered", "atc_label", "drug"),
            otherwise=lambda known: [queries.by_time("prescriptions", since(known))],
        ),
        Step(
            name="orders of earlier stays",
            ask=lambda known: (
                [queries.shares("prescriptions", _label_column(known), "starttime", "")]
                if known.table("prescriptions") and len(known.of("ordered")) < 10
                else []
            ),
            read=share_of("ordered", "atc_label", "drug"),
        ),
        abnormal("prescriptions"),
        search_step(
            "prescriptions", always=lambda known: [note.value for note in known.of("ordered") if note.amount >= 0.15]
        ),
    ),
    answer=_prescriptions,
)
