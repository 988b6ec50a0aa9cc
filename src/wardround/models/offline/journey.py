"""The plans for what happens to the patient next: procedures, and the next care unit."""

from __future__ import annotations

from wardround.models.offline import queries
from wardround.models.offline.beliefs import Beliefs
from wardround.models.offline.notes import Known
from wardround.models.offline.plan import (
    PLACE,
    STAY,
    TABLES,
    Step,
    names_found,
    search_step,
    stay_hours,
    tally,
    thinking,
    together,
)
from wardround.models.offline.rules import load_rules, names
from wardround.models.offline.steps import (
    Answer,
    Plan,
    abnormal,
    believe_thoughts,
    care,
    drugs,
    place,
    reason_to_come,
    settled,
)


def _procedures(known: Known, shift: float) -> Answer:
    beliefs = Beliefs()
    for note in known.of("past"):
        again = any(word in note.value.lower() for word in names("procedures", "repeated"))
        beliefs.add(note.value, min((0.35 if again else 0.1) + 0.05 * (note.amount - 1), 0.7), note.rows)
    believe_thoughts("procedures", known, beliefs)
    return settled(beliefs, least=0.33 + shift, most=4)


PROCEDURES = Plan(
    task="procedures",
    steps=(
        TABLES,
        STAY,
        place("procedures"),
        Step(
            name="procedures of earlier stays",
            ask=lambda known: (
                [queries.past_groups("procedures_icd", "COUNT(*)")] if known.table("procedures_icd") else []
            ),
            read=tally("past", "ccs_label"),
            otherwise=lambda known: [queries.by_time("procedures_icd")],
        ),
        reason_to_come("procedures"),
        care("procedures"),
        drugs("procedures"),
        abnormal("procedures"),
        search_step("procedures"),
    ),
    answer=_procedures,
)


def _transfers(known: Known, shift: float) -> Answer:
    beliefs = Beliefs()
    named = names_found(known)
    here, service = known.first("unit"), known.first("service")
    for unit, in_charge, following, weight in load_rules()["transfers"]["next"]:
        if unit in (here, "*") and in_charge in (service, "*"):
            beliefs.add(named.get(following, following), weight)
    if here:
        beliefs.add(here, 0.3 if stay_hours(known) > 12 else 0.05, known.of("unit")[0].rows)
    believe_thoughts("transfers", known, beliefs)
    return settled(beliefs, least=1.1, most=1)


TRANSFERS = Plan(
    task="transfers",
    steps=(
        TABLES,
        STAY,
        PLACE,
        Step(
            name="how ill the patient came",
            ask=lambda known: [queries.complaints()] if known.table("triage") else [],
            read=thinking(together(tally("acuity", "acuity"), tally("complaint", "chiefcomplaint")), "transfers"),
        ),
        Step(
            name="units of earlier stays",
            ask=lambda known: [queries.counts("transfers", "careunit", "intime")] if known.table("transfers") else [],
            read=tally("before", "careunit", most=12),
        ),
        care("transfers"),
        search_step(
            "transfers", also=lambda known: sorted({unit for _, _, unit, _ in load_rules()["transfers"]["next"]})
        ),
    ),
    answer=_transfers,
)
